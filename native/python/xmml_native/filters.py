"""Filters that are Python callables: ``class="module:function"``, hosted between the two ends of a coupling."""

from __future__ import annotations

from xmml_native._native import Message
from xmml_native.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from xmml_native.instance import Instance


def run(me: Instance, function: Callable[..., Any]) -> None:
    """Pass every message of the in port through ``function`` to the out port.

    ``function`` receives a ``Message``. What it returns is sent: data (with the time stamps of the message), a
    ``Message`` with its own, or a list of these; None drops the message. A generator sends every item that it yields.
    A class is instantiated once and its object called, so it can keep a state.
    """
    ports = {
        direction: [p["name"] for p in me.spec["ports"] if p["direction"] == direction] for direction in ("in", "out")
    }
    if len(ports["in"]) != 1 or len(ports["out"]) != 1:
        raise Error(
            f"{me.name}: a filter needs one in port and one out port, not {len(ports['in'])} and {len(ports['out'])}"
        )
    (source,), (target,) = ports["in"], ports["out"]
    apply = function() if isinstance(function, type) else function
    if not callable(apply):
        raise Error(f"{me.name}: a filter must be callable with a message; {apply!r} is not")
    while (message := me.receive_or_end(source)) is not None:
        for item in _items(apply(message)):
            if isinstance(item, Message):
                me.send(target, item)
            else:
                me.send(target, item, message.timestamp, message.next_timestamp)


def _items(result: Any) -> Iterable[Any]:
    """What a filter returned, as the data and messages to send."""
    if result is None:
        return ()
    if isinstance(result, list) and result and all(isinstance(item, Message) for item in result):
        return result
    is_generator = hasattr(result, "send") and hasattr(result, "throw")
    return result if is_generator else (result,)
