"""Sends the level of the sea to all ranks of the ocean."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            me.send("level", t / 2)
