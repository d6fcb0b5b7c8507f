"""The supervisor with real processes."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import children, ignoring_children, is_running, state, watches
from supervised import Supervised
from waiting import LIMIT_S, number_in, wait_until
from xmml_executors.executor import ProcessStart
from xmml_executors.outcome import ExitStatus
from xmml_executors.protocol import Vanished, Watch
from xmml_native import mto


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Supervised]:
    """A supervisor that is ended after the test."""
    made = Supervised(tmp_path)
    yield made
    made.executor.close(tmp_path, print)


def forked(harness: Supervised, name: str) -> None:
    """Start a program that does nothing by the fork server."""
    harness.start_python(name, "-c", "pass", fork=True)


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: not is_running(pid), f"process {pid} is still there")


def test_the_exit_status_is_reported(harness: Supervised) -> None:
    harness.start("a", "exit 7")
    assert harness.report("ended", "a").status == 7


def test_a_signal_is_reported(harness: Supervised) -> None:
    harness.start("a", "kill -SEGV $$")
    assert harness.report("ended", "a").signal == signal.SIGSEGV


def test_the_exit_status_is_reported_by_a_supervisor_whose_starter_ignores_children(tmp_path: Path) -> None:
    with ignoring_children():
        harness = Supervised(tmp_path)
    harness.start("a", "exit 7")
    assert harness.report("ended", "a").status == 7
    harness.executor.close(tmp_path, print)


def test_output_is_passed_on_and_written_before_the_end_is_reported(harness: Supervised) -> None:
    harness.start("a", "echo one; echo two >&2; printf three")
    harness.report("ended", "a")
    assert sorted(harness.lines("a")) == [("stderr", "two"), ("stdout", "one"), ("stdout", "three")]
    assert (harness.folder / "a.out").read_text() == "one\nthree"
    assert (harness.folder / "a.err").read_text() == "two\n"


def test_output_that_nobody_reads_is_neither_lost_nor_kept_in_memory(harness: Supervised) -> None:
    harness.start("a", "exec seq 1 400000")
    pid = harness.report("started", "a").pid
    wait_until(lambda: state(pid) == "S", "it does not wait, though nobody takes what it has written")
    harness.report("ended", "a")
    assert [int(text) for _, text in harness.lines("a")] == list(range(1, 400001))


def test_a_program_that_does_not_exist_is_refused(harness: Supervised) -> None:
    harness.executor.start(
        ProcessStart("a", ["/nothere"], {}, harness.folder, harness.folder / "o", harness.folder / "e")
    )
    report = harness.until(lambda report: report.word == "refused")
    assert (report.errno, report.error) == ("ENOENT", "No such file or directory")


def test_a_log_that_cannot_be_written_is_reported(harness: Supervised) -> None:
    full = Path("/dev/full")
    harness.executor.start(ProcessStart("a", ["/bin/echo", "x"], {}, harness.folder, full, harness.folder / "e"))
    report = harness.until(lambda report: report.word == "unwritable")
    assert (report.file, report.error) == ("/dev/full", "No space left on device")


def test_a_log_that_may_not_grow_any_more_is_reported(harness: Supervised) -> None:
    resource.prlimit(harness.executor.supervisor_pid, resource.RLIMIT_FSIZE, (4, 4))
    harness.start("a", "echo longer")
    report = harness.until(lambda report: report.word == "unwritable")
    assert (report.file, report.number) == (str(harness.folder / "a.out"), errno.EFBIG)


@pytest.mark.parametrize("fork", [False, True], ids=["started", "forked"])
def test_a_supervisor_without_descriptors_says_so_of_each_program_and_goes_on(harness: Supervised, fork: bool) -> None:
    def start(name: str) -> None:
        forked(harness, name) if fork else harness.start(name, "true")

    start("first")
    harness.report("ended", "first")
    supervisor = harness.executor._process.pid
    before = resource.prlimit(supervisor, resource.RLIMIT_NOFILE)
    open_ones = {int(name) for name in os.listdir(f"/proc/{supervisor}/fd")}
    free_ones = [number for number in range(len(open_ones) + 12) if number not in open_ones]
    outcomes = set()
    for free in range(12):
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (free_ones[free], before[1]))
        start(f"a{free}")
        report = harness.answer(f"a{free}")
        outcomes.add(report.word)
        if report.word == "unwritable":
            assert report.number == errno.EMFILE
        elif report.word == "refused":
            assert report.errno == "EMFILE"
    assert outcomes == {"unwritable", "refused", "ended"}
    resource.prlimit(supervisor, resource.RLIMIT_NOFILE, before)
    start("last")
    assert harness.report("ended", "last").status == 0


def test_a_fork_server_that_goes_while_no_descriptor_is_free_costs_only_what_it_was_asked_for(
    harness: Supervised,
) -> None:
    forked(harness, "first")
    harness.report("ended", "first")
    (fork_server,) = children(harness.executor.supervisor_pid)
    os.kill(fork_server, signal.SIGSTOP)
    asked = [f"a{number}" for number in range(12)]  # more than it is asked for at once
    for name in asked:
        forked(harness, name)
    harness.start("runs", "sleep 600")
    harness.until(lambda report: report.name == "runs")
    supervisor = harness.executor.supervisor_pid
    before = resource.prlimit(supervisor, resource.RLIMIT_NOFILE)
    resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (3, before[1]))
    os.kill(fork_server, signal.SIGKILL)
    for name in asked:
        report = harness.answer(name)
        assert (report.word, report.errno) == ("refused", "EMFILE")
    resource.prlimit(supervisor, resource.RLIMIT_NOFILE, before)
    forked(harness, "last")
    assert harness.report("ended", "last").status == 0
    harness.executor.signal("runs", signal.SIGTERM)
    assert harness.report("ended", "runs").signal == signal.SIGTERM


def test_words_that_are_no_order_end_the_run_and_are_shown(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        supervisor = subprocess.Popen([mto.PROGRAM, "supervise"], stdin=theirs, stderr=subprocess.PIPE, text=True)
        theirs.close()
        ours.sendall(b'{"do": "dance", "name": "a"}\n')
        _, said = supervisor.communicate(timeout=LIMIT_S)
    assert supervisor.returncode == ExitStatus.SITE_FAILED
    assert said == (
        'mto: an order from xmml-run is none: "do" is "dance", expected start, signal, watch, remove or quit: '
        '{"do": "dance", "name": "a"}\n'
    )


def test_a_signal_reaches_the_whole_process_group(harness: Supervised) -> None:
    harness.start("a", "sleep 600 & echo $! > child; wait")
    child = number_in(harness.folder / "child")
    harness.executor.signal("a", signal.SIGTERM)
    assert harness.report("ended", "a").signal == signal.SIGTERM
    wait_until_gone(child)


def test_signals_that_the_supervisor_ignores_work_in_an_instance(harness: Supervised) -> None:
    harness.start("a", "kill -PIPE $$; kill -INT $$; exit 0")
    assert harness.report("ended", "a").signal == signal.SIGPIPE


def test_a_child_that_keeps_the_pipe_open_does_not_delay_the_end(harness: Supervised) -> None:
    harness.start("a", "sleep 600 & exit 0")
    assert harness.report("ended", "a").status == 0


def test_closing_ends_also_a_grandchild_that_detached_itself(tmp_path: Path) -> None:
    harness = Supervised(tmp_path)
    harness.start("a", "setsid sh -c 'echo $$ > daemon; trap \"\" TERM HUP; sleep 600' & sleep 600")
    daemon = number_in(tmp_path / "daemon")
    harness.executor.close(tmp_path, print)
    assert not is_running(daemon)


def test_a_process_below_a_script_that_lives_on_is_missed_when_it_is_gone(harness: Supervised) -> None:
    harness.start("a", "sleep 600 & echo $! > below.part; mv below.part below; wait; exec sleep 600")
    below = number_in(harness.folder / "below")
    harness.executor._tell(Watch("a", os.getpid()))  # the number of somebody else
    harness.executor._tell(Watch("a", below))
    supervisor = harness.executor.supervisor_pid
    wait_until(lambda: watches(supervisor, below), "nobody watches it")
    assert not watches(supervisor, os.getpid())
    os.kill(below, signal.SIGKILL)
    assert harness.answer("a") == Vanished("a")


def test_a_process_that_was_gone_before_it_was_to_be_watched_is_missed_while_nobody_has_waited_for_it(
    harness: Supervised,
) -> None:
    harness.start("a", "sleep 600 & echo $! > below.part; mv below.part below; exec sleep 600")
    below = number_in(harness.folder / "below")
    instance = harness.until(lambda report: report.word == "started").pid
    name = Path(f"/proc/{instance}/comm")
    wait_until(lambda: name.read_text() == "sleep\n", "there is still a shell, which might wait for it")
    os.kill(below, signal.SIGKILL)
    wait_until_gone(below)
    harness.executor._tell(Watch("a", below))
    assert harness.answer("a") == Vanished("a")


def test_what_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    harness = Supervised(tmp_path)
    harness.start("a", "trap '' TERM; echo $$ > pid; while :; do sleep 1; done")
    pid = number_in(tmp_path / "pid")
    harness.executor.close(tmp_path, print)
    assert not is_running(pid)


def test_instances_die_with_the_supervisor(harness: Supervised) -> None:
    harness.start("a", "sleep 600")
    pid = harness.until(lambda report: report.word == "started").pid
    os.kill(harness.executor.supervisor_pid, signal.SIGKILL)
    wait_until_gone(pid)


def test_files_to_remove_go_when_everything_has_ended(tmp_path: Path) -> None:
    harness = Supervised(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("s")
    harness.executor.remove_at_end(secret)
    harness.executor.close(tmp_path, print)
    assert not secret.exists()


def test_folders_to_remove_go_with_everything_in_them(tmp_path: Path) -> None:
    harness = Supervised(tmp_path)
    (tmp_path / "session/below").mkdir(parents=True)
    (tmp_path / "session/below/file").write_text("s")
    harness.executor.remove_at_end(tmp_path / "session")
    harness.executor.close(tmp_path, print)
    assert not (tmp_path / "session").exists()


def test_hundreds_of_instances_run_at_once(harness: Supervised) -> None:
    for number in range(300):
        harness.start(f"n{number}", "read x < /dev/null; echo done")
    for number in range(300):
        assert harness.report("ended", f"n{number}").status == 0
    assert all(harness.lines(f"n{number}") == [("stdout", "done")] for number in range(300))
