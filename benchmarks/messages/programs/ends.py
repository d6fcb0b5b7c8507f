"""The two ends of a benchmark, for programs in Python: what is sent, how often, and what is reported.

The same as ends.h for C and C++, which says what the environment sets.
"""

from __future__ import annotations

import functools
import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Send = Callable[[Any], object]
Receive = Callable[[], Any]
Lend = Callable[[int], Any]
Make = Callable[[], Any]

TOUCH = os.environ.get("BENCH_TOUCH", "read")


def pin(end: int) -> None:
    """Puts this process (and what it starts from now on) on the CPU of the end with this number."""
    cpus = os.environ["BENCH_CPUS"]
    if cpus:
        os.sched_setaffinity(0, {int(cpus.split(",")[end])})


def end_of(number: int) -> str:
    """The end that the process with this number (0 or 1) plays in the pattern."""
    return {"pingpong": ("ping", "pong"), "stream": ("sender", "receiver")}[os.environ["BENCH_PATTERN"]][number]


def touch(array: Any) -> None:
    """Reads a received array: all of it from 4 KiB on, the first and last value below; unless nobody touches any."""
    if array is not None and TOUCH != "none":
        if array.nbytes < 4096:
            array[0] + array[-1]
        else:
            array.sum()


def fill(array: Any, value: float) -> None:
    """Marks an array before it is sent; writes it whole if that is asked for."""
    if array is not None and TOUCH != "none":
        if TOUCH == "write" and array.nbytes >= 4096:
            array.fill(value)
        else:
            array[0] = value


def proportional_kib() -> int:
    """Resident memory, a page that two processes share counted as half a page of each."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def memory_kib(line_name: str) -> int:
    """A line of /proc/self/status: VmRSS or VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(line_name + ":"):
            return int(line.split()[1])
    raise LookupError(line_name)


def forget_peak() -> None:
    """From now on VmHWM counts afresh."""
    Path("/proc/self/clear_refs").write_text("5")


def run(end: str, send: Send | None, receive: Receive | None, lend: Lend | None = None) -> None:
    """Plays one end ("ping", "pong", "sender" or "receiver") of every segment of the plan.

    `send` takes an array of float64 or None (0 bytes), `receive` returns one. `lend` makes the array for each message,
    of that many values; without it the same is sent again and again.
    """
    folder = Path(os.environ["BENCH_OUT"])
    barrier = os.open(folder / "barrier", os.O_RDWR | os.O_CLOEXEC)
    with (folder / f"{end}.jsonl").open("w") as report:
        for segment in os.environ["BENCH_PLAN"].split(","):
            size, count = map(int, segment.split(":"))
            before, share_before = memory_kib("VmRSS"), proportional_kib()
            forget_peak()
            own = np.full(size // 8, 1.0) if size and lend is None and end != "receiver" else None
            make = functools.partial(lend, size // 8) if size and lend is not None else functools.partial(same, own)
            seconds = TURNS[end](make, count, min(max(count // 10, 1), 200), send, receive, barrier)
            line = {
                "bytes": size,
                "count": count,
                "seconds": seconds,
                "before_kib": before,
                "peak_kib": memory_kib("VmHWM"),
                "share_before_kib": share_before,
                "share_kib": proportional_kib(),
            }
            print(json.dumps(line), file=report, flush=True)
            del own, make
    os.close(barrier)


def same(array: Any) -> Any:
    return array


def ping(make: Make, count: int, warm_up: int, send: Send, receive: Receive, barrier: int) -> float:
    start = 0.0
    for i in range(-warm_up, count):
        if i == 0:
            start = time.monotonic()
        data = make()
        fill(data, i)
        send(data)
        del data
        touch(receive())
    return (time.monotonic() - start) / (2 * count)


def pong(make: Make, count: int, warm_up: int, send: Send, receive: Receive, barrier: int) -> float:
    for _ in range(-warm_up, count):
        touch(receive())
        data = make()
        fill(data, 1.0)
        send(data)
        del data
    return 0.0


def sender(make: Make, count: int, warm_up: int, send: Send, receive: Receive, barrier: int) -> float:
    start = 0.0
    for i in range(-warm_up, count):
        if i == 0:
            os.read(barrier, 8)
            start = time.monotonic()
        data = make()
        fill(data, i)
        send(data)
        del data
    (end,) = struct.unpack("d", os.read(barrier, 8))
    return float(end - start) / count


def receiver(make: Make, count: int, warm_up: int, send: Send, receive: Receive, barrier: int) -> float:
    for i in range(-warm_up, count):
        if i == 0:
            os.write(barrier, struct.pack("d", 0.0))
        touch(receive())
    os.write(barrier, struct.pack("d", time.monotonic()))
    return 0.0


TURNS: dict[str, Callable[..., float]] = {"ping": ping, "pong": pong, "sender": sender, "receiver": receiver}
