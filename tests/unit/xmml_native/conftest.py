"""A run without an executor: the coordinator in this process, instances as processes of their own."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S
from xmml_native import Coordinator

OPERATORS = {"finit": "in", "Oi": "out", "S": "in", "B": "in", "Of": "out"}


class Run:
    """One run: declare instances and couplings, start programs, look at events."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret_file = folder / "secret"
        secret = secrets.token_bytes(32)
        self.secret_file.write_text(secret.hex())
        self.secret_file.chmod(0o600)
        self.coordinator = Coordinator("test-run", secret)
        self.specs: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.events: list[dict[str, Any]] = []
        self._conduits = 0

    def declare(self, name: str, ports: Mapping[str, str], **fields: Any) -> None:
        """Declare an instance; ``ports`` by name the operator, or "in" and "out"."""
        declared = [
            {
                "name": port,
                "direction": OPERATORS.get(place, place),
                "operator": place if place in OPERATORS else None,
                "copies": 0,
            }
            for port, place in ports.items()
        ]
        spec = {
            "name": name,
            "kind": "submodel",
            "index": 0,
            "count": 1,
            "check_order": True,
            "steps": 1,
            "until": False,
            "delta_s": 1.0,
            "total_s": 1.0,
            "params": {},
            "ports": declared,
            "conduits": [],
        }
        self.specs[name] = spec | fields

    def couple(self, sender: str, receiver: str, **fields: Any) -> None:
        """Couple ``instance.port`` to ``instance.port``."""
        (a, out), (b, into) = sender.split("."), receiver.split(".")
        conduit = {
            "id": self._conduits,
            "name": f"{sender} -> {receiver}",
            "sender": a,
            "sender_port": out,
            "receiver": b,
            "receiver_port": into,
            "sender_copy": None,
            "receiver_copy": None,
            "capacity": 4,
            "byte_budget": 64 << 20,
            "methods": [],
            "sender_filters": [],
            "receiver_filters": [],
        } | fields
        self._conduits += 1
        for name in {a, b}:
            self.specs[name]["conduits"].append(conduit)
        if conduit["receiver_copy"] is not None:
            self._port(a, out)["copies"] += 1
        if conduit["sender_copy"] is not None:
            self._port(b, into)["copies"] += 1

    def _port(self, instance: str, port: str) -> dict[str, Any]:
        found: dict[str, Any] = next(p for p in self.specs[instance]["ports"] if p["name"] == port)
        return found

    def define(self) -> None:
        """Make every declared instance known to the coordinator."""
        for spec in self.specs.values():
            self.coordinator.define(spec)

    def couple_two(self, *pairs: tuple[str, str], **fields: Any) -> None:
        """Make ``a`` and ``b`` known, whose calls may come in any order, with couplings from ports of a to ports of b:
        from ``out`` to ``in`` if none are given."""
        pairs = pairs or (("out", "in"),)
        self.declare("a", {sender: "Oi" for sender, _ in pairs}, check_order=False)
        self.declare("b", {receiver: "S" for _, receiver in pairs}, check_order=False)
        for sender, receiver in pairs:
            self.couple(f"a.{sender}", f"b.{receiver}", **fields)
        self.define()

    def run_two(self, sender: str, receiver: str) -> None:
        """Run the two programs, which must end well."""
        self.start("a", sender)
        self.start("b", receiver)
        done = self.finish()
        assert (done["a"].returncode, done["b"].returncode) == (0, 0), done

    def environment(self, name: str) -> dict[str, str]:
        """What an instance needs to find the run."""
        return {
            "XMML_INSTANCE": name,
            "XMML_COORDINATOR": ",".join(self.coordinator.addresses),
            "XMML_SECRET_FILE": str(self.secret_file),
            "XMML_MODEL_DIR": str(self.folder),
        }

    def start(self, name: str, program: str) -> subprocess.Popen[str]:
        """Start ``program`` (Python text) as an instance."""
        file = self.folder / f"{name}.py"
        file.write_text(textwrap.dedent(program))
        return self._popen(name, [str(file)])

    def host(self, name: str, task: Mapping[str, Any]) -> subprocess.Popen[str]:
        """Start an instance that is hosted."""
        return self._popen(name, ["-m", "xmml_native.host"], {"XMML_HOST": json.dumps(task)})

    def _popen(self, name: str, arguments: list[str], extra: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        environment = os.environ | self.environment(name) | (extra or {})
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self.processes[name] = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.processes[name]

    def finish(self, *names: str) -> dict[str, subprocess.CompletedProcess[str]]:
        """Wait for the processes (all by default) and return how they ended."""
        done = {}
        for name in names or tuple(self.processes):
            process = self.processes[name]
            out, err = process.communicate(timeout=LIMIT_S)
            done[name] = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        return done

    def wait_for(self, event: str, instance: str | None = None) -> dict[str, Any]:
        """Wait for an event, and keep all of them."""
        seen = 0
        deadline = time.monotonic() + LIMIT_S
        while True:
            for candidate in self.events[seen:]:
                if candidate["event"] == event and instance in (None, candidate.get("instance")):
                    return candidate
            seen = len(self.events)
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise AssertionError(f"no {event} within {LIMIT_S} s; seen: {self.events}")
            self.events += self.coordinator.wait_events(remaining)

    def close(self) -> None:
        """Stop what is left."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.coordinator.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """A run in a folder of its own."""
    run = Run(tmp_path)
    yield run
    run.close()
