"""What the thread of the sites reports to the event loop of a run."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from xmml_executors.executor import Report


class ReportQueue:
    """Reports that wait to be taken, and a descriptor that says so. Any thread may put some in.

    When a run has ended, the thread may still report something of it. That is dropped: by then the number of its
    descriptor may be that of a file of another run.
    """

    def __init__(self) -> None:
        self._reports: deque[Report] = deque()
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_closed = False
        self._changing = threading.Lock()

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._event

    def put(self, report: Report) -> None:
        """Add a report, unless the queue is closed."""
        with self._changing:
            if not self._is_closed:
                self._reports.append(report)
                os.eventfd_write(self._event, 1)

    def take(self) -> list[Report]:
        """Return what has been reported, without waiting."""
        with self._changing:
            try:
                os.eventfd_read(self._event)
            except BlockingIOError:
                return []
            taken = list(self._reports)
            self._reports.clear()
            return taken

    def take_until(self, done: Future[Any]) -> Iterator[Report]:
        """Yield reports as they arrive, until something is done."""
        done.add_done_callback(lambda _: self._wake())
        waiting = select.poll()
        waiting.register(self._event, select.POLLIN)
        while not done.done():
            waiting.poll()
            yield from self.take()

    def _wake(self) -> None:
        with self._changing:
            if not self._is_closed:
                os.eventfd_write(self._event, 1)

    def close(self) -> list[Report]:
        """Close the descriptor; return the reports that were not taken."""
        with self._changing:
            self._is_closed = True
            os.close(self._event)
            return list(self._reports)
