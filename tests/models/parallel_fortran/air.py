"""Sees the surface and the depth of the whole ocean as one array, and sends the wind as one."""

import numpy as np

import xmml

x, y = np.meshgrid(np.arange(7), np.arange(5), indexing="ij")

with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            me.send("wind", x - 100.0 * y + t)
            me.send("level", t / 2)
            surface = me.receive("surface").data
            assert np.array_equal(surface, 10.0 * x + y + 1000 * t), surface
            assert np.array_equal(me.receive("depth").data, -surface)
    print(surface.shape)
