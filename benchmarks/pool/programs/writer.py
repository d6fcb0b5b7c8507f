"""Puts objects, then sends as many messages, twice; says how long each took. The first time memory is new."""

import json
import time

import numpy as np

import xmml

with xmml.Instance() as me:
    count, elements = me.param("count", int), me.param("elements", int)
    readers = me.param("readers", int)
    field = np.zeros(elements)
    while me.reuse():
        for is_measured in (False, True):
            begin = time.perf_counter()
            for number in range(count):
                me.put("fields", field, step=number, param=number % max(1, readers), levtype="pl")
            seconds = {"pool": time.perf_counter() - begin}
            if not readers:
                begin = time.perf_counter()
                for _ in range(count):
                    me.send("messages", field)
                seconds["messages"] = time.perf_counter() - begin
            if is_measured:
                print(json.dumps(seconds))
