"""Two instances that play ping-pong, and idle ones attached to the first: started without a model, by a coordinator of
our own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness import builds, places, processes
from xmml_native import Coordinator

PROGRAM = Path(__file__).parent / "programs" / "method_ends.cpp"
TIMEOUT_S = 120.0
#: The conduits of the ping-pong.
CALL, ANSWER = 1, 2


def port(name: str, operator: str, copies: int = 0) -> dict[str, Any]:
    direction = "out" if operator == "Oi" else "in"
    return {"name": name, "direction": direction, "operator": operator, "copies": copies}


def conduit(number: int, sender: str, receiver: str, method: str) -> dict[str, Any]:
    ends = [end.rpartition(".") for end in (sender, receiver)]
    copies = [int(name.partition("[")[2][:-1]) if "[" in name else None for name, _, _ in ends]
    return {
        "id": number,
        "name": f"{sender} -> {receiver}",
        "sender": ends[0][0],
        "sender_port": ends[0][2],
        "receiver": ends[1][0],
        "receiver_port": ends[1][2],
        "sender_copy": copies[0],
        "receiver_copy": copies[1],
        "capacity": 16,
        "byte_budget": 1 << 28,
        "methods": [method] if method else [],
        "sender_filters": [],
        "receiver_filters": [],
    }


def specs(method: str, idle: int) -> list[dict[str, Any]]:
    """What the coordinator tells the instances: the ping-pong goes by `method`, the idle conduits by tcp."""
    conduits = [
        conduit(CALL, "ping.call", "pong.call", method),
        conduit(ANSWER, "pong.answer", "ping.answer", method),
    ]
    for copy in range(idle):
        conduits.append(conduit(3 + 2 * copy, f"idle[{copy}].word", "ping.idle", "tcp"))
        conduits.append(conduit(4 + 2 * copy, "ping.end", f"idle[{copy}].end", "tcp"))
    ports = {
        "ping": [port("call", "Oi"), port("answer", "S"), port("idle", "S", idle), port("end", "Oi", idle)],
        "pong": [port("call", "S"), port("answer", "Oi")],
        **{f"idle[{copy}]": [port("word", "Oi"), port("end", "S")] for copy in range(idle)},
    }
    return [
        {
            "name": name,
            "kind": "submodel",
            "index": 0,
            "count": 1,
            "check_order": False,
            "steps": 1,
            "until": False,
            "delta_s": 1.0,
            "total_s": 1.0,
            "params": {},
            "ports": its_ports,
            "conduits": [each for each in conduits if name in (each["sender"], each["receiver"])],
        }
        for name, its_ports in ports.items()
    ]


def play(
    method: str, idle: int, size_b: int, count: int, meanwhile: Callable[[Coordinator], int] | None = None
) -> tuple[dict[str, float], int]:
    """Return what ping measured, and what `meanwhile` says, which is called again and again until the end.

    Raises:
        RunFailed: an instance ended badly, or not in time.
    """
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        folder = Path(name)
        secret = os.urandom(32)
        (folder / "secret").write_text(secret.hex())
        coordinator = Coordinator(f"bench-{folder.name}", secret)
        try:
            for spec in specs(method, idle):
                coordinator.define(spec)
            report = folder / "report.json"
            roles: list[tuple[str, Sequence[object]]] = [
                ("ping", ("ping", size_b, count, report)),
                ("pong", ("pong", size_b, count)),
            ]
            if idle:
                roles.append(("idle[0]", ("idle", idle)))
            started = [start(folder, coordinator, instance, words) for instance, words in roles]
            done = attend(coordinator, started, meanwhile)
            measured: dict[str, float] = json.loads(report.read_text())
        finally:
            coordinator.close()
    return measured, done


def start(folder: Path, coordinator: Coordinator, instance: str, words: Sequence[object]) -> subprocess.Popen[bytes]:
    environment = places.environment(
        XMML_INSTANCE=instance,
        XMML_COORDINATOR=",".join(coordinator.addresses),
        XMML_SECRET_FILE=str(folder / "secret"),
    )
    command = [str(builds.program(PROGRAM)), *map(str, words)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)


def attend(
    coordinator: Coordinator,
    started: Sequence[subprocess.Popen[bytes]],
    meanwhile: Callable[[Coordinator], int] | None,
) -> int:
    """Wait for all; return the sum of what `meanwhile` said."""
    until, done = time.monotonic() + TIMEOUT_S, 0
    try:
        while any(process.poll() is None for process in started):
            if time.monotonic() > until:
                raise processes.RunFailed(f"it was not done within {TIMEOUT_S:.0f} s")
            if any(process.poll() not in (None, 0) for process in started):
                coordinator.abort("another instance failed")
                raise processes.RunFailed("an instance failed")
            if meanwhile is None:
                coordinator.wait_events(0.05)
            else:
                done += meanwhile(coordinator)
        if any(process.returncode for process in started):
            raise processes.RunFailed("an instance failed")
    finally:
        for process in started:
            process.kill()
            process.wait()
    return done
