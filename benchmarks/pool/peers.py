"""Everybody who can bring objects from writers to those who want them: xMML, its peers, and the floor.

The environment of every program says what the case is: BENCH_COUNT objects of BENCH_SIZE_B bytes by each of BENCH_PAIRS
writers, and the other attributes of a case by their names.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cases import Case
from harness import builds, places

PROGRAMS = Path(__file__).resolve().parent / "programs"
#: Below this no peer is asked to measure.
LEAST = 24
LARGE_B = 16 * 1024


@dataclass(frozen=True)
class Cost:
    """About what an object costs [us], small or for each MiB. It decides only how many are sent."""

    gathered: float
    flushed: float
    mib: float


@dataclass(frozen=True)
class Peer(ABC):
    """Somebody who takes part in these experiments.

    Attributes:
        sends_all: its writers send also what nobody wants.
    """

    name: str
    label: str
    cost: Cost
    experiments: Sequence[str] = field(kw_only=True)
    sends_all: bool = field(default=False, kw_only=True)

    def takes(self, experiment: str, case: Case) -> bool:
        """Whether it can do what a case of an experiment asks for."""
        return experiment in self.experiments

    def count(self, case: Case, seconds: float) -> int:
        """Return how many objects each writer writes, which takes about so long. With many selectors it is fewer."""
        share = 1 if self.sends_all else case.wanted / case.params
        each_us = (
            self.cost.flushed if case.flushed else self.cost.gathered
        ) + self.cost.mib * case.size_b * share / 2**20
        most = 1 if not case.readers else max(1, case.params // 100)
        return max(LEAST, case.params, int(1e6 * seconds / each_us) // most)

    @abstractmethod
    def missing(self) -> str | None:
        """Return why it cannot take part here, and what installs it; None if it can."""

    @abstractmethod
    def version(self) -> str:
        """Return its name with its version; empty for what is part of xMML."""

    def prepare(self) -> None:
        """Build its programs, if it has any of its own."""
        return

    def sent_b(self, output: str) -> int | None:
        """Return how many bytes its writers have sent in all passes, from what it has said; None if it says nothing."""
        return None

    def clean(self, folder: Path) -> None:
        """Remove what a run in this folder may have left elsewhere."""
        return

    @abstractmethod
    def command(self, case: Case, folder: Path) -> list[str | Path]:
        """Return what starts all writers and readers of a case."""

    def environment(self, case: Case, count: int, folder: Path) -> dict[str, str]:
        return places.environment(
            BENCH_COUNT=str(count),
            BENCH_SIZE_B=str(case.size_b),
            BENCH_PAIRS=str(case.pairs),
            BENCH_PARAMS=str(case.params),
            BENCH_WANTED=str(case.wanted),
            BENCH_FLUSHED=str(int(case.flushed)),
            BENCH_COPIED=str(int(case.copied)),
            BENCH_OVER=case.over,
            BENCH_FOLDER=str(folder),
        )


ATTRIBUTES = (
    "class:enum(od,rd)! stream:enum(oper,enfo)! type:enum(an,fc)! expver:str! domain:enum(g,s)! date:time! time:uint! "
    "levtype:enum(sfc,pl,ml)! levelist:int[1..137]! number:uint! step:int[0..]! param:uint!"
)


@dataclass(frozen=True)
class Xmml(Peer):
    """Submodels of xMML, started by xmml-run. `way`: "pool", or "messages" for the same payloads without attributes."""

    language: str = "python"
    way: str = "pool"

    def missing(self) -> str | None:
        if not places.tool("xmml-run"):
            return "xmml-run is not installed beside this Python; make build"
        if self.language == "c" and not shutil.which("c++"):
            return "no C++ compiler; apt-get install g++"
        return None

    def version(self) -> str:
        return ""

    def prepare(self) -> None:
        if self.language == "c":
            builds.compile_submodel(PROGRAMS / "pool_ends.cpp")

    def command(self, case: Case, folder: Path) -> list[str | Path]:
        model = folder / "model.xmml"
        model.write_text(self.model(case))
        return [places.tool("xmml-run") or "xmml-run", "--quiet", "--json", "--hosts", "1", "-o", folder / "run", model]

    def sent_b(self, output: str) -> int:
        summary = json.loads(output.splitlines()[-1])
        return sum(each["bytes_sent"] for name, each in summary["instances"].items() if name.startswith("w"))

    def model(self, case: Case) -> str:
        """Return the model: a writer and a reader for each pair, or a writer and a reader for each param."""
        topology = self.pool(case) if self.way == "pool" else self.messages(case)
        out, into = ("", "") if self.way == "pool" else (' operator="Oi"', ' operator="S"')
        return (
            '<model id="pool" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
            f'<definitions><datatype id="field" run:attributes="{ATTRIBUTES}"/>'
            f"{self.submodel('writer', 'out', out)}{self.submodel('reader', 'in', into, case.readers)}</definitions>"
            f"<topology>{topology}</topology></model>"
        )

    def submodel(self, role: str, kind: str, operator: str, are_many: bool = False) -> str:
        class_ = ' class="many:Many"' if are_many else ""
        where = f'language="python" path="{PROGRAMS}/many.py"' if are_many else self.implementation(role)
        return (
            f'<submodel id="{role}"{class_}><timescale delta="1 s" total="1 s"/>'
            f'<ports><{kind} id="fields" datatype="field"{operator}/></ports><implementation {where}/></submodel>'
        )

    def pool(self, case: Case) -> str:
        """Return one pool between all copies, of which each reader wants the objects of one writer."""
        conditions = ["number = $index"] if case.pairs > 1 else []
        is_one_each = case.readers and case.params > 1
        conditions.append("param = $index" if is_one_each else f"param &lt; {case.wanted}")
        writers = instance("w", "writer", case.pairs)
        readers = instance("r", "reader", case.params if case.readers else case.pairs)
        select = f'run:kind="pool" run:select="{" and ".join(conditions)}"'
        return f"{writers}{readers}{coupling('', select, case)}"

    def messages(self, case: Case) -> str:
        """Return a coupling for each pair."""
        pairs = range(case.pairs)
        instances = [instance(f"w{pair}", "writer") + instance(f"r{pair}", "reader") for pair in pairs]
        couplings = [coupling(str(pair), 'run:capacity="1000"', case) for pair in pairs]
        return "".join([*instances, *couplings])

    def implementation(self, role: str) -> str:
        program = PROGRAMS / "pool_ends.py" if self.language == "python" else builds.program(PROGRAMS / "pool_ends.cpp")
        language = ' language="python"' if self.language == "python" else ""
        return f'path="{program}"{language} run:args="{role} {self.way}"'


def instance(name: str, submodel: str, copies: int = 1) -> str:
    multiplicity = f' multiplicity="{copies}"' if copies > 1 else ""
    return f'<instance id="{name}" submodel="{submodel}" run:order="free"{multiplicity}/>'


def coupling(pair: str, how: str, case: Case) -> str:
    methods = ' run:methods="tcp"' if case.over == "tcp" else ""
    return f'<coupling from="w{pair}.fields" to="r{pair}.fields" {how}{methods}/>'


@dataclass(frozen=True)
class Script(Peer):
    """A program in Python with a package from PyPI, which is in the environment of the peers.

    Attributes:
        package: its name at PyPI.
        tool: a command that it needs besides, and the Debian package that has it.
        words: which of its ways it goes.
    """

    package: str = ""
    script: str = ""
    tool: tuple[str, str] | None = None
    words: str = ""

    def missing(self) -> str | None:
        if self.tool and not shutil.which(self.tool[0]):
            return f"no {self.tool[0]}; apt-get install {self.tool[1]}"
        if not self.version_of_package():
            return f"no {self.package} in {places.PEERS}; python benchmarks/prepare.py installs it"
        return None

    def takes(self, experiment: str, case: Case) -> bool:
        is_step_bound = self.package == "adios2" and case.wanted == 0
        return super().takes(experiment, case) and not is_step_bound

    def version(self) -> str:
        server = ""
        if self.tool:
            told = subprocess.run([self.tool[0], "--version"], capture_output=True, text=True).stdout
            server = f" with {self.tool[0]} {told.partition('v=')[2].partition(' ')[0]}"
        return f"{self.package} {self.version_of_package()}{server}"

    def version_of_package(self) -> str:
        """Return the version that is installed; empty if none is."""
        python = places.peer("python")
        asks = f"import importlib.metadata as it; print(it.version('{self.package}'))"
        return subprocess.run([python, "-c", asks], capture_output=True, text=True).stdout.strip() if python else ""

    def command(self, case: Case, folder: Path) -> list[str | Path]:
        return [places.peer("python") or "python3", PROGRAMS / self.script]

    def environment(self, case: Case, count: int, folder: Path) -> dict[str, str]:
        ports = ",".join(map(str, free_ports(case.pairs)))
        return {**super().environment(case, count, folder), "BENCH_PORTS": ports, "BENCH_WORDS": self.words}


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@dataclass(frozen=True)
class Floor(Peer):
    """A program in C++ that does only the transfer; `files`: by files in this folder, or beside the case's own."""

    files: Path | None = None

    def missing(self) -> str | None:
        return None if shutil.which("c++") else "no C++ compiler; apt-get install g++"

    def version(self) -> str:
        return ""

    def prepare(self) -> None:
        builds.compile_program(["c++", "-std=c++17"], PROGRAMS / "pool_floor.cpp")

    def command(self, case: Case, folder: Path) -> list[str | Path]:
        program: list[str | Path] = [builds.program(PROGRAMS / "pool_floor.cpp")]
        if self.files:
            (self.files / folder.name).mkdir(parents=True)
            return [*program, "files", self.files / folder.name]
        return [*program, "tcp" if case.over == "tcp" else "shared" if case.size_b >= LARGE_B else "socket"]

    def clean(self, folder: Path) -> None:
        if self.files:
            shutil.rmtree(self.files / folder.name, ignore_errors=True)


