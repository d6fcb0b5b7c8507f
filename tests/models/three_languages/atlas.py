"""Prints what the ocean was like at the end."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        state = me.receive("state").data
        column, counts = state["layers"]
        print(state["name"], state["depth"], state["wet"].tolist(), column.tolist(), counts.dtype, counts.tolist())
        for _ in me.steps():
            pass
