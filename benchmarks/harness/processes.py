"""Running a program within a time limit, and what its processes cost in memory."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

#: `MEASURED RESULT COMMAND...` runs a command and writes `seconds`, `processor_s` and `peak_kib` of it as JSON.
MEASURED = Path(__file__).with_name("measured.py")


class RunFailed(Exception):
    """A program of a benchmark ended badly or not in time; the text has the end of what it said."""


def run(
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    cwd: Path | None = None,
    meanwhile: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> None:
    """Runs a command and waits for its end; its output goes to `log`. `meanwhile` is called with the process.

    Raises:
        RunFailed: it ended with another status than 0, or was killed with its descendants after `timeout_s`.
    """
    words = [str(word) for word in command]
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            cwd=cwd,
            start_new_session=True,
        )
        try:
            if meanwhile is not None:
                meanwhile(process)
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{words[0]} was not done within {timeout_s:.0f} s\n{_end_of(log)}") from None
        finally:
            if process.poll() is None:
                for pid in reversed(tree(process.pid)):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                process.wait()
    if status != 0:
        raise RunFailed(f"{' '.join(words)}\nended with status {status}\n{_end_of(log)}")


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def tree(root: int) -> list[int]:
    """The process `root` and its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def memory_kib(pid: int) -> int | None:
    """Proportional resident memory: each shared page is divided among those that share it. None when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def setting(pid: int, name: str) -> str | None:
    """A variable of the environment that a process was started with."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    for entry in environment.split(b"\0"):
        key, _, value = entry.partition(b"=")
        if key == name.encode():
            return value.decode()
    return None
