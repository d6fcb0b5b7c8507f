"""Filters that are Python callables: ``class="module:function"``, hosted between the two ends of a coupling."""

from __future__ import annotations

from xmml_native.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from xmml_native.instance import Instance


def run(me: Instance, function: Callable[..., Any]) -> None:
    """Pass every message of the in port through ``function`` to the out port.

    ``function`` receives a ``Message``. What it returns is sent: data (with the time stamps of the message) or a
    ``Message`` with its own. A generator sends every item that it yields, so it can drop or add messages. A class is
    instantiated once and its object called, so it can keep a state.
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
        result = apply(message)
        is_generator = hasattr(result, "send") and hasattr(result, "throw")
        for item in result if is_generator else (result,):
            if isinstance(item, type(message)):
                me.send(target, item)
            else:
                me.send(target, item, message.timestamp, message.next_timestamp)
