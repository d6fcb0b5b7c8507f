"""What the system shows of processes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path


def processes() -> Iterator[Path]:
    """What the system shows of each process."""
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())


def command_line(entry: Path) -> str:
    """The command line of what `processes` gave; empty for what has just ended."""
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def state(pid: int) -> str:
    """The letter of the kernel for what a process does: R, S, T, Z; empty if there is none."""
    try:
        return _status(pid)[0]
    except OSError:
        return ""


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    return state(pid) not in ("", "Z")


def parent(pid: int) -> int:
    """The parent of a process.

    Raises:
        OSError: there is no such process.
    """
    return int(_status(pid)[1])


def children(pid: int) -> list[int]:
    """The children of a process.

    Raises:
        OSError: there is no such process.
    """
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def processor_s(pid: int) -> float:
    """The processor time that a process has taken [s].

    Raises:
        OSError: there is no such process.
    """
    fields = _status(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watches(watcher: int, pid: int) -> bool:
    """Whether a process holds a descriptor of another one (`pidfd_open`)."""
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{watcher}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                if f"\nPid:\t{pid}\n" in entry.read_text():
                    return True
    return False


def _status(pid: int) -> list[str]:
    # The name before the bracket is the program's own choice.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@contextlib.contextmanager
def ignoring_children() -> Iterator[None]:
    """Programs that are started within the block inherit that SIGCHLD is ignored, as from some daemons."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)
