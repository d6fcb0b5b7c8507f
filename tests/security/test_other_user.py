"""Another user of the host tries to read, change, stop or disturb a run; it goes on, and gives the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import other_user
import pytest
from disclosed import started_by
from faulty_models import RECEIVE, WAIT, Models
from gates import sends_half_until
from needs import needs_root
from waiting import LIMIT_S

pytestmark = needs_root

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


def attack(run: dict[str, Any]) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start the attack as another user; return it, whose connections stay, and what it has tried."""
    identity = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    script = Path(other_user.__file__).read_text()
    attacker = subprocess.Popen(
        ["setpriv", *identity, system_python(), "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    attacker.stdin.write(json.dumps(run) + "\n")
    attacker.stdin.flush()
    return attacker, json.loads(attacker.stdout.readline())


def test_a_run_is_out_of_the_reach_of_other_users(place: Path) -> None:
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
            "files": [str(path.relative_to(folder)) for path in folder.rglob("*")],
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


def test_a_user_who_may_exchange_a_folder_above_a_run_gets_nothing_written_or_read(place: Path) -> None:
    models, above, precious = Models(place), place / "above", place / "precious"
    (above / "project").mkdir(parents=True)
    above.chmod(0o777)
    precious.write_text("precious")
    going = models.start(models.write({"a": WAIT, "b": WAIT}), folder=above / "project/run")
    going.wait_for_event("started", 2)
    script = ["-c", EXCHANGE, str(above), str(precious)]
    identity = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    subprocess.run(["setpriv", *identity, system_python(), *script], check=True, cwd="/")
    planted = sorted((above / "project/run").rglob("*"))
    ended = going.end()
    ended.check(5, "project/run was exchanged for something else while the run went on")
    assert precious.read_text() == "precious"
    assert sorted((above / "project/run").rglob("*")) == planted
    assert (above / "moved/run/report.html").exists()


def sockets_of(processes: dict[int, str]) -> set[str]:
    """Return the inodes of the sockets of processes."""
    links = [os.readlink(entry) for number in processes for entry in Path(f"/proc/{number}/fd").iterdir()]
    return {link.removeprefix("socket:[").rstrip("]") for link in links}


def abstract_sockets(processes: dict[int, str]) -> list[str]:
    """Return the names of the abstract sockets at which processes listen."""
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    own = sockets_of(processes)
    return sorted({row[7].removeprefix("@") for row in rows if len(row) > 7 and row[6] in own and row[7][0] == "@"})


def ports(processes: dict[int, str]) -> list[int]:
    """Return the ports of the loopback interface at which processes listen."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    own = sockets_of(processes)
    return sorted({int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in own})
