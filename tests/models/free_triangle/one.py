"""Sends ones round the triangle and prints what comes back."""

import numpy as np

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.send("out", np.ones(5))
            for number in me.receive("in").data.tolist():
                print(f"Got from Three: {number}")
