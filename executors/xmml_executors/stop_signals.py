"""What stops a run, as bytes on a descriptor that an event loop can wait on: signals, or, where several runs share a
process, requests."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequests:
    """Stops one of several runs of a process. Each request does what a signal does to a run that has its process for
    itself. `fileno` is readable when there is one."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._call: Callable[[], object] | None = None

    def fileno(self) -> int:
        """Return the descriptor from which requests are read."""
        return self._reader

    def request(self) -> None:
        """Request the stop of the run. May be called in any thread."""
        with self._lock:
            if self._call is not None:
                self._call()
            elif self._writer >= 0:
                os.write(self._writer, bytes([signal.SIGINT]))

    @property
    def is_requested(self) -> bool:
        """Whether there is a request that nobody has read."""
        return has_input(self._reader)

    @contextmanager
    def calling(self, call: Callable[[], object]) -> Iterator[None]:
        """Call something for each request instead, as long as the block lasts."""
        with self._lock:
            self._call = call
        try:
            yield
        finally:
            with self._lock:
                self._call = None

    def close(self) -> None:
        """Close the descriptors; later requests have no effect."""
        with self._lock:
            os.close(self._reader)
            os.close(self._writer)
            self._reader = self._writer = -1


def has_input(descriptor: int, within_s: float = 0.0) -> bool:
    """Return whether there is something to be read, waiting for it not longer than for some time."""
    waiting = select.poll()  # unlike select.select, it takes descriptors above 1023
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(within_s * 1e3))


def take_stops(descriptor: int) -> bytes:
    """Take the bytes that wait on the descriptor of `stop_signals`, one for each signal or request, without waiting.
    There are none if somebody took them since the descriptor was found readable."""
    try:
        return os.read(descriptor, 64)
    except BlockingIOError:
        return b""


@contextmanager
def stop_signals(requests: StopRequests | None = None) -> Iterator[int]:
    """Turn what stops a run into bytes on a descriptor, as long as the block lasts: requests, or else the signals of
    this process."""
    if requests is not None:
        yield requests.fileno()
        return
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


@contextmanager
def on_stop(call: Callable[[], object], requests: StopRequests | None = None) -> Iterator[None]:
    """Call something for each request, or else each signal, that stops a run, as long as the block lasts.

    Signals are turned into calls by a thread of its own. A handler in Python would wait for the main thread, which may
    just have begun to wait for something else, and then does not hear of the signal until that is over.
    """
    if requests is not None:
        with requests.calling(call):
            yield
        return
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the one who has the main thread
        return
    with stop_signals() as wake:
        over = os.eventfd(0, os.EFD_CLOEXEC)
        thread = threading.Thread(target=_call_on_signals, args=(call, wake, over), name="stop-signals")
        thread.start()
        try:
            yield
        finally:
            os.eventfd_write(over, 1)
            thread.join()
            os.close(over)


def _call_on_signals(call: Callable[[], object], wake: int, over: int) -> None:
    waiting = select.poll()
    waiting.register(wake, select.POLLIN)
    waiting.register(over, select.POLLIN)
    while over not in dict(waiting.poll()):
        for number in take_stops(wake):
            if number in STOP_SIGNALS:
                call()
