"""What carries processes out: the machine that the run was launched on, or that and the jobs at other sites."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol


class Executor(Protocol):
    """Starts processes and tells what becomes of them; `fileno` is readable when `take_reports` has something."""

    @property
    def is_acquired(self) -> bool:
        """Whether everything is there that processes need."""

    @property
    def late(self) -> frozenset[str]:
        """Instances, and processes that they share, that cannot be started yet, though others can. The report `come`
        tells that some of them can."""

    def hasten(self, names: Collection[str]) -> None:
        """Somebody waits for late instances: get now what they need."""

    def fileno(self) -> int:
        """A descriptor to wait on for reports."""

    def open_relay(self) -> str | None:
        """Start the relay of this machine if the run needs one, and return where processes here find it.

        Raises:
            SiteError: it cannot be started.
        """

    def acquire(self, coordinator: Sequence[str]) -> None:
        """Begin to get what processes need; the reports `acquired` or `site failed` tell what became of it.

        Args:
            coordinator: the addresses of the coordinator.
        """

    def start(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str],
        folder: Path,
        stdout: Path,
        stderr: Path,
        terminal: str | None = None,
        hosted: Sequence[str] = (),
        fork: bool = False,
        files: Sequence[Path] = (),
    ) -> None:
        """Start a process. With `terminal` (a device) it gets that instead of captured streams; `hosted` are the
        instances that it hosts and reports about; `fork`: the fork server may start it; `files`: of the run's folder,
        which it reads."""

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process group of an instance; of one that is gone, nothing happens."""

    def remove_at_end(self, path: Path) -> None:
        """Have a file, or a folder, removed when everything has ended, also if this process is killed."""

    def take_reports(self) -> list[dict[str, Any]] | None:
        """Return what has been reported, without waiting; `None` if the supervisor of this machine is gone."""

    def close(self, run_folder: Path) -> list[dict[str, Any]]:
        """End what is left of the run, everywhere; return what was reported meanwhile that people must know: notices,
        and as `left` what could not be brought here."""
