"""Two instances that play ping-pong, or of which one sends and the other takes, over some way."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chains import HERE, Host, Run, Way
from harness import builds, instances, places
from harness.instances import conduit, port
from xmml_native import Coordinator

PROGRAM = Path(__file__).parent / "programs" / "chain_ends.cpp"
TIMEOUT_S = 300.0
#: Messages of a stream that may be on their way, so many that the longest link is full of them.
CAPACITY = 256


@dataclass(frozen=True)
class Trips:
    """Round trips with messages of one size."""

    median_s: float
    p99_s: float
    trips: int


@dataclass(frozen=True)
class Stream:
    """What came of a stream when it was warm."""

    bytes: int
    seconds: float
    longest_gap_s: float


@dataclass(frozen=True)
class Places:
    """Where the two instances run, and where they find their coordinator."""

    first: Host = HERE
    second: Host = HERE
    coordinator: Host = HERE


@contextlib.contextmanager
def fresh_run() -> Iterator[Run]:
    """A run with a secret, and a folder for what belongs to it beside the secret's file."""
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        secret_file = Path(name) / "secret"
        secret_file.write_text(os.urandom(32).hex())
        secret_file.chmod(0o600)
        yield Run(f"bench-{secret_file.parent.name}", secret_file)


def round_trips(run: Run, way: Way, sizes_b: Sequence[int], seconds: float, at: Places = Places()) -> dict[int, Trips]:
    """Ping-pong with each size for some seconds.

    Raises:
        RunFailed: an instance ended badly, or not in time.
    """
    ports = {
        "ping": [port("call", "Oi"), port("answer", "S")],
        "pong": [port("call", "S"), port("answer", "Oi")],
    }
    conduits = [
        conduit(1, "ping.call", "pong.call", [way.method]),
        conduit(2, "pong.answer", "ping.answer", [way.method]),
    ]
    report = run.secret_file.with_name("trips.json")
    _play(run, way, at, ports, conduits, {"ping": ["ping", seconds, report, *sizes_b], "pong": ["pong"]})
    return {int(size_b): Trips(**trips) for size_b, trips in json.loads(report.read_text()).items()}


def stream(run: Run, way: Way, size_b: int, seconds: float, warm_s: float, at: Places = Places()) -> Stream:
    """One sends for so many seconds, the other takes; `warm_s` at the beginning do not count.

    Raises:
        RunFailed: an instance ended badly, or not in time.
    """
    ports = {"source": [port("bulk", "Oi")], "sink": [port("bulk", "S")]}
    conduits = [conduit(1, "source.bulk", "sink.bulk", [way.method], capacity=CAPACITY)]
    report = run.secret_file.with_name("stream.json")
    words = {"source": ["source", size_b, seconds], "sink": ["sink", warm_s, report]}
    _play(run, way, at, ports, conduits, words)
    return Stream(**json.loads(report.read_text()))


def _play(
    run: Run,
    way: Way,
    at: Places,
    ports: dict[str, list[dict[str, Any]]],
    conduits: list[dict[str, Any]],
    words: Mapping[str, Sequence[object]],
) -> None:
    secret = bytes.fromhex(run.secret_file.read_text())
    meeting = at.coordinator
    with meeting.machine.network() if meeting.machine else contextlib.nullcontext():
        coordinator = Coordinator(run.name, secret, listen=f"{meeting.address}:0")
    try:
        for spec in instances.specs(ports, conduits):
            coordinator.define(spec)
        started: list[subprocess.Popen[Any]] = []
        for (instance, arguments), host, more in zip(
            words.items(), (at.first, at.second), (way.first, way.second), strict=True
        ):
            environment = places.environment(
                XMML_INSTANCE=instance,
                XMML_COORDINATOR=",".join(coordinator.addresses),
                XMML_SECRET_FILE=str(run.secret_file),
                **more,
            )
            command = [str(builds.program(PROGRAM)), *map(str, arguments)]
            started.append(host.start(command, env=environment, stdin=subprocess.DEVNULL))
        instances.attend(coordinator, started, TIMEOUT_S)
    finally:
        coordinator.close()
