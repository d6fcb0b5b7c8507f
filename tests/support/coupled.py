"""A run without xmml-run: a coordinator, and programs that join it as the instances of a small model."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waiting import LIMIT_S
from xmml_native._native import Coordinator

OPERATORS = {"finit": "in", "S": "in", "B": "in", "Oi": "out", "Of": "out"}


@dataclass
class Program:
    """An instance: its ports by operator, how it is started, and its time scale. With `checks_order` false its calls
    may come in any order."""

    ports: Mapping[str, str]
    command: Sequence[str | Path]
    steps: int = 1
    delta_s: float = 1.0
    checks_order: bool = True
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Ended:
    """How a process ended and what it printed."""

    status: int
    output: str
    errors: str


def all_held(ended: Mapping[str, Ended]) -> None:
    """Check that every program found what it wanted."""
    told = "\n".join(f"{name}: exit status {end.status}\n{end.output}{end.errors}" for name, end in ended.items())
    assert all(end.status == 0 for end in ended.values()), told


class Run:
    """Starts the programs of `instances` coupled as `couplings` say (`"a.o -> b.i"`) and follows them to the end.

    An instance of a list of programs is multiplied: its copies are called `c[0]`, `c[1]`, ...
    """

    def __init__(self, folder: Path, instances: Mapping[str, Program | list[Program]], *couplings: str) -> None:
        self.folder = folder
        self.secret = secrets.token_bytes(32)
        self.events: list[dict[str, Any]] = []
        self.programs: dict[str, Program] = {}
        self.copy_of: dict[str, tuple[str, int, int]] = {}
        for name, programs in instances.items():
            copies = programs if isinstance(programs, list) else [programs]
            for index, program in enumerate(copies):
                full = f"{name}[{index}]" if isinstance(programs, list) else name
                self.programs[full] = program
                self.copy_of[full] = (name, index, len(copies))
        self.multiplied = {name for name, programs in instances.items() if isinstance(programs, list)}
        self.conduits = [conduit for coupling in couplings for conduit in self._conduits(coupling)]
        for number, conduit in enumerate(self.conduits, 1):
            conduit["id"] = number

    def _conduits(self, coupling: str) -> list[dict[str, Any]]:
        (sender, sender_port), (receiver, receiver_port) = (end.split(".") for end in coupling.split(" -> "))
        return [
            {
                "name": f"{from_copy}.{sender_port} -> {to_copy}.{receiver_port}",
                "sender": from_copy,
                "sender_port": sender_port,
                "receiver": to_copy,
                "receiver_port": receiver_port,
                "sender_copy": self._index(from_copy),
                "receiver_copy": self._index(to_copy),
                "capacity": 4,
                "byte_budget": 1 << 26,
                "methods": [],
                "sender_filters": [],
                "receiver_filters": [],
            }
            for from_copy in self._copies(sender)
            for to_copy in self._copies(receiver)
        ]

    def _index(self, full: str) -> int | None:
        name, index, _ = self.copy_of[full]
        return index if name in self.multiplied else None

    def _copies(self, name: str) -> list[str]:
        return [full for full, (base, _, _) in self.copy_of.items() if base == name]

    def _spec(self, name: str) -> dict[str, Any]:
        program = self.programs[name]
        mine = [conduit for conduit in self.conduits if name in (conduit["sender"], conduit["receiver"])]
        ports = [
            {
                "name": port,
                "direction": OPERATORS.get(operator, operator),
                "operator": operator if operator in OPERATORS else None,
                "copies": self._copies_at_the_other_end(name, port, mine),
            }
            for port, operator in program.ports.items()
        ]
        _, index, count = self.copy_of[name]
        return {
            "name": name,
            "kind": "submodel" if set(program.ports.values()) <= set(OPERATORS) else "mapper",
            "index": index,
            "count": count,
            "check_order": program.checks_order,
            "steps": program.steps,
            "until": False,
            "delta_s": program.delta_s,
            "total_s": program.delta_s * program.steps,
            "params": dict(program.params),
            "ports": ports,
            "conduits": mine,
        }

    @staticmethod
    def _copies_at_the_other_end(name: str, port: str, conduits: list[dict[str, Any]]) -> int:
        ends = (("sender", "sender_port", "receiver_copy"), ("receiver", "receiver_port", "sender_copy"))
        return sum(
            conduit[copy] is not None
            for conduit in conduits
            for instance, its_port, copy in ends
            if (conduit[instance], conduit[its_port]) == (name, port)
        )

    def carry_out(
        self, limit_s: float = LIMIT_S, env: Mapping[str, str] | None = None, listen: str | None = None
    ) -> dict[str, Ended]:
        """Start every program, with `env` in its environment, and wait for all; an instance that fails ends the others.
        The coordinator is also reached by TCP at `listen`. Returns how each ended."""
        secret_file = self.folder / "secret"
        secret_file.touch(mode=0o600)
        secret_file.write_text(self.secret.hex())
        coordinator = Coordinator("test-run", self.secret, listen)
        processes: dict[str, subprocess.Popen[str]] = {}
        began = time.monotonic()
        try:
            for name in self.programs:
                coordinator.define(self._spec(name))
            for name, program in self.programs.items():
                environment = {
                    **os.environ,
                    **(env or {}),
                    "XMML_INSTANCE": name,
                    "XMML_COORDINATOR": ",".join(coordinator.addresses),
                    "XMML_SECRET_FILE": str(secret_file),
                }
                processes[name] = subprocess.Popen(
                    [str(word) for word in program.command],
                    env=environment,
                    cwd=self.folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            deadline = time.monotonic() + limit_s
            is_over = False
            while not is_over:
                assert time.monotonic() < deadline, f"the run is not over after {limit_s} s; events: {self.events}"
                have_ended = all(process.poll() is not None for process in processes.values())
                self._take(coordinator, began)
                is_over = have_ended and self._has_heard_all()
        finally:
            coordinator.close()
            for process in processes.values():
                process.kill()
        ended = {}
        for name, process in processes.items():
            output, errors = process.communicate()
            ended[name] = Ended(process.returncode, output, errors)
        return ended

    def _take(self, coordinator: Coordinator, began: float) -> None:
        events = coordinator.wait_events(0.1)
        after_s = time.monotonic() - began
        self.events += [{**event, "after_s": after_s} for event in events]
        for event in events:
            if event["event"] in ("failed", "lost"):
                coordinator.abort(f"{event['instance']} failed: {event.get('text', 'its connection closed')}")

    def _has_heard_all(self) -> bool:
        """Whether it was told of each instance that joined how it ended."""
        joined = {event["instance"] for event in self.events if event["event"] == "joined"}
        return joined <= {event["instance"] for event in self.events if event["event"] in ("left", "failed", "lost")}

    def told(self, kind: str, instance: str) -> list[dict[str, Any]]:
        """The events of this kind about this instance, and how long after the programs were started each came."""
        return [event for event in self.events if event["event"] == kind and event["instance"] == instance]
