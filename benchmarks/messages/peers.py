"""Everybody who can carry a message from one program to another: xMML, its competitors, and the floors."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from harness import builds, places, processes

PROGRAMS = Path(__file__).resolve().parent / "programs"
PATTERNS = ("pingpong", "stream")


@dataclass(frozen=True)
class Segment:
    """`count` messages of `size_b` bytes."""

    size_b: int
    count: int


@dataclass(frozen=True)
class Job:
    """One start of one peer: a pattern, and its segments one after the other."""

    pattern: str
    segments: Sequence[Segment]
    folder: Path
    cpus: str
    timeout_s: float

    def environment(self) -> dict[str, str]:
        plan = ",".join(f"{segment.size_b}:{segment.count}" for segment in self.segments)
        return places.environment(
            BENCH_PATTERN=self.pattern, BENCH_PLAN=plan, BENCH_OUT=str(self.folder), BENCH_CPUS=self.cpus
        )


@dataclass(frozen=True)
class Peer:
    """A way of carrying messages.

    `floor` names the peer that its figures are compared with; `expected` is about how long a message takes, in
    microseconds and in microseconds for each MiB. It only decides how many are sent.
    """

    name: str
    label: str
    floor: str
    expected: tuple[float, float]

    def missing(self) -> str | None:
        """Why it cannot take part here, and what to do about it; None if it can."""
        return None

    def prepare(self) -> None:
        """Builds its programs."""

    def command(self, job: Job) -> list[str | Path]:
        """What to start for a job; the folder for it exists."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def count(self, size_b: int, seconds: float) -> int:
        """How many messages of this size are sent in about this time."""
        each_us = self.expected[0] + self.expected[1] * size_b / 2**20
        return max(3, min(50_000, int(1e6 * seconds / each_us)))

    def run(self, job: Job) -> None:
        processes.run(
            self.command(job),
            log=job.folder / "output.txt",
            environment={**job.environment(), **self.environment()},
            timeout_s=job.timeout_s,
            cwd=job.folder,
        )


@dataclass(frozen=True)
class Program(Peer):
    """One program in C that forks, or an interpreter and its script."""

    words: tuple[str, ...] = ()
    source: str = ""
    libraries: tuple[str, ...] = ()
    header: str = ""
    package: str = ""

    def missing(self) -> str | None:
        if not self.source:
            return None
        if not shutil.which("cc"):
            return "no C compiler; apt-get install gcc"
        if self.header:
            probe = subprocess.run(["cc", "-E", "-include", self.header, "-x", "c", "/dev/null"], capture_output=True)
            if probe.returncode != 0:
                return f"{self.header} is not there; apt-get install {self.package}"
        return None

    def prepare(self) -> None:
        if self.source:
            builds.compile_program(["cc", "-std=gnu11"], PROGRAMS / self.source, self.libraries)

    def command(self, job: Job) -> list[str | Path]:
        if self.source:
            return [builds.program(PROGRAMS / self.source), *self.words]
        return [places.tool("python") or "python3", PROGRAMS / self.words[0]]


@dataclass(frozen=True)
class Mpi(Peer):
    """Two ranks of OpenMPI."""

    settings: dict[str, str] = field(default_factory=dict)

    def missing(self) -> str | None:
        if shutil.which("mpicc") and shutil.which("mpirun"):
            return None
        return "no mpicc or mpirun; apt-get install openmpi-bin libopenmpi-dev"

    def prepare(self) -> None:
        builds.compile_program(["mpicc", "-std=gnu11"], PROGRAMS / "mpi.c")

    def command(self, job: Job) -> list[str | Path]:
        return ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", builds.program(PROGRAMS / "mpi.c")]

    def environment(self) -> dict[str, str]:
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **self.settings}


YMMSL = {
    "pingpong": Template("""\
ymmsl_version: v0.2
models:
  pingpong:
    description: Call and release
    components:
      ping: {description: calls, ports: {o_i: call, s: answer}, implementation: ping}
      pong: {description: answers, ports: {f_init: call, o_f: answer}, implementation: pong}
    conduits:
      ping.call: pong.call
      pong.answer: ping.answer
programs:
  ping: {description: calls, ports: {o_i: call, s: answer}, executable: $python, args: [$script, ping]}
  pong: {description: answers, ports: {f_init: call, o_f: answer}, executable: $python, args: [$script, pong]}
"""),
    "stream": Template("""\
ymmsl_version: v0.2
models:
  stream:
    description: One way
    components:
      sender: {description: sends, ports: {o_i: call}, implementation: sender}
      receiver: {description: receives, ports: {s: call}, implementation: receiver}
    conduits:
      sender.call: receiver.call
    matching_timelines:
      sender: receiver
programs:
  sender: {description: sends, ports: {o_i: call}, executable: $python, args: [$script, sender]}
  receiver: {description: receives, ports: {s: call}, executable: $python, args: [$script, receiver]}
"""),
}


