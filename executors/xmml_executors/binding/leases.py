"""Leases on the CPUs of a machine: while one run has bound processes to a CPU, no other run binds any there.

A lease is the kernel's lock (`flock`) on the folder that describes the CPU, `/sys/devices/system/cpu/cpu3`. Every user
may lock it, so that runs of different users respect each other; nothing is written, and nothing is left behind when a
process ends, however that came about. The folder around them is locked while somebody chooses.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

#: How long to wait for another run that chooses its cores, which takes it a millisecond.
CHOOSING_LIMIT_S = 0.2
CHOOSING_RETRY_S = 0.002
#: Processes that are named as holders of leases.
MOST_HOLDERS = 3


class LeaseError(Exception):
    """No CPU of this machine can be leased; the text says why."""


class CpuLeases:
    """The leases of this process. They end with `release`, or with the process.

    Args:
        folder: that describes the CPUs, as `/sys/devices/system`.
    """

    def __init__(self, folder: Path) -> None:
        self._cpus = folder / "cpu"
        self._held: dict[int, int] = {}

    @contextlib.contextmanager
    def choosing(self, cpus: Iterable[int]) -> Iterator[frozenset[int]]:
        """Lease all of these CPUs that no other process has, and give them; no other process chooses meanwhile.

        Raises:
            LeaseError: CPUs cannot be locked here.
        """
        try:
            turn = os.open(self._cpus, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _wait_for(turn)
                yield frozenset(cpu for cpu in cpus if self._lease(cpu))
            finally:
                os.close(turn)
        except OSError as error:
            self.release()
            raise LeaseError(f"CPUs cannot be leased here: {error.filename or self._cpus}: {error.strerror}") from None

    def keep(self, cpus: Collection[int]) -> None:
        """End the leases on all other CPUs."""
        for cpu in self._held.keys() - set(cpus):
            os.close(self._held.pop(cpu))

    def release(self) -> None:
        """End all leases."""
        self.keep(())

    def holders(self, cpus: Iterable[int]) -> list[int]:
        """Return processes that have leased some of these CPUs, as far as this one may know them."""
        wanted = set()
        for cpu in cpus:
            with contextlib.suppress(OSError):
                found = os.stat(self._cpus / f"cpu{cpu}")
                wanted.add(f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}")
        try:
            lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        except OSError:
            return []
        # 1: FLOCK  ADVISORY  WRITE 1205 00:16:3578 0 EOF
        rows = [line.split() for line in lines]
        pids = {int(row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5] in wanted}
        return sorted(pid for pid in pids if pid > 0)[:MOST_HOLDERS]

    def _lease(self, cpu: int) -> bool:
        if cpu in self._held:
            return True
        descriptor = os.open(self._cpus / f"cpu{cpu}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:
            os.close(descriptor)
            raise
        self._held[cpu] = descriptor
        return True


def _wait_for(turn: int) -> None:
    """Lock the folder of all CPUs.

    Raises:
        LeaseError: another process does not let go of it.
        OSError: it cannot be locked.
    """
    deadline = time.monotonic() + CHOOSING_LIMIT_S
    while True:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LeaseError("another run takes too long to choose its cores") from None
            time.sleep(CHOOSING_RETRY_S)