ON_HOST = ("small", "copied", "viewed", "wanted", "pairs")
ALL = (*ON_HOST, "network")
POOL = (*ALL, "selectors", "files")
MESSAGES = ("small", "copied", "viewed", "network")
FILES = ("files",)
REDIS = ("redis-server", "redis-server")

PEERS: tuple[Peer, ...] = (
    Xmml("xmml-c", "xMML, C", Cost(2, 2, 200), "c", experiments=POOL),
    Xmml("xmml-python", "xMML, Python", Cost(10, 10, 300), "python", experiments=POOL),
    Xmml("messages-c", "xMML, C, messages", Cost(1, 1, 200), "c", "messages", experiments=MESSAGES),
    Xmml("messages-python", "xMML, Python, messages", Cost(3, 3, 300), "python", "messages", experiments=MESSAGES),
    Script(
        "zenoh", "Zenoh, tcp", Cost(15, 30, 1500), "eclipse-zenoh", "zenoh_ends.py", experiments=(*ALL, "selectors")
    ),
    Script(
        "zenoh-shm",
        "Zenoh, shared memory",
        Cost(60, 60, 400),
        "eclipse-zenoh",
        "zenoh_ends.py",
        words="shm",
        experiments=("copied", "viewed", "wanted"),
    ),
    Script(
        "redis", "Redis streams", Cost(20, 150, 2500), "redis", "redis_ends.py", REDIS, experiments=ALL, sends_all=True
    ),
    Script("adios2", "ADIOS2 SST", Cost(10, 3000, 4000), "adios2", "adios2_ends.py", experiments=ALL, sends_all=True),
    Floor("floor", "floor, C++", Cost(0.3, 4, 200), experiments=ALL),
    Floor("files-memory", "files in memory, C++", Cost(50, 50, 600), Path("/dev/shm"), experiments=FILES),
    Floor("files-disk", "files on a disk, C++", Cost(50, 50, 900), places.BUILD, experiments=FILES),
)
