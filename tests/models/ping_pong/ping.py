"""Sends messages of many sizes and checks that each comes back with every byte changed as agreed."""

import numpy as np

import xmml

SIZES_B = (0, 1, 7, 1000, 1460, 65_536, 1_000_000)

passed_b = 0
with xmml.Instance() as me:
    while me.reuse():
        for number, _ in enumerate(me.steps()):
            size_b = SIZES_B[number % len(SIZES_B)]
            sent = np.random.default_rng(number).integers(0, 256, size_b, np.uint8)
            me.send("out", sent)
            back = me.receive("in").data
            assert back.dtype == np.uint8, f"message {number} came back as {back.dtype}"
            assert np.array_equal(back, ~sent), f"message {number} came back changed"
            passed_b += size_b
        print(f"{number + 1} messages there and back, {passed_b} bytes each way")
