import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.receive("answer")
