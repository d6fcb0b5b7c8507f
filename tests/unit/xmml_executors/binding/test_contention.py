"""Whether a machine is busy, and whether bound processes have their cores for themselves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until
from xmml_executors.binding.contention import LOOK_EVERY_S, CoreWatch, why_busy

LOOP = "while True: pass"
ANY_CPU = min(os.sched_getaffinity(0))


@contextlib.contextmanager
def bound_to(cpu: int, program: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program that is bound to a CPU."""
    command = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}})\n{program}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        wait_until(lambda: os.sched_getaffinity(process.pid) == {cpu}, "it is not bound")
        yield process
        process.kill()


BUSY = os.cpu_count() or 1


def load_of(folder: Path, minute: float, now: int) -> str:
    """Write how many programs want to run, and return the file."""
    load = folder / "loadavg"
    load.write_text(f"{minute:.2f} 3.00 1.00 {now}/345 6789\n")
    return str(load)


def pressure_of(folder: Path, share: float) -> str:
    """Write for how much of the time programs wait [%], and return the file."""
    pressure = folder / "cpu"
    pressure.write_text(f"some avg10={share:.2f} avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00\n")
    return str(pressure)


@pytest.mark.parametrize(("share", "is_busy"), [(0.0, False), (31.5, False), (92.25, True)])
def test_a_machine_is_busy_if_programs_wait_for_processors(tmp_path: Path, share: float, is_busy: bool) -> None:
    assert bool(why_busy(pressure_of(tmp_path, share), load_of(tmp_path, BUSY + 1, 1))) == is_busy


def test_a_machine_is_busy_from_the_moment_on_in_which_many_programs_want_to_run(tmp_path: Path) -> None:
    assert why_busy(pressure_of(tmp_path, 92), load_of(tmp_path, 0.1, BUSY + 1))


def test_a_machine_is_not_busy_while_processors_are_idle(tmp_path: Path) -> None:
    assert why_busy(pressure_of(tmp_path, 92), load_of(tmp_path, BUSY - 0.5, BUSY)) == ""


def test_without_pressure_figures_the_load_counts(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none")
    assert why_busy(nowhere, load_of(tmp_path, 9999, 1)) == f"9999 programs want to run on {BUSY} processors"
    assert why_busy(nowhere, load_of(tmp_path, 0.1, 1)) == ""


def test_a_process_that_shares_its_core_with_a_busy_one_waits() -> None:
    with bound_to(ANY_CPU, LOOP), bound_to(ANY_CPU, LOOP) as process:
        watch = CoreWatch(os.sched_getaffinity(0))
        begin = time.monotonic()
        watch.add("a", process.pid, begin)
        assert watch.look_at == begin + LOOK_EVERY_S

        def looked() -> str:
            time.sleep(LOOK_EVERY_S)
            return watch.look(time.monotonic())

        assert wait_until(looked, "it does not wait for its core").startswith("a waited for its cores for ")


def test_a_process_that_sleeps_waits_for_no_core() -> None:
    with bound_to(ANY_CPU, "input()") as process:
        state = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "S", "it does not sleep")
        watch = CoreWatch(os.sched_getaffinity(0))
        watch.add("a", process.pid, time.monotonic())
        time.sleep(0.2)
        assert watch.look(time.monotonic()) == ""


def test_a_process_that_is_gone_waits_for_no_core() -> None:
    watch = CoreWatch(os.sched_getaffinity(0))
    with bound_to(ANY_CPU, "input()") as process:
        watch.add("a", process.pid, time.monotonic())
    assert watch.look(time.monotonic()) == ""


def test_unbound_processes_may_use_all_cpus() -> None:
    ours = os.sched_getaffinity(0)
    with bound_to(ANY_CPU, "input()") as process:
        watch = CoreWatch(ours)
        watch.add("a", process.pid, time.monotonic())
        watch.unbind([process.pid], [[ANY_CPU]])
        assert os.sched_getaffinity(process.pid) == ours
        assert watch.look_at is None


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_process_that_has_bound_itself_stays_bound() -> None:
    with bound_to(max(os.sched_getaffinity(0)), "input()") as process:
        CoreWatch(os.sched_getaffinity(0)).unbind([process.pid], [[ANY_CPU]])
        assert os.sched_getaffinity(process.pid) == {max(os.sched_getaffinity(0))}
