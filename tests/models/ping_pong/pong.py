"""Sends every message back with all its bits turned."""

import xmml

messages = 0
with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.send("out", ~me.receive("in").data)
            messages += 1
print(f"{messages} messages")
