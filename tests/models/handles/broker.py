"""Passes on what it is offered."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            offer = me.receive("offer").data
        me.send("passed", offer)
