"""Bounds on what something may cost: processor time, after which it is interrupted, and memory of the process."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Seconds of processor time, which do not depend on what else a machine does. Some are usual; what grows without bounds
#: takes hours.
MOST_SECONDS = 60
#: Address space one input may add, in bytes.
MOST_BYTES = 2 * 1024**3


class TooSlow(BaseException):
    """An input took longer than it may; no `Exception`, so that nobody takes it for a problem of the model."""


@contextmanager
def bounded_time(seconds: float = MOST_SECONDS) -> Iterator[None]:
    """Interrupt what takes more processor time.

    Raises:
        TooSlow: it did.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"not finished after {seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


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
