"""Programs that the fork server starts are like those that are started for themselves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import children, command_line, is_running
from supervised import Supervised
from waiting import LIMIT_S, wait_until
from xmml_executors.executor import ProcessStart

TELL = """import json, os, sys, threading
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__, "cwd": os.getcwd(),
    "env": dict(os.environ), "leads": os.getpgrp() == os.getpid(), "parent": os.getppid(), "stdin": sys.stdin.read(),
    "main": sys.modules["__main__"].__dict__ is globals(), "threads": threading.active_count(),
}))
"""


class Started(Supervised):
    """Programs in Python, and what they wrote."""

    def run(self, name: str, text: str, *arguments: str, fork: bool = True, **env: str) -> None:
        script = self.folder / f"{name}.py"
        script.write_text(text)
        self.start_python(name, str(script), *arguments, fork=fork, PYTHONUNBUFFERED="1", **env)

    def out(self, name: str) -> str:
        return self.logs(name)[0].read_text()

    def err(self, name: str) -> str:
        return self.logs(name)[1].read_text()

    def fork_server(self) -> int:
        """The process id of the fork server."""
        found = [pid for pid in children(self.executor.supervisor_pid) if is_fork_server(pid)]
        assert len(found) == 1, "there is no fork server"
        return found[0]


def is_fork_server(pid: int) -> bool:
    return "fork_server" in command_line(Path(f"/proc/{pid}"))


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    made = Started(tmp_path)
    yield made
    made.executor.close(tmp_path, print)


def test_a_program_finds_what_it_finds_when_an_interpreter_is_started_for_it(started: Started) -> None:
    told = {}
    for name, fork in (("forked", True), ("plain", False)):
        started.run(name, TELL, "--grid", "a b", fork=fork, MODE="fast")
        assert started.report("ended", name).status == 0, started.err(name)
        told[name] = json.loads(started.out(name).replace(f"{name}.py", "script.py"))
    assert told["forked"] == told["plain"]
    assert told["forked"]["parent"] == started.executor.supervisor_pid
    assert told["forked"]["leads"]


def test_a_forked_program_runs_on_the_cpus_that_it_was_given(started: Started) -> None:
    one = max(os.sched_getaffinity(0))
    command = [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]
    logs = started.logs("a")
    started.executor.start(ProcessStart("a", command, {}, started.folder, *logs, fork=True, cpus=[one]))
    assert started.report("ended", "a").status == 0, started.err("a")
    assert started.out("a") == f"{{{one}}}\n"
    assert os.sched_getaffinity(started.fork_server()) == os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("text", "status", "number"),
    [
        ("import sys; sys.exit(3)", 3, None),
        ("import sys; sys.exit('no more')", 1, None),
        ("raise ValueError('negative depth')", 1, None),
        ("raise KeyboardInterrupt", None, signal.SIGINT),
        ("import os; os.kill(os.getpid(), 9)", None, signal.SIGKILL),
        ("this is no Python", 1, None),
    ],
)
def test_it_ends_as_it_would_otherwise(started: Started, text: str, status: int | None, number: int | None) -> None:
    for name, fork in (("forked", True), ("plain", False)):
        started.run(name, text, fork=fork)
        ended = started.report("ended", name)
        assert (ended.status, ended.signal) == (status, number), started.err(name)
    assert started.err("forked") == started.err("plain").replace("plain.py", "forked.py")


def test_what_is_done_at_exit_is_done(started: Started) -> None:
    started.run("a", "import atexit; atexit.register(print, 'at exit')")
    started.report("ended", "a")
    assert started.out("a") == "at exit\n"


def test_a_signal_reaches_it(started: Started) -> None:
    started.run("a", "import time; print('up', flush=True); time.sleep(600)")
    started.report("output", "a")
    started.executor.signal("a", signal.SIGTERM)
    assert started.report("ended", "a").signal == signal.SIGTERM


def test_many_are_started_one_after_the_other(started: Started) -> None:
    for number in range(40):
        started.run(f"p{number}", "import sys; print(sys.argv[1])", str(number))
    for number in range(40):
        assert started.report("ended", f"p{number}").status == 0
        assert started.out(f"p{number}") == f"{number}\n"


def test_without_a_fork_server_programs_are_started_as_usual(started: Started) -> None:
    started.run("first", "print(1)")
    started.report("ended", "first")
    os.kill(started.fork_server(), signal.SIGKILL)
    for name in ("second", "third"):
        started.run(name, "print(2)")
        assert started.report("ended", name).status == 0
        assert started.out(name) == "2\n"


def test_what_was_forked_dies_with_the_supervisor(started: Started) -> None:
    started.run("a", "import time; print('up', flush=True); time.sleep(600)")
    pid = started.report("started", "a").pid
    started.report("output", "a")
    os.kill(started.executor.supervisor_pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid), "it lives on")


def test_a_program_that_was_asked_for_by_a_supervisor_that_listens_no_more_is_ended_in_silence(tmp_path: Path) -> None:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        order = {"name": "a", "command": [sys.executable, "-c", "print(1)"], "parent": os.getpid(), "environ": {}}
        files = [os.open(tmp_path / name, os.O_CREAT | os.O_WRONLY) for name in ("out", "err", "failed")]
        socket.send_fds(ours, [json.dumps(order).encode()], [*files, os.open(tmp_path, os.O_RDONLY)])
        ours.close()
        serve = f"from xmml_native.fork_server import serve; serve({its.fileno()})"
        command = [sys.executable, "-c", serve]
        done = subprocess.run(
            command, pass_fds=[its.fileno()], capture_output=True, text=True, timeout=LIMIT_S, check=True
        )
    assert done.stderr == ""
    assert [(tmp_path / name).read_text() for name in ("out", "err", "failed")] == ["", "", ""]
