"""Takes objects, then receives as many messages, twice; says how long each took from the first on."""

import json
import time

import xmml

with xmml.Instance() as me:
    count, wanted = me.param("count", int), me.param("wanted", int)
    while me.reuse():
        for is_measured in (False, True):
            total, begin = 0.0, 0.0
            for _ in range(wanted):
                field = me.take("fields")
                begin = begin or time.perf_counter()
                total += field.data.sum()
            seconds = {"pool": time.perf_counter() - begin}
            begin = 0.0
            for _ in range(count):
                message = me.receive("messages")
                begin = begin or time.perf_counter()
                total += message.data.sum()
            seconds["messages"] = time.perf_counter() - begin
            assert total == 0
            if is_measured:
                print(json.dumps(seconds))
