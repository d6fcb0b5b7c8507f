"""Puts three fields in each step."""

import numpy as np

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            for param in "tuv":
                field = np.arange(6.0).reshape(2, 3) + t + me.index
                me.put("fields", field, step=int(t), param=param, share=t / 4)
