"""Instances without a model: a coordinator of our own tells them what they would be told in a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from subprocess import Popen
from typing import Any

from xmml_native import Coordinator

from harness.processes import RunFailed


def port(name: str, operator: str, copies: int = 0) -> dict[str, Any]:
    """A port; the operator says in which direction it leads."""
    direction = "out" if operator == "Oi" else "in"
    return {"name": name, "direction": direction, "operator": operator, "copies": copies}


def conduit(
    number: int,
    sender: str,
    receiver: str,
    methods: Sequence[str],
    *,
    capacity: int = 16,
    byte_budget: int = 1 << 28,
    traffic_class: str | None = None,
    protect: bool | None = None,
) -> dict[str, Any]:
    """A conduit from one `instance.port` to another, which may name a copy: `idle[3].word`. No method: the fastest."""
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
        "capacity": capacity,
        "byte_budget": byte_budget,
        "methods": list(methods),
        "sender_filters": [],
        "receiver_filters": [],
        "traffic_class": traffic_class,
        "protect": protect,
    }


def specs(ports: Mapping[str, list[dict[str, Any]]], conduits: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the coordinator tells each of these instances."""
    conduits = list(conduits)
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


def attend(
    coordinator: Coordinator,
    started: Sequence[Popen[Any]],
    limit_s: float,
    meanwhile: Callable[[Coordinator], int] | None = None,
) -> int:
    """Wait until all have ended; return the sum of what `meanwhile` said, which is called again and again until then.

    Raises:
        RunFailed: an instance ended badly, or not in time.
    """
    until, done = time.monotonic() + limit_s, 0
    try:
        while any(process.poll() is None for process in started):
            if time.monotonic() > until:
                raise RunFailed(f"it was not done within {limit_s:.0f} s")
            if any(process.poll() not in (None, 0) for process in started):
                coordinator.abort("another instance failed")
                raise RunFailed("an instance failed")
            if meanwhile is None:
                coordinator.wait_events(0.05)
            else:
                done += meanwhile(coordinator)
        if any(process.returncode for process in started):
            raise RunFailed("an instance failed")
    finally:
        for process in started:
            process.kill()
            process.wait()
    return done
