"""Sends one text to itself."""

import xmml

with xmml.Instance() as me:
    me.send("out", "the original data")
    print(f"received: {me.receive('in').data}")
