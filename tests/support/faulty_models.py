"""Runs with something wrong: two instances, `a` sends to `b`, each a Python program of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from processes import children, command_line
from waiting import LIMIT_S, complete_lines, wait_until

#: A fault ends the run at once: not only when partners and coordinator give up waiting for a connection to come back,
#: which they do after XMML_AWAY_LIMIT_S, usually 60 s [s]. (The timers of the end: test_coordination.py.)
BEFORE_GIVING_UP_S = 30.0

#: A program that notes when its fault happens, so that the time to the end of the run can be taken from there.
FAULT = "import os, time\ndef fault():\n    open(os.environ['FAULT_TIME'], 'w').write(repr(time.time()))\n"

SEND = """import xmml
with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            me.send("o", t)
"""
RECEIVE = """import xmml
with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            print(me.receive("i").data)
"""
#: A program that would wait forever.
WAIT = "import time\ntime.sleep(600)\n"


@dataclass(frozen=True)
class Ended:
    """A run that has ended."""

    status: int
    out: str
    err: str
    folder: Path
    seconds_after_fault: float | None

    @property
    def last_line(self) -> str:
        """The last line people see."""
        return self.err.rstrip().rpartition("\n")[2]

    def check(self, status: int, *words: str) -> None:
        """Assert the exit status, the words in the last line, and that the fault was noticed without giving up."""
        assert self.status == status, self.err
        for word in words:
            assert word in self.last_line, self.err
        if self.seconds_after_fault is not None:
            assert self.seconds_after_fault < BEFORE_GIVING_UP_S, self.err


@dataclass
class Going:
    """A run that goes on."""

    process: subprocess.Popen[str]
    folder: Path
    fault_time: Path

    def wait_for_event(self, what: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many events of a kind have been noted, and return all events."""
        return wait_until(lambda: self.events_with(what, count), f"no {count} events {what}")

    def events_with(self, what: str, count: int = 1) -> list[dict[str, Any]] | None:
        """Return all events if so many of a kind have been noted."""
        events = complete_lines(self.folder / "events.jsonl")
        return events if sum(event["what"] == what for event in events) >= count else None

    def pids(self) -> list[int]:
        """The processes of the instances."""
        return [event["pid"] for event in self.wait_for_event("started", 2) if event["what"] == "started"]

    def supervisor(self) -> int:
        """The process id of the supervisor."""
        commands = {pid: command_line(Path(f"/proc/{pid}")) for pid in children(self.process.pid)}
        return next(pid for pid, command in commands.items() if command.endswith("mto supervise"))

    def end(self) -> Ended:
        """Wait for the end."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        now = time.time()
        after = now - float(self.fault_time.read_text()) if self.fault_time.exists() else None
        return Ended(self.process.returncode, out, err, self.folder, after)


@dataclass
class Models:
    """Makes models and starts them."""

    folder: Path
    going: list[Going] = field(default_factory=list)

    def write(
        self,
        programs: Mapping[str, str],
        *,
        steps: int = 3,
        implementations: Mapping[str, str] | None = None,
        couplings: Sequence[tuple[str, str]] = (("a.o", "b.i"),),
        ports: Mapping[str, str] | None = None,
        run: str = "",
    ) -> Path:
        """Write a model; `programs` are the Python texts by instance, `implementations` what stands instead of them."""
        its_ports = {"a": '<out id="o" operator="Oi"/>', "b": '<in id="i" operator="S"/>'} | dict(ports or {})
        submodels, instances = [], []
        for name in its_ports:
            if name in programs:
                (self.folder / f"{name}.py").write_text(programs[name])
            implementation = (implementations or {}).get(name, f'<implementation language="python" path="{name}.py"/>')
            submodels.append(
                f'<submodel id="{name.upper()}"><timescale delta="1 s" total="{steps} s"/>'
                f"<ports>{its_ports[name]}</ports>{implementation}</submodel>"
            )
            instances.append(f'<instance id="{name}" submodel="{name.upper()}"/>')
        wires = [f'<coupling from="{sender}" to="{receiver}" {run}/>' for sender, receiver in couplings]
        path = self.folder / "model.xmml"
        path.write_text(
            '<model id="faulty" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" '
            f'xmlns:run="urn:xmml:run:1">\n<definitions>{"".join(submodels)}</definitions>\n'
            f"<topology>{''.join(instances)}{''.join(wires)}</topology></model>"
        )
        return path

    def start(self, model: Path, *options: str, wrapper: Sequence[str] = (), folder: Path | None = None) -> Going:
        """Start a run in the background."""
        run = folder or self.folder / "run"
        fault_time = self.folder / "fault"
        process = subprocess.Popen(
            # Where its path has spaces, the installed script begins with a shell, which meets the limits first.
            [*wrapper, sys.executable, "-m", "xmml_run", str(model), "-o", str(run), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "FAULT_TIME": str(fault_time)},
            cwd=self.folder,
            process_group=0,
        )
        self.going.append(Going(process, run, fault_time))
        return self.going[-1]

    def run(self, model: Path, *options: str) -> Ended:
        """Run a model to its end."""
        return self.start(model, *options).end()


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Models]:
    """Makes models in a folder of their own, and leaves no process behind."""
    made = Models(tmp_path)
    yield made
    for going in made.going:
        if going.process.poll() is None:
            os.killpg(going.process.pid, signal.SIGKILL)
            going.process.communicate()
