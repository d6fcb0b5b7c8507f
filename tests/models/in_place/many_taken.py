"""Adds up what it receives in each step, and drops it."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        total = 0.0
        for _ in me.steps():
            total += me.receive("in").data.sum()
        print("sum", total)
