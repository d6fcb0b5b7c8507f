"""What tests that count messages say when what came is not what was sent."""

from __future__ import annotations


class MessagesWrong(AssertionError):
    """Messages were lost, doubled, reordered or altered, or whoever counted them did not get to the end.

    Never a matter of a machine that is slow.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"MESSAGES WRONG: {what}")


def require(is_so: bool, what: str) -> None:
    """Raise MessagesWrong unless it is so."""
    if not is_so:
        raise MessagesWrong(what)
