"""What the ends of all peers in Python have in common: what is written and read, when it begins, what is reported.

The same as ends.hpp for C and C++. The environment says what the case is; cases.py and peers.py explain it.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def setting(name: str) -> int:
    return int(os.environ[f"BENCH_{name}"])


COUNT, SIZE_B, PAIRS = setting("COUNT"), setting("SIZE_B"), setting("PAIRS")
PARAMS, WANTED = setting("PARAMS"), setting("WANTED")
IS_FLUSHED, IS_COPIED = bool(setting("FLUSHED")), bool(setting("COPIED"))
OVER, FOLDER = os.environ["BENCH_OVER"], os.environ["BENCH_FOLDER"]
PASSES = 2
#: How many objects of a writer its reader wants.
EXPECTED = COUNT // PARAMS * WANTED + min(COUNT % PARAMS, WANTED)

#: The payload is written once more for each object: peers that keep it copy it.
BUFFER = bytearray(SIZE_B)
FIELD = np.frombuffer(BUFFER)
FIELD[:] = 1

TWELVE = struct.Struct("<2s4s2s4s1sqH3sHHqI")


def packed(number: int, index: int) -> bytes:
    """Twelve attributes as they are declared in the model of xMML: this costs less than any text."""
    level, param = 1 + index % 137, index % PARAMS
    return TWELVE.pack(b"od", b"enfo", b"fc", b"0001", b"g", 20261127, 1200, b"pl", level, number, index, param)


def step_of(attributes: bytes) -> int:
    """Reads all twelve, and returns the step."""
    return int(TWELVE.unpack_from(attributes)[10])


class End:
    """The line to the benchmark, which lets all ends begin a pass together."""

    def __init__(self) -> None:
        self.line = socket.socket(socket.AF_UNIX)
        self.line.connect(os.environ["BENCH_CONDUCTOR"])

    def meet(self) -> float:
        """Wait until all ends are here; return the time."""
        self.line.sendall(b"\n")
        assert self.line.recv(1)
        return time.monotonic()

    def report(self, **measured: float) -> None:
        """Say what was measured, and wait until all have: who has written stays until everything is read."""
        self.line.sendall(json.dumps(measured).encode() + b"\n")
        assert self.line.recv(1)


def write(put: Callable[[int], Any], flush: Callable[[], Any] = int) -> None:
    """Write the objects of each pass; `put` has the index of the object. `flush` sees to it that all are under way."""
    end = End()
    for _ in range(PASSES):
        begin, processor_s = end.meet(), -time.process_time()
        for index in range(COUNT):
            put(index)
        flush()
        processor_s += time.process_time()
    end.report(begin=begin, end=time.monotonic(), processor_s=processor_s)


def read(objects: Iterator[tuple[int, Any]], *, are_lent: bool = False, between: Callable[[], Any] = int) -> None:
    """Read the steps and payloads of each pass.

    Args:
        are_lent: the payloads lie in memory that is not the reader's own.
        between: called between two passes, while nobody reads or writes.
    """
    end = End()
    own = np.zeros_like(FIELD)
    for _ in range(PASSES):
        between()
        count, steps, total = 0, 0, 0.0
        end.meet()
        processor_s = -time.process_time()
        for step, field in itertools.islice(objects, EXPECTED):
            count += 1
            steps += step
            if not IS_COPIED:
                total += field.sum()
            elif are_lent:
                own[:] = field
                total += own[-1]
            else:
                total += field[-1]
        finished = time.monotonic()
        processor_s += time.process_time()
    end.report(end=finished, processor_s=processor_s, count=count, steps=steps, total=float(total))


def play(writer: Callable[[int], None], reader: Callable[[int], None]) -> int:
    """Be one end, if the command names it; else start all of them, and return the exit status."""
    if len(sys.argv) > 1:
        {"writer": writer, "reader": reader}[sys.argv[1]](int(sys.argv[2]))
        return 0
    words = [[role, str(number)] for role in ("reader", "writer") for number in range(PAIRS)]
    ends = [subprocess.Popen([sys.executable, sys.argv[0], *its]) for its in words]
    try:
        while any(end.poll() is None for end in ends) and not any(end.poll() for end in ends):
            time.sleep(0.02)
    finally:
        for end in ends:
            if end.poll() is None:
                end.kill()
    return int(any(end.wait() for end in ends))
