"""Another user of the host: they read, change, stop and disturb nothing of a run, and make none look alive."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import other_user
import pytest
from commands import do
from disclosed import mode_of, started_by
from faulty_models import RECEIVE, SEND, WAIT, Ended, Models
from folders import below
from gates import sends_half_until
from listeners import abstract_sockets, ports
from measured import Record
from needs import needs_root
from waiting import LIMIT_S

NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody can enter, as `/tmp` or a file system of projects is."""
    with tempfile.TemporaryDirectory(prefix="xmml-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def system_python() -> str:
    """Return an interpreter that every user can start."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    assert python is not None, "the other user needs a Python of the system: apt-get install python3"
    return python


def as_another_user(*words: str, group: int = NOBODY) -> list[str]:
    """Return the command that has somebody else carry out one."""
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={group}", "--clear-groups", *words]


def attack(run: dict[str, Any]) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start the attack as another user; return it, whose connections stay, and what it has tried."""
    script = Path(other_user.__file__).read_text()
    words = as_another_user(system_python(), "-c", script)
    attacker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    attacker.stdin.write(json.dumps(run) + "\n")
    attacker.stdin.flush()
    return attacker, json.loads(attacker.stdout.readline())


@needs_root
def test_a_run_is_out_of_the_reach_of_other_users(place: Path, record_property: Record) -> None:
    models = Models(place)
    gate = place / "gate"
    model = models.write({"a": sends_half_until(gate, 5), "b": RECEIVE}, steps=10)
    going = models.start(model)
    going.wait_for_event("joined", 2)
    going.wait_for_event("conduits")
    folder = place / "run"
    processes = started_by(going.process.pid)
    attacker, tried = attack(
        {
            "folder": str(folder),
            "files": [str(path.relative_to(folder)) for path in below(folder)],
            "processes": list(processes),
            "sockets": abstract_sockets(processes),
            "ports": ports(processes),
        }
    )
    try:
        assert [each["what"] for each in tried["attempts"] if each["succeeded"]] == []
        assert len(tried["attempts"]) > 50, "there was something to try"
        assert tried["connections"] > 100, "there was somebody to connect to"
        gate.touch()
        ended = going.end()
    finally:
        attacker.communicate(timeout=LIMIT_S)
    assert ended.status == 0, ended.err
    record_property("attempts", len(tried["attempts"]))
    record_property("refused", len(tried["attempts"]))
    record_property("connections", tried["connections"])
    received = json.loads((folder / "events.jsonl").read_text().splitlines()[-1])["instances"]["b"]["messages_received"]
    assert received == 10


#: Puts a folder with links in the place of the one that holds the folder of a run. Arguments: the folder that has both,
#: and what the links lead to.
EXCHANGE = """import os, sys
above, precious = sys.argv[1:]
os.rename(f"{above}/project", f"{above}/moved")
os.makedirs(f"{above}/project/run/instances/a/work")
for name in ("events.jsonl", "plan.json", "report.html", "profile.json", "provenance.json", ".questions", ".secret"):
    os.symlink(precious, f"{above}/project/run/{name}")
os.chmod(f"{above}/project", 0o777)
"""


@needs_root
def test_a_user_who_may_exchange_a_folder_above_a_run_gets_nothing_written_or_read(place: Path) -> None:
    models, above, precious = Models(place), place / "above", place / "precious"
    (above / "project").mkdir(parents=True)
    above.chmod(0o777)
    precious.write_text("precious")
    going = models.start(models.write({"a": WAIT, "b": WAIT}), folder=above / "project/run")
    going.wait_for_event("started", 2)
    script = ["-c", EXCHANGE, str(above), str(precious)]
    subprocess.run(as_another_user(system_python(), *script), check=True, cwd="/")
    planted = sorted((above / "project/run").rglob("*"))
    ended = going.end()
    ended.check(5, "project/run was exchanged for something else while the run went on")
    assert precious.read_text() == "precious"
    assert sorted((above / "project/run").rglob("*")) == planted
    assert (above / "moved/run/report.html").exists()


def begun_in(place: Path, folder: Path) -> Ended:
    """Have a run begin in a folder, and end."""
    models = Models(place)
    return models.start(models.write({"a": SEND, "b": RECEIVE}), folder=folder).end()


def test_a_run_does_not_begin_where_everybody_can_exchange_its_folder(place: Path) -> None:
    place.chmod(0o777)
    begun_in(place, place / "run").check(2, "everybody can put another folder in the place of", "name another with -o")
    assert not (place / "run").exists()


@needs_root
def test_a_run_does_not_begin_in_a_folder_of_another_user(place: Path) -> None:
    (place / "run").mkdir()
    os.chown(place / "run", NOBODY, NOBODY)
    begun_in(place, place / "run").check(2, "belongs to nobody", "name another with -o")
    assert list((place / "run").iterdir()) == []


def test_a_run_does_not_begin_in_a_folder_in_which_something_lies(place: Path) -> None:
    (place / "run").mkdir()
    (place / "run/plan.json").write_text("of somebody")
    begun_in(place, place / "run").check(2, "not empty", "name another with -o")
    assert (place / "run/plan.json").read_text() == "of somebody"


@pytest.mark.parametrize(("options", "mode"), [((), 0o700), (("--shared",), 0o750)], ids=["alone", "shared"])
def test_what_a_run_makes_is_its_owners(place: Path, options: tuple[str, ...], mode: int) -> None:
    models = Models(place)
    before = os.umask(0)
    try:
        going = models.start(models.write({"a": WAIT, "b": WAIT}), *options)
    finally:
        os.umask(before)
    going.wait_for_event("started", 2)
    secrets = {name: mode_of(going.folder / name) for name in (".secret", ".lock", ".seal", ".questions")}
    assert secrets == dict.fromkeys(secrets, 0o600)
    assert mode_of(going.folder) == mode
    assert mode_of(Path(os.environ["XDG_STATE_HOME"]) / "xmml/run.key") == 0o600
    going.process.terminate()
    going.end()


#: Locks the file of a run as its `xmml-run` does, or answers in its place.
LOCKS = """import fcntl, sys, time
fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(600)
"""
ANSWERS = r"""import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(f"\0{sys.argv[1]}")
listener.listen()
print("listening", flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(b'{"instances": {}, "conduits": [], "stopping": true}\n')
"""


#: Connects to the socket of a run as fast as it can, and hangs up.
FLOODS = r"""import socket, sys
while True:
    for number in range(1000):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.setblocking(False)
            try:
                stream.connect(f"\0{sys.argv[1]}")
            except BlockingIOError:
                if number == 999:
                    print("full", flush=True)
"""


@needs_root
def test_nobody_else_makes_a_run_that_goes_on_look_dead(place: Path) -> None:
    models = Models(place)
    going = models.start(models.write({"a": WAIT, "b": WAIT}))
    going.wait_for_event("started", 2)
    name = (going.folder / ".questions").read_text()
    words = as_another_user(system_python(), "-c", FLOODS, name)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            flooding = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/"))
            stack.callback(flooding.kill)
            assert flooding.stdout is not None
            assert flooding.stdout.readline() == "full\n"
        assert do("xmml", "status", going.folder).stdout.startswith("run: running\n")
        ended = do("xmml", "cancel", going.folder, timeout=LIMIT_S)
    assert ended.returncode == 0, ended
    assert "ended; its folder here stays" in ended.stdout
    assert going.end().status != 0


@needs_root
def test_nobody_else_makes_a_lost_run_look_alive(place: Path) -> None:
    """Not somebody either who may read its folder (`--shared`), and knows the name of the socket from before."""
    models = Models(place)
    going = models.start(models.write({"a": WAIT, "b": WAIT}), "--shared")
    processes = [*going.pids(), going.supervisor()]
    name = (going.folder / ".questions").read_text()
    going.process.send_signal(signal.SIGSTOP)
    for process in (*processes, going.process.pid):  # as when the machine loses its power
        os.kill(process, signal.SIGKILL)
    going.end()
    assert (going.folder / ".questions").exists()
    os.chown(going.folder, -1, NOBODY)
    python = system_python()
    locked = subprocess.run(
        as_another_user(python, "-c", LOCKS, str(going.folder / ".lock")), capture_output=True, text=True, cwd="/"
    )
    assert "Permission denied" in locked.stderr
    words = as_another_user(python, "-c", ANSWERS, name)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/") as answering:
        assert answering.stdout is not None
        assert answering.stdout.readline() == "listening\n"
        try:
            assert do("xmml", "status", going.folder).stdout.startswith("run: lost\n")
            ended = do("xmml", "cancel", going.folder, timeout=LIMIT_S)
            assert (ended.returncode, "ended; its folder here stays" in ended.stdout) == (0, True), ended
        finally:
            answering.kill()
