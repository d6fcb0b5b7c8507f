"""The executor of a run over several sites: this machine's supervisor and the jobs elsewhere, as one."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xmml_executors import protocol
from xmml_executors.executor import LastReport, ProcessStart, Report
from xmml_executors.launch.launcher import Launcher
from xmml_executors.launch.site.journal import Journal
from xmml_executors.local import LocalExecutor
from xmml_executors.run_folder import RunFolder


class MultiSiteExecutor:
    """Gives each order to whoever has the instance, and brings the reports together.

    What instances elsewhere write goes also into the run's folder here, line by line, so that it can be followed; at
    the end the true logs take its place.
    """

    def __init__(self, folder: RunFolder, journal: Journal, local: LocalExecutor, launcher: Launcher) -> None:
        """
        Args:
            folder: of the run.
            journal: is closed with the executor.
            local: has the instances of this machine.
            launcher: has the others.
        """
        self._folder = folder
        self._journal = journal
        self._local = local
        self._launcher = launcher
        self._poll = select.epoll()
        self._poll.register(self._local.fileno(), select.EPOLLIN)
        self._poll.register(self._launcher.fileno(), select.EPOLLIN)
        self._logs: dict[str, Any] = {}

    @property
    def is_acquired(self) -> bool:
        """Whether all jobs run that the run begins with."""
        return self._launcher.is_acquired

    @property
    def late(self) -> frozenset[str]:
        """What runs in jobs that come later, and have not come yet."""
        return self._launcher.late

    def hasten(self, names: Collection[str]) -> None:
        """Ask now for the jobs of these instances."""
        self._launcher.hasten(names)

    def fileno(self) -> int:
        """A descriptor to wait on for reports."""
        return self._poll.fileno()

    def open_relay(self) -> str | None:
        """Start the relay of this machine, if some site needs one."""
        return self._launcher.open_relay()

    def acquire(self, coordinator: Sequence[str]) -> None:
        """Begin to prepare the sites and to get the jobs."""
        self._launcher.acquire(coordinator)

    def start(self, process: ProcessStart) -> None:
        """Start a process where its instance is to be."""
        if process.name in self._launcher.processes:
            self._launcher.processes.start(process)
            return
        if self._launcher.relay is not None:
            process = replace(process, env={**process.env, "XMML_RELAY": self._launcher.relay.address})
        self._local.start(process)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process group of an instance."""
        if name in self._launcher.processes:
            self._launcher.processes.signal(name, number)
        else:
            self._local.signal(name, number)

    def watch(self, name: str, pid: int) -> None:
        """Have the job of an instance watch the process that has joined."""
        if name in self._launcher.processes:
            self._launcher.processes.watch(name, pid)

    def remove_at_end(self, path: Path) -> None:
        """Have a file of this machine removed when everything has ended."""
        self._local.remove_at_end(path)

    def take_reports(self) -> Sequence[Report] | None:
        """Return what has been reported anywhere; `None` if the supervisor of this machine is gone."""
        self._poll.poll(0)
        here = self._local.take_reports()
        if here is None:
            return None
        elsewhere = self._launcher.take_reports()
        for report in elsewhere:
            if isinstance(report, protocol.Output) and not self._launcher.processes.writes_logs_here(report.name):
                self._keep(report)
        return [*here, *elsewhere]

    def _keep(self, report: protocol.Output) -> None:
        name = report.name
        path = f"{name}/{report.stream}" if name.startswith("hosts/") else self._folder.log(name, report.stream)
        log = self._logs.get(path)
        with contextlib.suppress(OSError):  # a full disk is told by whoever writes the events
            if log is None:
                files = self._folder.files
                files.make_folder(os.path.dirname(path))
                opened = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                log = self._logs[path] = open(opened, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - open as long as the run
            log.write(report.text + "\n")

    def close(self, run_folder: Path, on_report: Callable[[LastReport], None]) -> None:
        """End everything everywhere, fetch the results, and leave nothing."""
        for log in self._logs.values():
            with contextlib.suppress(OSError):
                log.close()
        try:
            self._launcher.close(on_report)
        finally:
            self._journal.close()
            self._poll.close()
            self._local.close(run_folder, on_report)
