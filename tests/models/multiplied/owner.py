"""Has its numbers added up in eight parts."""

import numpy as np

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for step, _ in enumerate(me.steps()):
            me.send("numbers", np.arange(16.0) + step)
            print(me.receive("sums").data.tolist())
