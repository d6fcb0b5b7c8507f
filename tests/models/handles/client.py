"""Sends to whatever port it is told of."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        (handle,) = me.receive("passed").data["where to ask"]
        print(xmml.Handle(handle).instance, xmml.Handle(handle).port)
        for _ in me.steps():
            me.open("questions", handle)
            for number in range(100):
                me.send("questions", [number] * number)
            (conduit,) = me.methods("questions")
            print(conduit["name"], conduit["chosen"])
            me.close("questions")
