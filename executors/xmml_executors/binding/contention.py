"""Whether the cores that processes are bound to are theirs alone: leases bind runs of xMML only, not other programs.

Two coupled processes on cores of which each is shared with a busy program wait for each other's turn, message by
message; left to the kernel they find their way. So a busy machine is not bound to, and who turns out to wait for its
core is bound no longer.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

#: A machine is busy if in the last 10 s processes have waited for a processor for more than this share of the time.
BUSY_FROM = 0.5
#: How often to look whether bound processes wait, and from which share of that time on it is too much.
LOOK_EVERY_S = 1.0
WAITING_FROM = 0.25


def why_busy(pressure: str = "/proc/pressure/cpu", load: str = "/proc/loadavg") -> str:
    """Return that this machine is busy, and how; empty if it is not.

    Programs also wait for one processor while others are idle, where somebody has bound them or the kernel has put them
    together. So a machine is busy only if at least as many programs want to run as it has processors.

    Args:
        pressure: the file that says how long programs wait for processors; not every kernel has it.
        load: the one that says how many want to run.
    """
    # 9.50 11.20 8.00 7/345 6789: in the last minute, 5 and 15 minutes; now, we among them
    words = _words(load)
    running = max(float(words[0]), int(words[3].partition("/")[0]) - 1) if len(words) > 3 else 0.0
    count = os.cpu_count() or 1
    if running < count:
        return ""
    # some avg10=12.30 avg60=3.00 avg300=0.50 total=1234
    words = _words(pressure)
    if len(words) < 2 or not words[1].startswith("avg10="):
        return f"{running:g} programs want to run on {count} processors"
    share = float(words[1].removeprefix("avg10=")) / 100
    return f"programs have waited for processors for {share:.0%} of the last 10 s" if share > BUSY_FROM else ""


class CoreWatch:
    """Looks how long bound processes wait for their cores.

    Args:
        allowed: the CPUs that they may use when they are no longer bound.
    """

    def __init__(self, allowed: Iterable[int]) -> None:
        self.look_at: float | None = None
        self._allowed = frozenset(allowed)
        self._pids: dict[str, int] = {}
        self._waited: dict[tuple[int, int], int] = {}
        self._looked_at = 0.0

    def add(self, name: str, pid: int, now: float) -> None:
        """Watch a bound process from now on: it has begun with its work."""
        self._pids[name] = pid
        self._waited.update(self._waits(pid))
        if self.look_at is None:
            self._looked_at, self.look_at = now, now + LOOK_EVERY_S

    def look(self, now: float) -> str:
        """Return which process waits too much for its cores, and how much; empty if none does."""
        elapsed_s = now - self._looked_at
        self._looked_at, self.look_at = now, now + LOOK_EVERY_S
        waits = {name: self._waits(pid) for name, pid in self._pids.items()}
        before, self._waited = self._waited, {thread: ns for each in waits.values() for thread, ns in each.items()}
        shares = {
            name: max((ns - before.get(thread, ns) for thread, ns in each.items()), default=0) / 1e9 / elapsed_s
            for name, each in waits.items()
        }
        name = max(shares, key=lambda each: shares[each], default="")
        if not name or shares[name] < WAITING_FROM:
            return ""
        return f"{name} waited for its cores for {shares[name]:.0%} of {elapsed_s:.1f} s: other programs use them, too"

    def unbind(self, pids: Iterable[int], bound: Iterable[Iterable[int]]) -> None:
        """Let processes use all CPUs again. Threads that have bound themselves otherwise stay as they are.

        Args:
            pids: of all processes of the run.
            bound: the CPUs of each process that was bound.
        """
        masks = {frozenset(cpus) for cpus in bound}
        for process in pids:
            for thread in _threads(process):
                with contextlib.suppress(OSError):
                    if os.sched_getaffinity(thread) in masks:
                        os.sched_setaffinity(thread, self._allowed)
        self._pids.clear()
        self.look_at = None

    @staticmethod
    def _waits(pid: int) -> dict[tuple[int, int], int]:
        """Return for how long each thread of a process has been ready to run without running [ns]."""
        found = {}
        for thread in _threads(pid):
            words = _words(f"/proc/{pid}/task/{thread}/schedstat")
            if len(words) > 1 and words[1].isdigit():
                found[pid, thread] = int(words[1])
        return found


def _threads(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return []


def _words(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return []
