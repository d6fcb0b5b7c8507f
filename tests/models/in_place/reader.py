"""Says where the array lies that it has received, and what its memory is made of."""

from pathlib import Path

import xmml

with xmml.Instance() as me:
    while me.reuse():
        array = me.receive("in").data
        print("sum", array.sum())
        print("address", array.ctypes.data)
        print(Path("/proc/self/maps").read_text())
