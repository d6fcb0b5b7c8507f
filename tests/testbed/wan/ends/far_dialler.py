"""Joins a run and sends one value; writes how long it took to join, and then until the value had arrived [s]."""

import time

import xmml

began = time.monotonic()
me = xmml.Instance()
joined = time.monotonic()
me.reuse()
me.send("out0", 1)
me.leave()
print(f"{joined - began:.3f} {time.monotonic() - joined:.3f}")
