"""An end of the benchmark as a MUSCLE3 component: muscle3_ends.py ping|pong|sender|receiver"""

import sys
from typing import Any

import ends

end = sys.argv[1]
ends.pin(0 if end in ("ping", "sender") else 1)

from libmuscle import Instance, Message  # noqa: E402 - their threads belong to the same CPU

instance = Instance()


def send(data: Any) -> None:
    instance.send("answer" if end == "pong" else "call", Message(0.0, data=data))


def receive() -> Any:
    if end == "pong":
        instance.reuse_instance()
    data = instance.receive("answer" if end == "ping" else "call").data
    return None if data is None else data.array


if end == "pong":
    ends.run(end, send, receive)
while instance.reuse_instance():
    ends.run(end, send, receive)
