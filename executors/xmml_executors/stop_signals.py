"""The signals that stop a run, as bytes on a descriptor that an event loop can wait on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals() -> Iterator[int]:
    """Turn the signals that stop a run into bytes on a descriptor, as long as the block lasts."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before_wake = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in STOP_SIGNALS}
    try:
        yield wake_read
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before_wake)
        os.close(wake_read)
        os.close(wake_write)
