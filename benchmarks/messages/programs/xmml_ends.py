"""An end of the benchmark as an xMML submodel: xmml_ends.py ping|pong|sender|receiver [lent]"""

import sys
from typing import Any

import ends

end, lent = sys.argv[1], len(sys.argv) > 2
ends.pin(0 if end in ("ping", "sender") else 1)

import xmml  # noqa: E402 - its threads belong to the same CPU


def first() -> None:
    """ping and sender: an iteration is a send (O_i), and for ping a receive (S)."""
    while me.reuse():
        steps = iter(me.steps())

        def send(data: Any) -> None:
            next(steps)  # noqa: B023
            me.send("call", data)

        ends.run(end, send, lambda: me.receive("answer").data, lend)


def pong() -> None:
    """A run is a receive (f_init) and a send (O_f)."""

    def receive() -> Any:
        me.reuse()
        return me.receive("call").data

    ends.run(end, lambda data: me.send("answer", data), receive, lend)
    while me.reuse():
        raise RuntimeError("more messages than planned")


def receiver() -> None:
    """An iteration is a receive (S)."""
    while me.reuse():
        steps = iter(me.steps())

        def receive() -> Any:
            next(steps)  # noqa: B023
            return me.receive("call").data

        ends.run(end, None, receive)


with xmml.Instance() as me:
    lend = me.empty if lent else None
    {"ping": first, "pong": pong, "sender": first, "receiver": receiver}[end]()
