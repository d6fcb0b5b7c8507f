"""Adds up its part of the numbers."""

import xmml

with xmml.Instance() as me:
    factor = me.param("factor", float)
    while me.reuse():
        me.send("sum", factor * me.receive("part").data.sum())
    print(f"worker {me.index} of {me.count}")
