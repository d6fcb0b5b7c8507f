"""Two instances that play ping-pong, or of which one sends and the other takes, over some way."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
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


#: What instances run: their ports and the words of their command.
Parts = dict[str, tuple[list[dict[str, Any]], Sequence[object]]]


def round_trips(run: Run, way: Way, sizes_b: Sequence[int], seconds: float, at: Places = Places()) -> dict[int, Trips]:
    """Ping-pong with each size for some seconds.

    Raises:
        RunFailed: an instance ended badly, or not in time.
    """
    parts, report = _ping_pong(run, sizes_b, seconds)
    _play(run, way, at, parts, _there_and_back(way))
    return _trips(report)


def stream(run: Run, way: Way, size_b: int, seconds: float, warm_s: float, at: Places = Places()) -> Stream:
    """One sends for so many seconds, the other takes; `warm_s` at the beginning do not count.

    Raises:
        RunFailed: an instance ended badly, or not in time.
    """
    parts, report = _source_and_sink(run, size_b, seconds, warm_s)
    _play(run, way, at, parts, [_bulk(way)])
    return _stream(report)


def round_trips_beside_a_stream(
    run: Run, way: Way, size_b: int, bulk_b: int, seconds: float, at: Places = Places()
) -> tuple[Trips, Stream]:
    """Ping-pong by conduits of class control for some seconds while two other instances stream from end to end.

    Raises:
        RunFailed: an instance ended badly, or not in time.
    """
    talking, trips = _ping_pong(run, [size_b], seconds)
    # It begins before the first ping, and lasts longer.
    streaming, bulk = _source_and_sink(run, bulk_b, seconds * 1.5, seconds / 4)
    _play(run, way, at, {**streaming, **talking}, [*_there_and_back(way, "control"), _bulk(way, "bulk")])
    return _trips(trips)[size_b], _stream(bulk)


def _ping_pong(run: Run, sizes_b: Sequence[int], seconds: float) -> tuple[Parts, Path]:
    report = run.secret_file.with_name("trips.json")
    ping = [port("call", "Oi"), port("answer", "S")]
    pong = [port("call", "S"), port("answer", "Oi")]
    return {"ping": (ping, ["ping", seconds, report, *sizes_b]), "pong": (pong, ["pong"])}, report


def _source_and_sink(run: Run, size_b: int, seconds: float, warm_s: float) -> tuple[Parts, Path]:
    report = run.secret_file.with_name("stream.json")
    source = ([port("bulk", "Oi")], ["source", size_b, seconds])
    return {"source": source, "sink": ([port("bulk", "S")], ["sink", warm_s, report])}, report


def _there_and_back(way: Way, traffic_class: str | None = None) -> list[dict[str, Any]]:
    return [
        conduit(1, "ping.call", "pong.call", [way.method], traffic_class=traffic_class),
        conduit(2, "pong.answer", "ping.answer", [way.method], traffic_class=traffic_class),
    ]


def _bulk(way: Way, traffic_class: str | None = None) -> dict[str, Any]:
    return conduit(3, "source.bulk", "sink.bulk", [way.method], capacity=CAPACITY, traffic_class=traffic_class)


def _trips(report: Path) -> dict[int, Trips]:
    return {int(size_b): Trips(**trips) for size_b, trips in json.loads(report.read_text()).items()}


def _stream(report: Path) -> Stream:
    return Stream(**json.loads(report.read_text()))


def _play(run: Run, way: Way, at: Places, parts: Parts, conduits: list[dict[str, Any]]) -> None:
    """Have instances run by turns at the first and the second place, until all have ended."""
    secret = bytes.fromhex(run.secret_file.read_text())
    meeting = at.coordinator
    with meeting.machine.network() if meeting.machine else contextlib.nullcontext():
        coordinator = Coordinator(run.name, secret, listen=f"{meeting.address}:0")
    try:
        for spec in instances.specs({name: ports for name, (ports, _) in parts.items()}, conduits):
            coordinator.define(spec)
        started: list[subprocess.Popen[Any]] = []
        ends = itertools.cycle([(at.first, way.first), (at.second, way.second)])
        for (instance, (_, words)), (host, more) in zip(parts.items(), ends, strict=False):
            environment = places.environment(
                XMML_INSTANCE=instance,
                XMML_COORDINATOR=",".join(coordinator.addresses),
                XMML_SECRET_FILE=str(run.secret_file),
                **more,
            )
            command = [str(builds.program(PROGRAM)), *map(str, words)]
            started.append(host.start(command, env=environment, stdin=subprocess.DEVNULL))
        instances.attend(coordinator, started, TIMEOUT_S)
    finally:
        coordinator.close()
