"""Steps of a job that a batch system does not start: people are told what it says, instead of nothing for ever."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

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

    def on_report(self, report: Mapping[str, Any]) -> None:
        """An instance has written something, or has ended."""
        name = report.get("name", "")
        if report["is"] == "ended" or (report["is"] == "output" and _STARTED.match(report["text"])):
            if name in self._waiting:
                self._waiting.pop(name).cancel()
        elif report["is"] == "output" and name not in self._waiting and _WAITS.match(report["text"]):
            tell = f"{name}: its step has not started for {STARTS_WITHIN_S:.0f} s; {report['text'].strip()}"
            self._waiting[name] = self._loop.call_later(STARTS_WITHIN_S, self._notice, tell)
