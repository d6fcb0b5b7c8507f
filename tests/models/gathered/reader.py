"""Receives what four ranks have put together."""

import numpy as np

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.send("start", np.arange(3.0))
            blocks = me.receive("blocks").data
            print(blocks.shape, blocks.tolist(), me.receive("notes").data)
