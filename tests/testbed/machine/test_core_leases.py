"""Core leases between users, and runs whose control group has the time of one CPU only."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_models import RECEIVE, SEND, Models
from machines import describe
from needs import needs_root
from xmml_executors.binding.leases import CpuLeases

pytestmark = needs_root

NOBODY = 65534


@pytest.fixture
def machine() -> Iterator[Path]:
    """A made-up machine that every user may look at."""
    folder = Path(tempfile.mkdtemp(prefix="xmml-machine-"))
    folder.chmod(0o755)
    yield describe(folder, [(0,), (1,)])
    shutil.rmtree(folder)


def free_for(user: int, machine: Path) -> int:
    """Return how many of two CPUs a user can lease."""
    child = os.fork()
    if child == 0:
        status = 99
        with contextlib.suppress(BaseException):
            os.setuid(user)
            with CpuLeases(machine).choosing([0, 1]) as free:
                status = len(free)
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_what_one_user_has_leased_is_not_free_for_another(machine: Path) -> None:
    leases = CpuLeases(machine)
    with leases.choosing([0]):
        pass
    assert free_for(NOBODY, machine) == 1
    leases.release()
    assert free_for(NOBODY, machine) == 2


def test_every_user_can_lease_the_cpus_of_this_machine() -> None:
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.setuid(NOBODY)
            folder = os.open("/sys/devices/system/cpu/cpu0", os.O_RDONLY | os.O_DIRECTORY)
            with contextlib.suppress(BlockingIOError):  # another run may have it
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = 0
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def one_cpu() -> Iterator[list[str]]:
    """A command that carries out what follows it in a control group with the time of one CPU."""
    mounted = Path("/sys/fs/cgroup")
    for parent, sign, file, text in (
        (mounted, "cgroup.controllers", "cpu.max", "100000 100000"),
        (mounted / "cpu", "cpu.cfs_quota_us", "cpu.cfs_quota_us", "100000"),
    ):
        if not (parent / sign).exists():
            continue
        folder = parent / f"xmml-test-{os.getpid()}"
        with contextlib.ExitStack() as ending:
            try:
                folder.mkdir()
                ending.callback(folder.rmdir)
                (folder / file).write_text(text)
            except OSError as error:
                pytest.skip(f"needs a limit of CPU time in {folder} (in a container: docker run --privileged): {error}")
            yield ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh"]
        return
    pytest.skip("needs control groups of CPU time: mount -t cgroup2 cgroup2 /sys/fs/cgroup")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_run_with_the_time_of_one_cpu_is_not_bound(models: Models, one_cpu: list[str]) -> None:
    ended = models.start(models.write({"a": SEND, "b": RECEIVE}), "--bind", "core", wrapper=one_cpu).end()
    reason = "2 processes need 2 cores, and the control group of this run has the time of 1"
    ended.check(0)
    assert f"nothing is bound to cores: {reason}" in ended.err
