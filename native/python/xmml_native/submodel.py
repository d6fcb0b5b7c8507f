"""Base classes for programs that are written as classes: their methods are called in the order of the model's loop."""

from __future__ import annotations

from xmml_native.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from xmml_native._native import Message
    from xmml_native.instance import Instance


class Submodel:
    """A submodel as a class: override the operators that it has; each takes no arguments.

    ``self.me`` is the instance (also in ``__init__``), ``self.t`` the time of the step in seconds. In the model:
    ``class="module:Class"``.
    """

    me: Instance
    t: float

    def f_init(self) -> None:
        """Set the initial state; may receive on ports of operator finit."""

    def O_i(self) -> None:
        """Send observations of the state, on ports of operator Oi."""

    def S(self) -> None:
        """Advance the state by one step; may receive on ports of operator S."""

    def B(self) -> None:
        """Apply boundary conditions; may receive on ports of operator B."""

    def O_f(self) -> None:
        """Send the final state, on ports of operator Of."""

    def run(self) -> None:
        """Run the submodel execution loop until no more runs follow."""
        me = self.me
        while me.reuse():
            self.t = me.origin
            self.f_init()
            for self.t in me.steps():
                self.O_i()
                self.S()
                self.B()
            self.t = me.time
            self.O_f()


class Mapper:
    """A mapper as a class: override ``map``. In the model: ``class="module:Class"``."""

    me: Instance

    def map(self, inputs: dict[str, Message | list[Message]]) -> Mapping[str, Any]:
        """Turn one message from every in port into what every out port sends.

        Args:
            inputs: by in port the message; from a multiplied instance a list with one message per copy.

        Returns:
            by out port the data, or a ``Message`` with time stamps of its own; to a multiplied instance a list with one
            item per copy, or anything but a list for the same to every copy.
        """
        raise NotImplementedError(f"{type(self).__name__}.map is not written yet")

    def run(self) -> None:
        """Map until an in port has ended."""
        run_mapper(self.me, self.map)


def run_mapper(me: Instance, map_once: Callable[[dict[str, Message | list[Message]]], Mapping[str, Any]]) -> None:
    """Receive on every in port and send what ``map_once`` makes of it, until an in port has ended."""
    ports = [port for port in me.spec["ports"] if me.connected(port["name"])]
    in_ports = [port["name"] for port in ports if port["direction"] == "in"]
    out_ports = [port["name"] for port in ports if port["direction"] == "out"]
    while me.reuse():
        outputs = map_once({port: me.receive_all(port) if me.copies(port) else me.receive(port) for port in in_ports})
        for port in out_ports:
            if port not in outputs:
                raise Error(f'{me.name}: map must return a value for every out port; "{port}" is missing')
            send_to_all(me, port, outputs[port])


def send_to_all(me: Instance, port: str, value: Any) -> None:
    """Send ``value`` on ``port``; towards copies a list is one item for each of them."""
    copies = me.copies(port)
    if not copies or not isinstance(value, list):
        me.send(port, value)
    elif len(value) == copies:
        for copy, item in enumerate(value):
            me.send(port, item, to=copy)
    else:
        raise Error(
            f"{me.name}.{port} leads to {copies} copies, but the list for it has {len(value)} items; "
            "return one item per copy, or a value that is no list for the same to each"
        )
