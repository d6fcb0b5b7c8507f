"""Everybody who can carry a message from one program to another: xMML, its competitors, and the floors."""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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
class Peer(ABC):
    """A way of carrying messages.

    `floor` names the peer that its figures are compared with; `expected` is about how long a message takes, in
    microseconds and in microseconds for each MiB. It only decides how many are sent. `touch` says who touches the
    messages (see ends.h), `sizes` from and to which size it takes part, `patterns` in what.
    """

    name: str
    label: str
    floor: str
    expected: tuple[float, float]
    touch: str = field(default="read", kw_only=True)
    sizes: tuple[int, int] = field(default=(0, 1 << 62), kw_only=True)
    patterns: Sequence[str] = field(default=PATTERNS, kw_only=True)
    settings: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def missing(self) -> str | None:
        """Why it cannot take part here, and what to do about it; None if it can."""
        return None

    def takes(self, size_b: int) -> bool:
        """Whether messages of this size are sent."""
        return self.sizes[0] <= size_b <= self.sizes[1]

    def prepare(self) -> None:
        """Builds its programs, if it has any of its own."""
        return

    @abstractmethod
    def command(self, job: Job) -> list[str | Path]:
        """What to start for a job; the folder for it exists."""

    def environment(self) -> dict[str, str]:
        return {"BENCH_TOUCH": self.touch, **self.settings}

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

    def missing(self) -> str | None:
        if shutil.which("mpicc") and shutil.which("mpirun"):
            return None
        return "no mpicc or mpirun; apt-get install openmpi-bin libopenmpi-dev"

    def prepare(self) -> None:
        builds.compile_program(["mpicc", "-std=gnu11"], PROGRAMS / "mpi.c")

    def command(self, job: Job) -> list[str | Path]:
        return ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", builds.program(PROGRAMS / "mpi.c")]

    def environment(self) -> dict[str, str]:
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {**as_root, **super().environment()}


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
    """Two submodels of xMML, in `languages`, started by xmml-run. `lent`: messages are written where they are read."""

    languages: tuple[str, str] = ("python", "python")
    lent: bool = False

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

    def implementation(self, language: str, end: str) -> str:
        source = PROGRAMS / ("xmml_ends.py" if language == "python" else "xmml_ends.cpp")
        program = source if language == "python" else builds.program(source)
        words = f"{end} lent" if self.lent else end
        return f'<implementation language="{language}" path="{os.fspath(program)}" run:args="{words}"/>'


C = (10.0, 300.0)
PYTHON = (20.0, 500.0)
PAIR = ("c++", "c++")
ASLEEP, AWAKE = {"XMML_SPIN_US": "0"}, {"XMML_SPIN_US": "1000"}
NO_CMA = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}

SMALL, LARGE, PLACE = (0, 1 << 16), (1 << 16, 1 << 62), (1 << 16, 1 << 26)
"""Where it matters how an end waits, where it matters who writes what, and what fits into a place of in_place.c."""

PEERS: tuple[Peer, ...] = (
    Xmml("xmml-python", "xMML Python", "socket-python", PYTHON),
    Xmml("xmml-mixed", "xMML Python and C++", "socket-python", PYTHON, ("python", "c++")),
    Xmml("xmml-cpp", "xMML C++", "socket", C, PAIR),
    Xmml("xmml-python-awake", "xMML Python, never asleep", "futex-spin", (3.0, 500.0), settings=AWAKE, sizes=SMALL),
    Xmml("xmml-cpp-awake", "xMML C++, never asleep", "futex-spin", (1.0, 300.0), PAIR, settings=AWAKE, sizes=SMALL),
    Xmml("xmml-python-asleep", "xMML Python, asleep", "futex", (40.0, 500.0), settings=ASLEEP, sizes=SMALL),
    Xmml("xmml-cpp-asleep", "xMML C++, asleep", "futex", (30.0, 300.0), PAIR, settings=ASLEEP, sizes=SMALL),
    Muscle3("muscle3", "MUSCLE3 Python", "socket-python", (250.0, 4000.0)),
    Mpi("openmpi", "OpenMPI C", "socket", (1.0, 150.0)),
    Mpi("openmpi-copy", "OpenMPI C, no CMA", "socket", (1.0, 150.0), settings=NO_CMA),
    Program("zeromq", "ZeroMQ C, ipc", "socket", C, (), "zeromq.c", ("-lzmq",), "zmq.h", "libzmq3-dev"),
    Program("socket-python", "Unix socket, Python", "socket-python", PYTHON, ("unix_socket.py",)),
    Program("socket", "Unix socket, C", "socket", C, (), "unix_socket.c"),
    Program("socket-spin", "Unix socket, C, spinning", "socket", C, ("spin",), "unix_socket.c"),
    Program("pipe", "pipe, C", "socket", C, (), "pipe.c"),
    Program("futex", "futex, C, asleep", "futex", (30.0, 300.0), (), "futex.c", sizes=SMALL),
    Program("futex-spin", "shared memory, C, spinning", "futex-spin", (1.0, 300.0), ("spin",), "futex.c", sizes=SMALL),
    Program("memcpy", "memcpy, C", "memcpy", (0.1, 50.0), (), "memory_copy.c"),
    Xmml("xmml-python-lent", "xMML Python, lent", "same", PYTHON, lent=True, touch="write", sizes=LARGE),
    Xmml("xmml-cpp-lent", "xMML C++, lent", "same", C, PAIR, lent=True, touch="write", sizes=LARGE),
    Xmml("xmml-cpp-copied", "xMML C++, copied", "same", C, PAIR, touch="write", sizes=LARGE),
    Mpi("openmpi-written", "OpenMPI C", "same", (1.0, 250.0), touch="write", sizes=LARGE),
    Program("same", "one process, C", "same", (1.0, 150.0), ("same",), "memory_copy.c", touch="write", sizes=LARGE),
    Program("in-place", "two processes, C", "same", (1.0, 200.0), (), "in_place.c", touch="write", sizes=PLACE),
    Xmml("xmml-python-handed", "xMML Python", "futex", (40.0, 0.0), lent=True, touch="none", sizes=LARGE),
    Xmml("xmml-cpp-handed", "xMML C++", "futex", (20.0, 0.0), PAIR, lent=True, touch="none", sizes=LARGE),
)
