"""ends.py ping|pong: a ping-pong of messages of BENCH_BYTES, whose round trips ping notes in BENCH_OUT."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

import xmml

count = int(os.environ["BENCH_COUNT"])
payload = np.zeros(int(os.environ["BENCH_BYTES"]) // 8)

with xmml.Instance() as me:
    while me.reuse():
        if sys.argv[1] == "pong":
            me.send("answer", me.receive("call").data)
            continue
        clock, at = time.perf_counter_ns, [0] * (count + 1)
        steps = me.steps()
        at[0] = clock()
        for number in range(count):
            next(steps)
            me.send("call", payload)
            me.receive("answer")
            at[number + 1] = clock()
        Path(os.environ["BENCH_OUT"]).write_text(json.dumps(at))
