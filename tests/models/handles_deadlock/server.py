import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.handle("questions")  # which it sends to nobody
            me.receive("questions")
            me.send("answer")
