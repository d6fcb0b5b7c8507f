"""A stranger who reaches the listeners of a run: they take part in nothing, and the run goes on and gives the same."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from disclosed import started_by
from faulty_models import RECEIVE, Going, Models
from gates import sends_half_until
from listeners import ports
from measured import Record
from waiting import LIMIT_S
from wan.soak import LONG

HALF, ALL = 5, 10
GOLDEN = json.loads((Path(__file__).parents[1] / "data/golden/handshake.json").read_text())
#: What somebody has recorded of another run: the hello of an instance, and a proof.
RECORDED = {each["name"]: bytes.fromhex(each["hex"]) for each in GOLDEN}
#: What strangers say, each of them many times; the last one says nothing, and waits.
WORDS = {
    "a web browser": b"GET / HTTP/1.1\r\n\r\n",
    "nonsense": b"\xff" * 3000,
    "zeros": bytes(3000),
    "a hello of another run": RECORDED["hello"],
    "a recorded handshake": RECORDED["hello"] + RECORDED["proof"],
    "silence": b"",
}
#: Where the kind of a frame stands, and the one that says why a handshake has failed (docs/protocol.md).
KIND, REFUSED = 8, 19
CONNECTIONS = 2_000 if LONG else 100
MOST_KIB = 16 * 1024


@dataclass
class Attacked:
    """A run of which a half of the messages has passed, with the ports at which it listens."""

    going: Going
    gate: Path
    ports: list[int]

    def check_unharmed(self) -> None:
        """Let the run go on, and check that every message has arrived."""
        self.gate.touch()
        ended = self.going.end()
        assert ended.status == 0, ended.err
        received = (self.going.folder / "instances/b/stdout").read_text().splitlines()
        assert received == [f"{float(step)}" for step in range(ALL)]

    def memory_kib(self) -> int:
        """What the processes of the run hold together."""
        return sum(map(resident_kib, started_by(self.going.process.pid)))


def resident_kib(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


@pytest.fixture
def run(models: Models) -> Attacked:
    gate = models.folder / "gate"
    programs = {"a": sends_half_until(gate, HALF), "b": RECEIVE.replace(".data)", ".data, flush=True)")}
    going = models.start(models.write(programs, steps=ALL, run='run:methods="tcp"'), "--listen", "127.0.0.1:0")
    going.wait_for_event("conduits")
    attacked = Attacked(going, gate, ports(started_by(going.process.pid)))
    assert len(attacked.ports) >= 2, "the coordinator and the receiver"
    return attacked


@pytest.mark.parametrize("words", WORDS)
def test_what_strangers_say_changes_nothing(run: Attacked, words: str, record_property: Record) -> None:
    before = run.memory_kib()
    began = time.monotonic()
    strangers = []
    for port in run.ports:
        for _ in range(CONNECTIONS):
            stranger = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
            stranger.sendall(WORDS[words])
            strangers.append(stranger)
    grown = run.memory_kib() - before
    assert all(map(is_turned_away, strangers))
    record_property("attempts", len(strangers))
    record_property("refused", len(strangers))
    record_property("memory_grown_kib", grown)
    record_property("seconds", time.monotonic() - began)
    run.check_unharmed()
    assert grown < MOST_KIB


def is_turned_away(stranger: socket.socket) -> bool:
    """Whether the listener ends a connection, and has said nothing more than why."""
    said = b""
    with stranger, contextlib.suppress(ConnectionResetError):
        while some := stranger.recv(65536):
            said += some
    return not said or said[KIND] == REFUSED


def test_whoever_has_another_secret_cannot_join(run: Attacked, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text(os.urandom(32).hex())
    genuine = next(
        dict(entry.split("=", 1) for entry in environment_of(process) if "=" in entry) for process in run.going.pids()
    )
    environment = {**os.environ, **{name: genuine[name] for name in genuine if name.startswith("XMML_")}}
    environment["XMML_SECRET_FILE"] = str(secret)
    joining = subprocess.run(
        [sys.executable, "-c", "import xmml; xmml.Instance()"], env=environment, capture_output=True, text=True
    )
    assert joining.returncode != 0
    assert "secret" in joining.stderr, joining.stderr
    run.check_unharmed()


def environment_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/environ").read_text().split("\0")
