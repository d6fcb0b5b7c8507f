"""Says in every step which numbers are larger than two, and then adds one to each."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        x = me.receive("initialData").data
        for _ in me.steps():
            me.send("largeMask", x > 2)
            x = x + 1
