"""Offers a handle, asks by the one that it is offered, and adds up what it is asked."""

import xmml

asked = []

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.on_message("questions", lambda message: asked.append(message.data))
            me.send("offer", {"ask": [me.handle("questions")]})
            number = me.open("asked", me.receive("offered").data["ask"][0])
            for value in range(10):
                me.send("asked", value, to=number)
            me.close("asked", number)
            while me.serve():
                pass
    print(sum(asked))
