"""Two instances that play ping-pong, and idle ones attached to the first: started without a model, by a coordinator of
our own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness import builds, instances, places
from harness.instances import conduit, port
from xmml_native import Coordinator

PROGRAM = Path(__file__).parent / "programs" / "method_ends.cpp"
TIMEOUT_S = 120.0
#: The conduits of the ping-pong.
CALL, ANSWER = 1, 2


def specs(method: str, idle: int) -> list[dict[str, Any]]:
    """What the coordinator tells the instances: the ping-pong goes by `method`, the idle conduits by tcp. With
    "protected " before its name the ping-pong is encrypted and authenticated, although it stays on this host."""
    name = method.removeprefix("protected ")
    methods, protect = ([name] if name else []), (True if name != method else None)
    conduits = [
        conduit(CALL, "ping.call", "pong.call", methods, protect=protect),
        conduit(ANSWER, "pong.answer", "ping.answer", methods, protect=protect),
    ]
    for copy in range(idle):
        conduits.append(conduit(3 + 2 * copy, f"idle[{copy}].word", "ping.idle", ["tcp"]))
        conduits.append(conduit(4 + 2 * copy, "ping.end", f"idle[{copy}].end", ["tcp"]))
    ports = {
        "ping": [port("call", "Oi"), port("answer", "S"), port("idle", "S", idle), port("end", "Oi", idle)],
        "pong": [port("call", "S"), port("answer", "Oi")],
        **{f"idle[{copy}]": [port("word", "Oi"), port("end", "S")] for copy in range(idle)},
    }
    return instances.specs(ports, conduits)


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
        (folder / "secret").touch(mode=0o600)
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
            done = instances.attend(coordinator, started, TIMEOUT_S, meanwhile)
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
