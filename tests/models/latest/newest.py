"""Prints the numbers that it sees, and polls once before. See ../test_latest.py."""

from __future__ import annotations

import xmml

with xmml.Instance() as me:
    while me.reuse():
        try:
            me.receive("fields", timeout=0)
        except xmml.ReceiveTimeoutError:
            me.send("ready", 1)
        while (message := me.receive_or_end("fields")) is not None:
            print(message.data)
