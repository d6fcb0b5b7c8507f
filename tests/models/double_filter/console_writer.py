"""Prints every number it receives on a line of its own."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            for number in me.receive("data").data:
                print(float(number))
