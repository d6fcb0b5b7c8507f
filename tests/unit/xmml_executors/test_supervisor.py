"""The supervisor with real processes."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from xmml_executors.local import LocalExecutor

#: Generous: the machine of the tests may be busy.
PATIENCE_S = 15.0


class Harness:
    """A supervisor and what it reported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executor = LocalExecutor()
        self.reports: list[dict[str, Any]] = []
        self.gone = False

    def start(self, name: str, script: str) -> None:
        """Start a shell script."""
        self.executor.start(
            name, ["/bin/sh", "-c", script], {}, self.folder, self.folder / f"{name}.out", self.folder / f"{name}.err"
        )

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first report, old or new, that is wanted."""
        deadline = time.monotonic() + PATIENCE_S
        seen = 0
        while time.monotonic() < deadline:
            for report in self.reports[seen:]:
                if wanted(report):
                    return report
            seen = len(self.reports)
            self.wait(deadline)
        raise AssertionError(f"not reported: {self.reports}")

    def wait(self, deadline: float) -> None:
        """Wait for reports and keep them."""
        import select

        select.select([self.executor], [], [], max(0.0, deadline - time.monotonic()))
        reports = self.executor.take_reports()
        if reports is None:
            raise AssertionError(f"the supervisor is gone: {self.reports}")
        self.reports += reports

    def ended(self, name: str) -> dict[str, Any]:
        """Return the report that an instance has ended."""
        return self.until(lambda report: report["is"] == "ended" and report["name"] == name)

    def answer(self, name: str) -> dict[str, Any]:
        """Return the first report about an instance that is not that it was started."""
        return self.until(lambda report: report["name"] == name and report["is"] != "started")

    def lines(self, name: str) -> list[tuple[str, str]]:
        """Return what an instance was reported to have written."""
        found = [report for report in self.reports if report["is"] == "output" and report["name"] == name]
        return [(report["stream"], report["text"]) for report in found]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """A supervisor that is ended after the test."""
    made = Harness(tmp_path)
    yield made
    made.executor.close(tmp_path)


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def pid_in(file: Path) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(file.read_text())


def test_the_exit_status_is_reported(harness: Harness) -> None:
    harness.start("a", "exit 7")
    assert harness.ended("a")["status"] == 7


def test_a_signal_is_reported(harness: Harness) -> None:
    harness.start("a", "kill -SEGV $$")
    assert harness.ended("a")["signal"] == signal.SIGSEGV


def test_output_is_passed_on_and_written_before_the_end_is_reported(harness: Harness) -> None:
    harness.start("a", "echo one; echo two >&2; printf three")
    harness.ended("a")
    assert sorted(harness.lines("a")) == [("stderr", "two"), ("stdout", "one"), ("stdout", "three")]
    assert (harness.folder / "a.out").read_text() == "one\nthree"
    assert (harness.folder / "a.err").read_text() == "two\n"


def test_output_that_nobody_reads_is_neither_lost_nor_kept_in_memory(harness: Harness) -> None:
    harness.start("a", "seq 1 400000")
    time.sleep(0.5)
    harness.ended("a")
    assert [int(text) for _, text in harness.lines("a")] == list(range(1, 400001))


def test_a_program_that_does_not_exist_is_refused(harness: Harness) -> None:
    harness.executor.start("a", ["/nothere"], {}, harness.folder, harness.folder / "o", harness.folder / "e")
    report = harness.until(lambda report: report["is"] == "refused")
    assert (report["errno"], report["error"]) == ("ENOENT", "No such file or directory")


def test_a_log_that_cannot_be_written_is_reported(harness: Harness) -> None:
    harness.executor.start("a", ["/bin/echo", "x"], {}, harness.folder, Path("/dev/full"), harness.folder / "e")
    report = harness.until(lambda report: report["is"] == "unwritable")
    assert (report["file"], report["error"]) == ("/dev/full", "No space left on device")


def test_a_supervisor_without_descriptors_says_so_of_each_program_and_goes_on(harness: Harness) -> None:
    harness.start("first", "echo ready")
    harness.ended("first")
    supervisor = harness.executor._process.pid
    before = resource.prlimit(supervisor, resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir(f"/proc/{supervisor}/fd"))
    outcomes = set()
    for free in range(12):
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (highest + 1 + free, before[1]))
        harness.start(f"a{free}", "true")
        report = harness.answer(f"a{free}")
        outcomes.add(report["is"])
        if report["is"] == "unwritable":
            assert report["number"] == errno.EMFILE
        elif report["is"] == "refused":
            assert report["errno"] == "EMFILE"
    assert outcomes == {"unwritable", "refused", "ended"}
    resource.prlimit(supervisor, resource.RLIMIT_NOFILE, before)
    harness.start("last", "true")
    assert harness.ended("last")["status"] == 0


def test_a_signal_reaches_the_whole_process_group(harness: Harness) -> None:
    harness.start("a", f"sleep 600 & echo $! > {harness.folder}/child; wait")
    child = pid_in(harness.folder / "child")
    harness.executor.signal("a", signal.SIGTERM)
    assert harness.ended("a")["signal"] == signal.SIGTERM
    wait_until_gone(child)


def test_signals_that_the_supervisor_ignores_work_in_an_instance(harness: Harness) -> None:
    harness.start("a", "kill -PIPE $$; kill -INT $$; exit 0")
    assert harness.ended("a")["signal"] == signal.SIGPIPE


def test_a_child_that_keeps_the_pipe_open_does_not_delay_the_end(harness: Harness) -> None:
    harness.start("a", "sleep 600 & exit 0")
    assert harness.ended("a")["status"] == 0


def test_closing_ends_also_a_grandchild_that_detached_itself(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.start("a", f"setsid sh -c 'echo $$ > {tmp_path}/daemon; trap \"\" TERM HUP; sleep 600' & sleep 600")
    daemon = pid_in(tmp_path / "daemon")
    harness.executor.close(tmp_path)
    assert not is_running(daemon)


def test_what_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.start("a", f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 1; done")
    pid = pid_in(tmp_path / "pid")
    began = time.monotonic()
    harness.executor.close(tmp_path)
    assert not is_running(pid)
    assert time.monotonic() - began < 5


def test_instances_die_with_the_supervisor(harness: Harness) -> None:
    harness.start("a", "sleep 600")
    pid = harness.until(lambda report: report["is"] == "started")["pid"]
    os.kill(harness.executor.supervisor_pid, signal.SIGKILL)
    wait_until_gone(pid)


def test_files_to_remove_go_when_everything_has_ended(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("s")
    harness.executor.remove_at_end(secret)
    harness.executor.close(tmp_path)
    assert not secret.exists()


def test_hundreds_of_instances_run_at_once(harness: Harness) -> None:
    for number in range(300):
        harness.start(f"n{number}", "read x < /dev/null; echo done")
    for number in range(300):
        assert harness.ended(f"n{number}")["status"] == 0
    assert all(harness.lines(f"n{number}") == [("stdout", "done")] for number in range(300))
