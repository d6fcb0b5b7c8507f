"""Steps of a job that a batch system does not start: a notice gives its reason."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from xmml_executors.protocol import Ended, Output, ProcessReport

#: So long a step may take to start before people are told.
STARTS_WITHIN_S = 30.0
#: How srun says that a step must wait, and that it has started.
_WAITS = re.compile(r"srun: .*step creation (?:temporarily|still) disabled")
_STARTED = re.compile(r"srun: .*[Ss]tep created")


class StepsAwaited:
    """Steps of MPI programs that srun has not started yet, by what it writes to their standard error."""

    def __init__(self, loop: asyncio.AbstractEventLoop, notice: Callable[[str], None]) -> None:
        self._loop, self._notice = loop, notice
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def on_report(self, report: ProcessReport) -> None:
        """An instance has written something, or has ended."""
        match report:
            case Output(name, _, text) if name not in self._waiting and _WAITS.match(text):
                tell = f"{name}: its step has not started for {STARTS_WITHIN_S:.0f} s; {text.strip()}"
                self._waiting[name] = self._loop.call_later(STARTS_WITHIN_S, self._notice, tell)
            case Ended(name):
                self._forget(name)
            case Output(name, _, text) if _STARTED.match(text):
                self._forget(name)

    def _forget(self, name: str) -> None:
        if name in self._waiting:
            self._waiting.pop(name).cancel()
