"""Adds its three steps to what its previous run left, and begins with 10."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        start = me.receive("start").data
        state = me.receive("before", default=10.0).data
        print(f"run from {start} s with {state}, at {me.origin} s")
        for _ in me.steps():
            state += 1.0
        me.send("after", state)
        me.send("end", state)