@dataclass(frozen=True)
class Muscle3(Peer):
    """Two components of MUSCLE3 in Python, started by its manager."""

    def missing(self) -> str | None:
        if places.muscle3("muscle_manager"):
            return None
        return f"no MUSCLE3 in {places.PEERS}; python benchmarks/prepare.py installs it"

    def command(self, job: Job) -> list[str | Path]:
        model = job.folder / "model.ymmsl"
        script = PROGRAMS / "muscle3_ends.py"
        model.write_text(YMMSL[job.pattern].substitute(python=places.muscle3("python"), script=script))
        run_folder = job.folder / "run"
        run_folder.mkdir()
        return [places.muscle3("muscle_manager") or "muscle_manager", "--start-all", "--run-dir", run_folder, model]


XMML = {
    "pingpong": Template("""\
<?xml version="1.0"?>
<model id="pingpong" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="Ping">
      <timescale delta="1 s"/>
      <ports> <out id="call" operator="Oi"/> <in id="answer" operator="S"/> </ports>
      $first
    </submodel>
    <submodel id="Pong">
      <timescale delta="1 s" total="1 s"/>
      <ports> <in id="call" operator="finit"/> <out id="answer" operator="Of"/> </ports>
      $second
    </submodel>
  </definitions>
  <topology>
    <instance id="ping" submodel="Ping" run:steps="until"/>
    <instance id="pong" submodel="Pong"/>
    <coupling from="ping.call" to="pong.call"/>
    <coupling from="pong.answer" to="ping.answer"/>
  </topology>
</model>
"""),
    "stream": Template("""\
<?xml version="1.0"?>
<model id="stream" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="Sender">
      <timescale delta="1 s"/>
      <ports> <out id="call" operator="Oi"/> </ports>
      $first
    </submodel>
    <submodel id="Receiver">
      <timescale delta="1 s"/>
      <ports> <in id="call" operator="S"/> </ports>
      $second
    </submodel>
  </definitions>
  <topology>
    <instance id="sender" submodel="Sender" run:steps="until"/>
    <instance id="receiver" submodel="Receiver" run:steps="until"/>
    <coupling from="sender.call" to="receiver.call"/>
  </topology>
</model>
"""),
}


@dataclass(frozen=True)
class Xmml(Peer):
    """Two submodels of xMML, in `languages`, started by xmml-run."""

    languages: tuple[str, str] = ("python", "python")

    def missing(self) -> str | None:
        if not places.tool("xmml-run"):
            return "xmml-run is not installed beside this Python; make build"
        if "c++" in self.languages and not shutil.which("c++"):
            return "no C++ compiler; apt-get install g++"
        return None

    def prepare(self) -> None:
        if "c++" in self.languages:
            builds.compile_submodel(PROGRAMS / "xmml_ends.cpp")

    def command(self, job: Job) -> list[str | Path]:
        ends = {"pingpong": ("ping", "pong"), "stream": ("sender", "receiver")}[job.pattern]
        first, second = (self.implementation(*which) for which in zip(self.languages, ends, strict=True))
        model = job.folder / "model.xml"
        model.write_text(XMML[job.pattern].substitute(first=first, second=second))
        return [places.tool("xmml-run") or "xmml-run", "--quiet", "-o", job.folder / "run", model]

    @staticmethod
    def implementation(language: str, end: str) -> str:
        source = PROGRAMS / ("xmml_ends.py" if language == "python" else "xmml_ends.cpp")
        program = source if language == "python" else builds.program(source)
        return f'<implementation language="{language}" path="{os.fspath(program)}" run:args="{end}"/>'


C = (10.0, 300.0)
PYTHON = (20.0, 500.0)

PEERS: tuple[Peer, ...] = (
    Xmml("xmml-python", "xMML Python", "socket-python", PYTHON),
    Xmml("xmml-mixed", "xMML Python and C++", "socket-python", PYTHON, ("python", "c++")),
    Xmml("xmml-cpp", "xMML C++", "socket", C, ("c++", "c++")),
    Muscle3("muscle3", "MUSCLE3 Python", "socket-python", (250.0, 4000.0)),
    Mpi("openmpi", "OpenMPI C", "socket", (1.0, 150.0)),
    Mpi(
        "openmpi-copy",
        "OpenMPI C, no CMA",
        "socket",
        (1.0, 150.0),
        {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"},
    ),
    Program("zeromq", "ZeroMQ C, ipc", "socket", C, (), "zeromq.c", ("-lzmq",), "zmq.h", "libzmq3-dev"),
    Program("socket-python", "Unix socket, Python", "socket-python", PYTHON, ("unix_socket.py",)),
    Program("socket", "Unix socket, C", "socket", C, (), "unix_socket.c"),
    Program("socket-spin", "Unix socket, C, spinning", "socket", C, ("spin",), "unix_socket.c"),
    Program("memcpy", "memcpy, C", "memcpy", (0.1, 50.0), (), "memory_copy.c"),
)
