"""Bounds on what one input may cost: a time after which it is interrupted, and the memory of the process."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Seconds one input may take, on a machine that does other things as well. What is not bounded takes hours.
MOST_SECONDS = 60
#: Address space one input may add, in bytes.
MOST_BYTES = 2 * 1024**3


class TooSlow(BaseException):
    """An input took longer than it may; no `Exception`, so that nobody takes it for a problem of the model."""


@contextmanager
def bounded_time(seconds: float = MOST_SECONDS) -> Iterator[None]:
    """Interrupt what takes longer.

    Raises:
        TooSlow: it did.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"not finished after {seconds} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def bounded_memory(more: int = MOST_BYTES) -> Iterator[None]:
    """Let the process grow by so many bytes and no further: then there is a `MemoryError`."""
    with open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
