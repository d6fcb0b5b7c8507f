"""What the executor looks after for each of its jobs: something that runs, ends, and can be stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from snakemake_executor_plugin_xmml.local_process import LocalProcess
from xmml.late_dataclass import dataclass

#: How the commands are started with the interpreter that Snakemake runs in, whatever is on the path.
XMML_RUN = (sys.executable, "-m", "xmml_run")
XMML = (sys.executable, "-c", "from xmml_run.main import xmml; raise SystemExit(xmml())")
#: Exit statuses of `xmml-run` in words.
MEANING = {
    1: "the model has errors",
    2: "its command is wrong",
    3: "no plan satisfies the sites",
    4: "an instance failed",
    5: "a site, a relay or the network failed",
    6: "deadlock",
    130: "it was interrupted",
}
#: Characters of a log's last line that are repeated in a message.
LAST_LINE = 500


@dataclass(frozen=True)
class Ended:
    """How a job ended.

    Attributes:
        failure: why it failed; empty if it succeeded.
        logs: files to look into.
    """

    failure: str = ""
    logs: tuple[str, ...] = ()


class Task(Protocol):
    """A job that runs somewhere."""

    def ended(self) -> Ended | None:
        """Return how it ended, or `None` while it runs."""

    def interrupt(self) -> None:
        """Ask it to end and release what it holds. Does not wait."""

    def wait(self) -> None:
        """Wait until it has ended, after `interrupt`."""

    def leave(self) -> None:
        """Nobody waits for it any more, after `interrupt`. Does not wait."""


class Process(Protocol):
    """A command that runs, in a process of its own or in one that it shares with others.

    Attributes:
        errors: the file that takes its standard error.
    """

    @property
    def errors(self) -> Path: ...

    def status(self) -> int | None:
        """Return its exit status, negative for the number of a signal; `None`: it runs."""

    def interrupt(self) -> None:
        """See `Task`."""

    def wait(self) -> object:
        """See `Task`."""

    def leave(self) -> None:
        """See `Task`."""


class CommandTask:
    """A command on this machine."""

    def __init__(
        self,
        what: str,
        process: Process,
        meaning: Mapping[int, str] | None = None,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Look after a process; `done` is called when it has succeeded."""
        self._what, self._process, self._meaning, self._done = what, process, meaning or {}, done

    def ended(self) -> Ended | None:
        """See `Task`."""
        status = self._process.status()
        if status is None:
            return None
        if status == 0:
            if self._done is not None:
                self._done()
            return Ended()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        why = self._meaning.get(status)
        words = f"{self._what} ended with {how}{f' ({why})' if why else ''}"
        last = last_line(self._process.errors)
        return Ended(f"{words}: {last}" if last else words, (str(self._process.errors),))

    def interrupt(self) -> None:
        """See `Task`."""
        self._process.interrupt()

    def wait(self) -> None:
        """See `Task`."""
        self._process.wait()

    def leave(self) -> None:
        """See `Task`."""
        self._process.leave()


class AdoptedRun:
    """A coupled run that an earlier Snakemake started and that may still go on."""

    def __init__(self, folder: Path, restart: Callable[[], Task]) -> None:
        """Look after the run in a folder; `restart` begins a new one if this one was lost."""
        self.folder = folder
        self._restart = restart
        self._successor: Task | None = None
        self._cancelling: LocalProcess | None = None

    def ended(self) -> Ended | None:
        """See `Task`."""
        if self._successor is not None:
            return self._successor.ended()
        state = run_state(self.folder)
        if state in ("running", "waiting", "ending"):
            return None
        if state == "done":
            return Ended()
        _ask("cancel", str(self.folder))  # whatever it left at sites
        self._successor = self._restart()
        return None

    def interrupt(self) -> None:
        """See `Task`."""
        if self._successor is not None:
            self._successor.interrupt()
        elif self._cancelling is None:
            command = [*XMML, "cancel", str(self.folder)]
            self._cancelling = LocalProcess(command, Path(os.devnull), has_sites=True)

    def wait(self) -> None:
        """See `Task`."""
        for task in (self._successor, self._cancelling):
            if task is not None:
                task.wait()

    def leave(self) -> None:
        """See `Task`."""
        for task in (self._successor, self._cancelling):
            if task is not None:
                task.leave()


def run_state(folder: Path) -> str:
    """Return what `xmml status` says of a run: `running`, `done`, `failed`, ..., or `lost`."""
    answer = _ask("status", str(folder), "--json")
    try:
        return str(json.loads(answer)["state"])
    except (ValueError, KeyError, TypeError):
        return "lost"


def _ask(*arguments: str) -> str:
    """Return what the command `xmml` prints."""
    asked: Sequence[str] = (*XMML, *arguments)
    return subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120).stdout


def last_line(log: Path) -> str:
    """Return the last line of a log that says something, shortened."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - 8192))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    except OSError:
        return ""
    return next((line[:LAST_LINE] for line in reversed(lines) if line), "")
