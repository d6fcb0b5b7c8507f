"""In every step receives first and then passes on what it received, with one added: an order of its own."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.send("out", me.receive("in").data + 1)
