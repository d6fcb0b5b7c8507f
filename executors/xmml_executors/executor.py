"""What carries processes out: the machine that the run was launched on, or that and the jobs at other sites."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from xmml_planner import PlannedInstance

from xmml.late_dataclass import dataclass
from xmml_executors import protocol
from xmml_executors.run_folder import WORK


@dataclass(frozen=True)
class ProcessStart:
    """A process to be started. Paths are absolute, or relative to the folder of the run.

    Attributes:
        name: of its instance, its build, or of the process that instances share.
        env: what is added to the environment.
        terminal: a device that it gets instead of captured streams.
        hosted: the instances that it hosts and reports about.
        fork: the fork server may start it.
        files: of the run's folder, which it reads.
        cpus: that it is bound to; none: it may use the same as `xmml-run`.
    """

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    stdout: Path
    stderr: Path
    terminal: str | None = None
    hosted: Sequence[str] = ()
    fork: bool = False
    files: Sequence[Path] = ()
    cpus: Sequence[int] = ()

    def order(self) -> protocol.Start:
        """Return the order to the supervisor of this machine."""
        return protocol.Start(
            name=self.name,
            command=list(self.command),
            env=dict(self.env),
            folder=str(self.folder),
            stdout=str(self.stdout),
            stderr=str(self.stderr),
            terminal=self.terminal,
            hosted=list(self.hosted),
            fork=self.fork,
            cpus=list(self.cpus),
        )


@dataclass(frozen=True)
class Acquired:
    """Everything is there that the processes need which the run begins with."""


@dataclass(frozen=True)
class LateComing:
    """Some of the late instances can be started now."""


#: Tells people something, and the site that it is about; empty: none, or several.
Tell = Callable[[str, str], None]


@dataclass(frozen=True)
class SiteNotice:
    """People should know something of a site.

    Attributes:
        site: empty if it is not about one site.
    """

    text: str
    site: str = ""

    def __str__(self) -> str:
        return f"{self.site}: {self.text}" if self.site else self.text


@dataclass(frozen=True)
class SiteSuspected:
    """Something is wrong with a site. What it is, or that it is nothing, will be reported soon."""


@dataclass(frozen=True)
class SiteFailed:
    """Something at a site keeps the run from going on.

    Attributes:
        site: its name, if it is known.
        gone: instances of which nothing more will be heard.
        inside: if there are some, and all have ended well, it does not matter.
    """

    reason: str
    site: str | None = None
    gone: Sequence[str] = ()
    inside: Sequence[str] = ()


@dataclass(frozen=True)
class ResultsLeft:
    """What the run has made at a site has not all come back.

    Attributes:
        interrupted: because the user has interrupted it.
    """

    text: str
    interrupted: bool

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class SiteProgress:
    """What goes on at a site while the run ends: noted for `xmml status` and `xmml cancel`, and shown now and then.

    Attributes:
        doing: empty as soon as nothing goes on there any more.
    """

    site: str
    doing: str


SiteReport = Acquired | LateComing | SiteNotice | SiteSuspected | SiteFailed | ResultsLeft | SiteProgress
Report = protocol.ProcessReport | SiteReport
LastReport = SiteNotice | ResultsLeft | SiteProgress


#: What Apptainer's `--bind` does not take for a part of a path.
_MEANS_SOMETHING = re.compile(r'[,:"\\\n]|\s$')


def in_image(command: Sequence[str], instance: PlannedInstance, run_folder: str, model_folder: str) -> list[str]:
    """Return a command that starts a program in an image with what the program sees there of the files outside: the
    folders of the run and of the model, at the same paths. It works in the same folder as any other program. A command
    without an image is returned unchanged."""
    if instance.image is None:
        return list(command)
    at = command.index(instance.image)
    sees = [*_seen(run_folder), *_seen(model_folder), "--pwd", f"{run_folder}/{instance.folder}/{WORK}"]
    return [*command[:at], *sees, *command[at:]]


def _seen(folder: str) -> list[str]:
    """Return the options that show a folder in an image, at the same path."""
    if not _MEANS_SOMETHING.search(folder):
        return ["--bind", folder]
    # Singularity older than 3.9 has no --mount, which takes a line of comma-separated values, and so any name.
    quoted = folder.replace('"', '""')
    return ["--mount", f'type=bind,"source={quoted}","destination={quoted}"']


class Executor(Protocol):
    """Starts processes and tells what becomes of them; `fileno` is readable when `take_reports` has something."""

    @property
    def is_acquired(self) -> bool:
        """Whether everything is there that processes need."""

    @property
    def late(self) -> frozenset[str]:
        """Instances, and processes that they share, that cannot be started yet, though others can. `LateComing` tells
        that some of them can."""

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
        """Begin to get what processes need; `Acquired` or `SiteFailed` tells what became of it.

        Args:
            coordinator: the addresses of the coordinator.
        """

    def start(self, process: ProcessStart) -> None:
        """Start a process where it is to be."""

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process group of an instance; of one that is gone, nothing happens."""

    def watch(self, name: str, pid: int) -> None:
        """A process has joined as an instance. If it is gone and its connection may still come back, `Vanished` is to
        be reported."""

    def remove_at_end(self, path: Path) -> None:
        """Have a file, or a folder, removed when everything has ended, also if this process is killed.

        Args:
            path: absolute, or relative to the folder of the run.
        """

    def take_reports(self) -> Sequence[Report] | None:
        """Return what has been reported, without waiting; `None` if the supervisor of this machine is gone.

        Raises:
            ProtocolError: what was reported cannot be understood.
        """

    def close(self, run_folder: Path, on_report: Callable[[LastReport], None]) -> None:
        """End what is left of the run, everywhere.

        Args:
            on_report: is called, in this thread, with each report that arrives meanwhile.
        """
