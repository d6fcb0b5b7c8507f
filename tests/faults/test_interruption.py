"""Someone or something ends the run from outside."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from commands import BIN, XMML
from faulty_models import WAIT, Going, Models
from processes import is_running
from waiting import LIMIT_S, number_in, wait_until

#: Interrupts the process when it begins to import a module.
INTERRUPTING = """import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT
#: Leaves a daemon behind: in a session of its own, its parent gone, deaf to SIGTERM.
DAEMON = (
    "import os, signal, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "    if os.fork() == 0:\n"
    "        with open(os.environ['FAULT_TIME'] + '.daemon', 'w') as file:\n"
    "            file.write(str(os.getpid()))\n"
    "        time.sleep(600)\n"
    "    os._exit(0)\n"
) + WAIT


def sockets_of(folder: Path) -> list[str]:
    """Return the abstract sockets of a run."""
    return [line for line in Path("/proc/net/unix").read_text().splitlines() if f"xmml-{folder.name}" in line]


def daemon_of(going: Going) -> int:
    return number_in(Path(f"{going.fault_time}.daemon"))


@pytest.mark.parametrize("module", ["xmml_run.arguments", "xmml_planner.planning", "xmml.tree"])
@pytest.mark.parametrize("command", ["xmml-run", "xmml"])
def test_ctrl_c_while_a_command_starts_ends_it_without_a_word(models: Models, command: str, module: str) -> None:
    (models.folder / "sitecustomize.py").write_text(INTERRUPTING.format(module=module))
    words = [str(BIN / command), *(["plan"] if command == "xmml" else []), str(models.write({"a": WAIT, "b": WAIT}))]
    environment = {**os.environ, "PYTHONPATH": str(models.folder)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_run_cleanly(models: Models, number: signal.Signals) -> None:
    going = models.start(models.write({"a": WAIT, "b": WAIT}))
    pids = going.pids()
    going.process.send_signal(number)
    ended = going.end()
    ended.check(130, "interrupted")
    assert not any(map(is_running, pids))
    assert (ended.folder / "report.html").exists()


def test_a_second_ctrl_c_does_not_wait_for_anyone(models: Models) -> None:
    going = models.start(models.write({"a": DEAF, "b": DEAF}))
    pids = going.pids()
    going.wait_for_event("started", 2)
    going.process.send_signal(signal.SIGINT)
    going.wait_for_event("stopping")
    going.process.send_signal(signal.SIGINT)
    going.end().check(130, "interrupted")
    assert not any(map(is_running, pids))


def test_ctrl_c_while_building(models: Models) -> None:
    slow = {"a": '<implementation language="c" path="x" run:build="sleep 600"/>'}
    going = models.start(models.write({"b": WAIT}, implementations=slow))
    going.wait_for_event("building")
    going.process.send_signal(signal.SIGINT)
    going.end().check(130, "interrupted")


def test_ctrl_c_while_another_run_builds(models: Models) -> None:
    (models.folder / ".xmml").mkdir()
    with (models.folder / ".xmml/building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = {"a": '<implementation language="c" path="x" run:build="true"/>'}
        going = models.start(models.write({"b": WAIT}, implementations=built))
        going.wait_for_event("waiting to build")
        going.process.send_signal(signal.SIGINT)
        going.end().check(130, "interrupted")


def test_kill_minus_9_leaves_no_process_socket_or_secret(models: Models) -> None:
    going = models.start(models.write({"a": DAEMON, "b": DEAF}))
    pids = [going.process.pid, *going.pids(), daemon_of(going), going.supervisor()]
    os.kill(going.process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)), "processes are left")
    wait_until(lambda: not (going.folder / ".secret").exists(), "the secret is left")
    assert not sockets_of(going.folder)
    assert {path.name for path in models.folder.iterdir()} <= {"a.py", "b.py", "model.xmml", "run", "fault.daemon"}


