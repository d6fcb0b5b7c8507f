"""Prints the numbers of every message on one line."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            print(*me.receive("data").data.tolist())
