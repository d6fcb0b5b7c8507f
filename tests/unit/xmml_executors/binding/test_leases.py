"""Leases on CPUs, between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machines import describe
from xmml_executors.binding.leases import CpuLeases, LeaseError
from xmml_executors.binding.topology import SYSTEM_DEVICES

#: Leases CPUs of a folder, says which it got, and keeps them until its input ends.
HOLDER = """import sys
from pathlib import Path
from xmml_executors.binding.leases import CpuLeases

leases = CpuLeases(Path(sys.argv[1]))
with leases.choosing(map(int, sys.argv[2:])) as free:
    pass
print(*sorted(free), flush=True)
sys.stdin.read()
"""

Hold = Callable[..., tuple["subprocess.Popen[str]", list[int]]]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return describe(tmp_path / "devices", [(cpu,) for cpu in range(4)])


@pytest.fixture
def hold(machine: Path) -> Iterator[Hold]:
    """Has another process lease CPUs; returns it, and which it got."""
    holders = []

    def start(*cpus: int) -> tuple[subprocess.Popen[str], list[int]]:
        command = [sys.executable, "-c", HOLDER, str(machine), *map(str, cpus)]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        holders.append(holder)
        assert holder.stdout is not None
        return holder, [int(word) for word in holder.stdout.readline().split()]

    yield start
    for holder in holders:
        holder.kill()
        holder.communicate()


def test_a_cpu_is_leased_to_one_process(machine: Path, hold: Hold) -> None:
    assert hold(0, 1)[1] == [0, 1]
    leases = CpuLeases(machine)
    with leases.choosing([0, 1, 2]) as free:
        assert free == {2}
    leases.release()


def test_a_killed_process_has_no_leases(machine: Path, hold: Hold) -> None:
    holder, _ = hold(0, 1)
    holder.kill()
    holder.wait()
    leases = CpuLeases(machine)
    with leases.choosing([0, 1]) as free:
        assert free == {0, 1}
    leases.release()


def test_what_is_not_kept_is_free_for_others(machine: Path, hold: Hold) -> None:
    leases = CpuLeases(machine)
    with leases.choosing([0, 1, 2, 3]):
        leases.keep([1])
    assert hold(0, 1, 2, 3)[1] == [0, 2, 3]
    leases.release()


def test_released_cpus_are_free_for_others(machine: Path, hold: Hold) -> None:
    leases = CpuLeases(machine)
    with leases.choosing([0, 1]):
        pass
    leases.release()
    assert hold(0, 1)[1] == [0, 1]


def test_a_process_that_another_starts_does_not_keep_its_leases(machine: Path, hold: Hold) -> None:
    leases = CpuLeases(machine)
    with leases.choosing([0]):
        pass
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        leases.release()
        assert hold(0)[1] == [0]
        child.communicate(b"\n")


def test_the_holder_of_a_lease_is_known(machine: Path, hold: Hold) -> None:
    holder, _ = hold(1)
    assert CpuLeases(machine).holders([0]) == []
    assert CpuLeases(machine).holders([0, 1]) == [holder.pid]


def test_who_chooses_for_too_long_is_not_waited_for(machine: Path) -> None:
    mine, other = CpuLeases(machine), CpuLeases(machine)
    with mine.choosing([0]), pytest.raises(LeaseError, match="takes too long to choose"), other.choosing([1]):
        pass
    mine.release()


def test_a_machine_without_a_description_leases_nothing(tmp_path: Path) -> None:
    with pytest.raises(LeaseError, match=r"cannot be leased here: .*No such file"), CpuLeases(tmp_path).choosing([0]):
        pass


def test_the_cpus_of_this_machine_can_be_locked() -> None:
    leases = CpuLeases(Path(SYSTEM_DEVICES))
    with leases.choosing(os.sched_getaffinity(0)) as free:
        leases.release()
    assert free <= os.sched_getaffinity(0)
