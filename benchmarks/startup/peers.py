"""Everybody who can start many coupled programs: xMML with programs in Python and C++, MUSCLE3 with programs in Python.

The model is a ring: each instance sends to the next one and receives from the one before, once, over `width` conduits.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from harness import builds, places

PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass(frozen=True)
class Peer:
    """A framework that starts the ring; `most` is the largest that it is asked to start.

    `instance_variable` is in the environment of those of its processes that are instances.
    """

    name: str
    label: str
    most: int
    instance_variable: str

    def missing(self) -> str | None:
        """Why it cannot take part here, and what to do about it; None if it can."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Builds its programs."""

    def command(self, instances: int, width: int, folder: Path) -> list[str | Path]:
        """Writes the model into `folder`, and returns what starts it."""
        raise NotImplementedError


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


@dataclass(frozen=True)
class Xmml(Peer):
    language: str = "python"

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
    <submodel id="Member">
      <timescale delta="1 s" total="1 s"/>
      <ports> {" ".join(ports)} </ports>
      <implementation language="{self.language}" path="{program}" run:args="{width}"/>
    </submodel>
  </definitions>
  <topology>
    {" ".join(members)}
    {" ".join(couplings)}
  </topology>
</model>
"""
        )
        return [places.tool("xmml-run") or "", "--quiet", "-o", folder / "run", model]


PEERS: tuple[Peer, ...] = (
    Xmml("xmml-python", "xMML Python", 1000, "XMML_INSTANCE"),
    Xmml("xmml-cpp", "xMML C++", 1000, "XMML_INSTANCE", "c++"),
    Muscle3("muscle3", "MUSCLE3 Python", 50, "MUSCLE_INSTANCE"),
)
