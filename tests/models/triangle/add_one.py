"""Passes on what it receives, with one added."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        me.send("out", me.receive("in").data + 1)