def test_a_run_whose_machine_loses_its_power_is_told_as_lost(models: Models) -> None:
    going = models.start(models.write({"a": WAIT, "b": WAIT}))
    instances, supervisor = going.pids(), going.supervisor()
    assert state_of(going.folder) == "running"
    pids = [supervisor, going.process.pid, *instances]
    # So that none of them can tidy up. The supervisor is the first to be killed: the kernel has stopped processes go on
    # when the command is gone that began them.
    for pid in pids[:2]:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # instances end by themselves soon after the first
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)), "processes are left")
    assert (going.folder / ".secret").exists()
    assert (going.folder / ".questions").exists()
    assert state_of(going.folder) == "lost"


def state_of(folder: Path) -> str:
    """What `xmml status` says of a run."""
    done = subprocess.run([XMML, "status", str(folder), "--json"], stdout=subprocess.PIPE, check=True)
    state: str = json.loads(done.stdout)["state"]
    return state


#: Lend each other large arrays without end, and keep some of what they are lent.
LENDING = """import numpy as np
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            array = me.empty(100_000)
            array[:] = t
            me.send("o", array)
"""
BORROWING = """import os
import xmml
kept = []
with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            kept = [*kept[-5:], me.receive("i").data]
            if len(kept) == 6:
                open(os.environ["FAULT_TIME"] + ".lent", "w").close()
"""


def shared_memory_of(pid: int) -> set[str]:
    """The memory without a name that a process has, or holds open: its numbers, which no other memory has meanwhile."""
    found = set()
    with contextlib.suppress(OSError):  # it ends just now, or is somebody else's
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "memfd:xmml" in line:
                found.add(line.split()[4])
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if "memfd:xmml" in os.readlink(entry):
                    found.add(str(entry.stat().st_ino))
    return found


def test_kill_minus_9_leaves_no_shared_memory(models: Models) -> None:
    before = set(os.listdir("/dev/shm"))
    going = models.start(models.write({"a": LENDING, "b": BORROWING}, steps=10**9))
    pids = [going.process.pid, *going.pids(), going.supervisor()]
    wait_until(lambda: Path(f"{going.fault_time}.lent").exists(), "nothing was lent")
    lent = set().union(*map(shared_memory_of, pids))
    assert len(lent) >= 2, "the rings and the payloads"
    os.kill(going.process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)), "processes are left")
    survivors = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    held = {pid: shared_memory_of(pid) & lent for pid in survivors}
    assert not any(held.values()), {pid: memory for pid, memory in held.items() if memory}
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "xmml" in name]


def test_a_signal_that_comes_with_the_end_of_the_supervisor_interrupts_the_run(models: Models) -> None:
    going = models.start(models.write({"a": WAIT, "b": WAIT}))
    going.pids()
    supervisor = going.supervisor()
    going.process.send_signal(signal.SIGSTOP)  # so that it finds both at once
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not is_running(supervisor), "the supervisor is not gone")
    going.process.send_signal(signal.SIGTERM)
    going.process.send_signal(signal.SIGCONT)
    going.end().check(130, "interrupted")


def test_a_killed_supervisor_ends_the_run_and_everything_in_it(models: Models) -> None:
    going = models.start(models.write({"a": DAEMON, "b": DEAF}))
    pids = [*going.pids(), daemon_of(going)]
    os.kill(going.supervisor(), signal.SIGKILL)
    going.end().check(5, "supervisor", "killed")
    assert not any(map(is_running, pids))


def test_a_daemon_that_an_instance_leaves_behind_ends_with_the_run(models: Models) -> None:
    quick = DAEMON.replace(WAIT, "raise SystemExit(1)\n")
    going = models.start(models.write({"a": quick, "b": WAIT}))
    daemon = daemon_of(going)
    going.end().check(4, "a failed")
    assert not is_running(daemon)


def test_an_instance_that_is_killed_by_hand(models: Models) -> None:
    going = models.start(models.write({"a": WAIT, "b": WAIT}))
    first, second = going.pids()
    os.kill(first, signal.SIGKILL)
    going.end().check(4, "a failed", "SIGKILL")
    assert not is_running(second)
