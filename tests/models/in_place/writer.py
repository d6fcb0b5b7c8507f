"""Sends an array of a mebibyte."""

import numpy as np

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.send("out", np.full(1 << 17, 0.5))
