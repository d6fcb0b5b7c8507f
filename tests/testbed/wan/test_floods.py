"""Floods at the door of a coordinator, an instance and a relay: somebody far away joins all the same, and soon.

A host, or four, open thousands of connections a second, from addresses of their own, and prove nothing. Somebody who
needs half a second to and fro dials meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from measured import Record
from relayed import PORT, RelayAt
from waiting import LIMIT_S, wait_until
from wan import MachineProcess, Site, Wan, why_not
from wan.soak import LONG

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(900),
]

ENDS = Path(__file__).parent / "ends"
#: Connections a second, all flooders together.
RATE = 5000 if LONG else 500
#: How often somebody far away dials.
TRIALS = 8 if LONG else 2
#: There and back.
FAR_S = 0.4
#: How soon it must have joined; on a busy machine nobody knows.
JOINED_S = 5.0 if LONG else LIMIT_S
COORDINATOR_PORT, INSTANCE_PORT = 41001, 41002
FLOODERS = [Site(f"flood{number}") for number in range(4)]
#: Places at a door (native/wire/src/entrants.rs), and what the process has open besides.
MOST_OPEN = 1024 + 100
#: What a door may cost.
MEMORY_KIB = 64 << 10


@pytest.fixture(scope="module")
def wan() -> Iterator[Wan]:
    with Wan([Site("target", open_ports=None), Site("far"), *FLOODERS], rtt_s=0.002, rate_bit_s=1e9) as wan:
        wan.link("target", "far").set(rtt_s=FAR_S)
        yield wan


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "run.secret"
    file.touch(mode=0o600)
    file.write_text(os.urandom(32).hex())
    return file


@dataclass
class Flood:
    """Connections that are opened without end at a door."""

    flooders: list[MachineProcess]
    #: Of each flooder, in order: connections opened, closed by the door, and the time for that [s].
    told: dict[int, tuple[int, int, float]] = field(default_factory=dict)

    def listen(self) -> None:
        for number, flooder in enumerate(self.flooders):
            threading.Thread(target=self._listen, args=[number, flooder], daemon=True).start()

    def _listen(self, number: int, flooder: MachineProcess) -> None:
        assert flooder.stdout is not None
        for line in flooder.stdout:
            opened, closed, seconds = line.split()
            self.told[number] = (int(opened), int(closed), float(seconds))

    @property
    def opened(self) -> int:
        return sum(opened for opened, _, _ in self.told.values())

    @property
    def closed(self) -> int:
        return sum(closed for _, closed, _ in self.told.values())

    @property
    def rate(self) -> float:
        return sum(opened / seconds for opened, _, seconds in self.told.values())


@contextlib.contextmanager
def flood(wan: Wan, hosts: int, port: int) -> Iterator[Flood]:
    """Flood a door of the target from so many hosts, while the block lasts."""
    words = [sys.executable, str(ENDS / "flooder.py"), wan["target"].address, str(port), str(RATE / hosts)]
    flooders = [
        wan[site.name].login.start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for site in FLOODERS[:hosts]
    ]
    try:
        flood = Flood(flooders)
        flood.listen()
        wait_until(lambda: flood.opened > RATE, "the flood stands")
        yield flood
        assert all(flooder.poll() is None for flooder in flooders)
    finally:
        for flooder in flooders:
            flooder.kill()
            flooder.wait()


class Watched:
    """How many descriptors a process has at most, and how much memory."""

    def __init__(self, pid: int) -> None:
        self._process = Path(f"/proc/{pid}")
        self.open = 0
        self._before_kib = self._kib("VmRSS")

    def look(self) -> None:
        self.open = max(self.open, len(list((self._process / "fd").iterdir())))

    @property
    def grown_kib(self) -> int:
        return self._kib("VmHWM") - self._before_kib

    def _kib(self, what: str) -> int:
        lines = (self._process / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def dropped_by_the_kernel(wan: Wan) -> int:
    """How many connections the kernel of the target has dropped so far because nobody accepted them in time."""
    names, values = Path(f"/proc/{wan['target'].login.pid}/net/netstat").read_text().splitlines()[:2]
    return int(dict(zip(names.split(), values.split(), strict=True))["ListenDrops"])


def check(times: list[float], flood: Flood, watched: Watched, record_property: Record) -> None:
    record_property("joined_s", max(times))
    record_property("median_s", sorted(times)[len(times) // 2])
    record_property("connections_per_s", round(flood.rate))
    record_property("connections", flood.opened)
    record_property("closed_by_the_door", flood.closed)
    record_property("descriptors", watched.open)
    record_property("memory_grown_kib", watched.grown_kib)
    assert max(times) <= JOINED_S, times
    assert watched.open <= MOST_OPEN
    assert watched.grown_kib <= MEMORY_KIB


@pytest.mark.parametrize("hosts", [1, 4])
@pytest.mark.parametrize("door", ["coordinator", "instance"])
def test_a_distant_instance_joins_and_sends_while_strangers_flood(
    wan: Wan, secret_file: Path, door: str, hosts: int, record_property: Record
) -> None:
    target = wan["target"]
    words = [sys.executable, str(ENDS / "two_doors.py"), target.address, str(COORDINATOR_PORT), str(INSTANCE_PORT)]
    words += [str(secret_file), str(TRIALS)]
    doors = target.login.start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert doors.stdout is not None
        address = doors.stdout.readline().strip()
        assert address.startswith("tcp:"), doors.communicate()
        watched = Watched(doors.program)
        times: list[float] = []
        with flood(wan, hosts, COORDINATOR_PORT if door == "coordinator" else INSTANCE_PORT) as flooding:
            for number in range(TRIALS):
                there = {
                    **os.environ,
                    "XMML_INSTANCE": f"far{number}",
                    "XMML_COORDINATOR": address,
                    "XMML_SECRET_FILE": str(secret_file),
                }
                done = wan["far"].login.run([sys.executable, str(ENDS / "far_dialler.py")], env=there)
                joined_s, arrived_s = map(float, done.stdout.split())
                times.append(joined_s if door == "coordinator" else arrived_s)
                watched.look()
            record_property("dropped_by_the_kernel", dropped_by_the_kernel(wan))
            check(times, flooding, watched, record_property)
    finally:
        doors.kill()
        doors.communicate()


@pytest.mark.parametrize("hosts", [1, 4])
def test_a_distant_relay_links_itself_while_strangers_flood(
    wan: Wan, secret_file: Path, tmp_path: Path, hosts: int, record_property: Record
) -> None:
    relay = RelayAt(wan["target"], secret_file, [], tmp_path)
    try:
        watched = Watched(relay.process.program)
        times: list[float] = []
        with flood(wan, hosts, PORT) as flooding:
            for number in range(TRIALS):
                folder = tmp_path / str(number)
                folder.mkdir()
                other = RelayAt(wan["far"], secret_file, [relay.address], folder)
                began = time.monotonic()
                other.await_sites("target")
                times.append(time.monotonic() - began)
                other.kill()
                watched.look()
            status = relay.status()
            record_property("dropped_by_the_kernel", dropped_by_the_kernel(wan))
            check(times, flooding, watched, record_property)
        record_property("refused", status["refused"])
        assert status["refused"] > 0
    finally:
        relay.kill()
