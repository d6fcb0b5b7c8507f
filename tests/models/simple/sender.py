"""Sends 0, 1, 2, 3, 4 in every step."""

import numpy as np

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.send("data", np.arange(5.0))
