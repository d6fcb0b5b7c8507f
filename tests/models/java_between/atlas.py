"""Prints what the ocean was like at the end."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        state = me.receive("state").data
        print(state["name"], state["depth"], state["heat"].tolist(), state["counts"].dtype, state["wet"].tolist())
        for _ in me.steps():
            pass
