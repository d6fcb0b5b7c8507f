"""Takes the objects of one of many readers in a process."""

import xmml


class Many(xmml.Submodel):
    """One of them."""

    def O_f(self) -> None:
        for _ in self.me.objects("fields"):
            pass
