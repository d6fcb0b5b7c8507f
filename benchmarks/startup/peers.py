"""Everybody who can start many coupled programs: xMML with classes that share processes, with programs in Python and
C++, MUSCLE3 with programs in Python.

The model is a ring: each instance sends to the next one and receives from the one before, once, over `width` conduits.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness import builds, places, processes

PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass(frozen=True)
class Peer(ABC):
    """A framework that starts the ring; `most` is the largest that it is asked to start.

    `is_for_many_conduits`: it is asked for a ring of very many conduits, too.
    """

    name: str
    label: str
    most: int
    is_for_many_conduits: bool = False

    @abstractmethod
    def missing(self) -> str | None:
        """Why it cannot take part here, and what to do about it; None if it can."""

    def prepare(self) -> None:
        """Builds its programs, if it has any of its own."""
        return

    @abstractmethod
    def command(self, instances: int, width: int, folder: Path) -> list[str | Path]:
        """Writes the model into `folder`, and returns what starts it."""

    def planned(self, command: list[str | Path], folder: Path) -> list[str | Path]:
        """Plans what `command` would start, and returns what starts the finished plan.

        Raises:
            ValueError: it knows no plans; only peers for many conduits are asked.
        """
        raise ValueError(f"{self.label} knows no plans")

    @abstractmethod
    def instances_among(self, pids: Iterable[int], folder: Path) -> set[int]:
        """Which of its processes are instances, or hold some."""


@dataclass(frozen=True)
class Muscle3(Peer):
    def missing(self) -> str | None:
        if places.muscle3("muscle_manager"):
            return None
        return f"no MUSCLE3 in {places.PEERS}; python benchmarks/prepare.py installs it"

    def command(self, instances: int, width: int, folder: Path) -> list[str | Path]:
        names = [f"c{i}" for i in range(instances)]
        out, into = (" ".join(f"{kind}{port}" for port in range(width)) for kind in ("out", "in"))
        ports = f"ports: {{o_i: {out}, s: {into}}}"
        member = f"args: [{PROGRAMS / 'muscle3_member.py'}, '{width}']"
        lines = ["ymmsl_version: v0.2", "models:", "  ring:", "    description: A ring", "    components:"]
        lines += [f"      {name}: {{description: member, {ports}, implementation: member}}" for name in names]
        lines += ["    conduits:"]
        lines += [
            f"      {sender}.out{port}: {receiver}.in{port}"
            for sender, receiver in zip(names, names[1:] + names[:1], strict=True)
            for port in range(width)
        ]
        lines += ["    matching_timelines:", f"      c0: [{', '.join(names[1:])}]", "programs:", "  member:"]
        lines += [f"    description: member\n    {ports}", f"    executable: {places.muscle3('python')}\n    {member}"]
        model = folder / "model.ymmsl"
        model.write_text("\n".join(lines) + "\n")
        (folder / "run").mkdir()
        return [places.muscle3("muscle_manager") or "", "--start-all", "--run-dir", folder / "run", model]

    def instances_among(self, pids: Iterable[int], folder: Path) -> set[int]:
        return {pid for pid in pids if processes.setting(pid, "MUSCLE_INSTANCE") is not None}


@dataclass(frozen=True)
class Xmml(Peer):
    language: str = "python"
    is_hosted: bool = False

    def missing(self) -> str | None:
        if not places.tool("xmml-run"):
            return "xmml-run is not installed beside this Python; make build"
        if self.language == "c++" and not shutil.which("c++"):
            return "no C++ compiler; apt-get install g++"
        return None

    def prepare(self) -> None:
        if self.language == "c++":
            builds.compile_submodel(PROGRAMS / "xmml_member.cpp")

    def command(self, instances: int, width: int, folder: Path) -> list[str | Path]:
        program = PROGRAMS / "xmml_member.py"
        if self.language == "c++":
            program = builds.program(PROGRAMS / "xmml_member.cpp")
        arguments = f' run:args="{width}"'
        if self.is_hosted:
            program, arguments = PROGRAMS / "xmml_hosted.py", ""
        ports = [f'<out id="out{port}" operator="Oi"/> <in id="in{port}" operator="S"/>' for port in range(width)]
        members = [f'<instance id="c{i}" submodel="Member"/>' for i in range(instances)]
        couplings = [
            f'<coupling from="c{i}.out{port}" to="c{(i + 1) % instances}.in{port}"/>'
            for i in range(instances)
            for port in range(width)
        ]
        model = folder / "model.xml"
        model.write_text(
            f"""<?xml version="1.0"?>
<model id="ring" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="Member"{' class="xmml_hosted:Member"' if self.is_hosted else ""}>
      <timescale delta="1 s" total="1 s"/>
      <param id="ports" value="{width}"/>
      <ports> {" ".join(ports)} </ports>
      <implementation language="{self.language}" path="{program}"{arguments}/>
    </submodel>
  </definitions>
  <topology>
    {" ".join(members)}
    {" ".join(couplings)}
  </topology>
</model>
"""
        )
        # Two classes would have a process each on two cores: then they would not share one.
        hosts = ["--hosts", "1"] if self.is_hosted and instances == 2 else []
        return [places.tool("xmml-run") or "", "--quiet", *hosts, "-o", folder / "run", model]

    def planned(self, command: list[str | Path], folder: Path) -> list[str | Path]:
        plan = folder / "plan.json"
        making = [places.tool("xmml") or "", "plan", command[-1], "-o", plan]
        processes.run(making, log=folder / "plan.txt", environment=places.environment(), timeout_s=100)
        return [*command[:-1], plan]

    def instances_among(self, pids: Iterable[int], folder: Path) -> set[int]:
        """From the events of the run: what the fork server has started shows nobody else's environment."""
        with (folder / "run" / "events.jsonl").open() as file:
            events = [json.loads(line) for line in file if line.endswith("\n")]
        return {event["pid"] for event in events if event["what"] == "started"}.intersection(pids)


PEERS: tuple[Peer, ...] = (
    Xmml("xmml-hosted", "xMML Python, hosted", 1000, is_for_many_conduits=True, is_hosted=True),
    Xmml("xmml-python", "xMML Python", 1000),
    Xmml("xmml-cpp", "xMML C++", 1000, language="c++"),
    Muscle3("muscle3", "MUSCLE3 Python", 50),
)
