"""A supervisor with real processes, and what it reported."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waiting import LIMIT_S
from xmml_executors.executor import ProcessStart
from xmml_executors.local import LocalExecutor
from xmml_executors.open_folder import OpenFolder

Report = Any


class Supervised:
    """Starts programs in a folder by a supervisor, and keeps its reports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executor = LocalExecutor(OpenFolder(folder))
        self.reports: list[Report] = []

    def start(self, name: str, script: str) -> None:
        """Start a shell script."""
        self.executor.start(ProcessStart(name, ["/bin/sh", "-c", script], {}, self.folder, *self.logs(name)))

    def start_python(self, name: str, *arguments: str, fork: bool, **env: str) -> None:
        """Start the interpreter with these arguments; with `fork`, by the fork server."""
        env.setdefault("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        self.executor.start(
            ProcessStart(name, [sys.executable, *arguments], env, self.folder, *self.logs(name), fork=fork)
        )

    def logs(self, name: str) -> tuple[Path, Path]:
        """Return where the output of an instance goes."""
        return self.folder / f"{name}.out", self.folder / f"{name}.err"

    def until(self, wanted: Callable[[Report], bool]) -> Report:
        """Return the first report, old or new, that is wanted."""
        end = time.monotonic() + LIMIT_S
        seen = 0
        while True:
            for report in self.reports[seen:]:
                if wanted(report):
                    return report
            seen = len(self.reports)
            assert time.monotonic() < end, f"not reported: {self.reports}"
            select.select([self.executor], [], [], LIMIT_S)
            reports = self.executor.take_reports()
            assert reports is not None, f"the supervisor is gone: {self.reports}"
            self.reports += reports

    def report(self, what: str, name: str) -> Report:
        """Return the first report of a kind about an instance."""
        return self.until(lambda report: (report.word, report.name) == (what, name))

    def answer(self, name: str) -> Report:
        """Return the first report about an instance that is not that it was started."""
        return self.until(lambda report: report.name == name and report.word != "started")

    def lines(self, name: str) -> list[tuple[str, str]]:
        """Return what an instance was reported to have written."""
        found = [report for report in self.reports if report.word == "output" and report.name == name]
        return [(report.stream, report.text) for report in found]
