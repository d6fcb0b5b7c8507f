"""Prints what the ocean was like at the end."""

import numpy as np

import xmml


def words(value):
    return f"{value.dtype}{value.tolist()}" if isinstance(value, np.ndarray) else value


with xmml.Instance() as me:
    while me.reuse():
        state = me.receive("state").data
        for name, value in sorted(state.items()):
            print(name, *map(words, value if isinstance(value, list) else [value]))
        for _ in me.steps():
            pass
