"""Gives a handle of its port away, and prints what comes there."""

import xmml

with xmml.Instance() as me:
    methods = [name for name in me.param("methods", str).split(",") if name]
    while me.reuse():
        for _ in me.steps():
            handle = me.handle("questions", methods=methods)
            print(f"{len(handle)} bytes: {handle}")
            me.send("offer", {"where to ask": [handle]})
            for number, question in enumerate(me.messages("questions")):
                assert question.data == [number] * number, question.data
            print(f"{number + 1} questions")
