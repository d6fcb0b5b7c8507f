"""The two ways to compute the cavity: one MPI program on two ranks, and two submodels coupled by xMML."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import builds, places, processes
from sample import COUPLED, MPI, Sample

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
CAVITY = places.ROOT / "workflows" / "cavity"

FLAGS = ("-march=native", "-ffp-contract=off", f"-I{CAVITY}")
"""The same for both; no multiplication is fused with an addition, so that both compute the same bits."""


@dataclass(frozen=True)
class Job:
    """A cube of this many cells along each edge, this many steps, each half on its CPU ("0,1", or "")."""

    cells: int
    warm_up: int
    steps: int
    cpus: str
    timeout_s: float


@dataclass(frozen=True)
class Peer(ABC):
    """A way to compute both halves of a cavity."""

    name: str
    label: str

    @abstractmethod
    def missing(self) -> str | None:
        """Why it cannot take part here, and what to do about it; None if it can."""

    @abstractmethod
    def prepare(self) -> None:
        """Builds its program."""

    @abstractmethod
    def command(self, folder: Path) -> list[str | Path]:
        """What to start; `folder` is for what it writes."""

    def environment(self) -> dict[str, str]:
        return {}

    def run(self, number: int, job: Job) -> Sample:
        """One run.

        Raises:
            RunFailed: it failed, or the water in the cavity became more or less.
        """
        with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
            folder = Path(name)
            begin = time.monotonic()
            processes.run(
                self.command(folder),
                log=folder / "output.txt",
                environment=places.environment(
                    BENCH_CELLS=str(job.cells),
                    BENCH_STEPS=str(job.steps),
                    BENCH_WARM_UP=str(job.warm_up),
                    BENCH_CPUS=job.cpus,
                    BENCH_OUT=name,
                    **self.environment(),
                ),
                timeout_s=job.timeout_s,
                cwd=folder,
            )
            total_s = time.monotonic() - begin
            west, east = (report(folder / f"{half}.json") for half in ("west", "east"))
        before, after = (west[when] + east[when] for when in ("mass_before", "mass_after"))
        if abs(after - before) > 1e-9 * before:
            raise processes.RunFailed(f"{self.name}: of {before} units of water {after} are left")
        return Sample(
            number,
            self.name,
            job.cells,
            job.steps,
            max(west["loop_s"], east["loop_s"]) / job.steps,
            west["sending_s"] / job.steps,
            west["receiving_s"] / job.steps,
            east["sending_s"] / job.steps,
            east["receiving_s"] / job.steps,
            max(west["begin"], east["begin"]) - begin,
            total_s,
            west["fingerprint"] + east["fingerprint"],
        )


def report(path: Path) -> dict[str, Any]:
    """What a half has reported.

    Raises:
        RunFailed: it has not.
    """
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, json.JSONDecodeError) as error:
        raise processes.RunFailed(f"no report of a half of the cavity: {error}") from None


@dataclass(frozen=True)
class Mpi(Peer):
    def missing(self) -> str | None:
        if shutil.which("mpicxx") and shutil.which("mpirun"):
            return None
        return "no mpicxx or mpirun; apt-get install openmpi-bin libopenmpi-dev"

    def prepare(self) -> None:
        builds.compile_program(["mpicxx", "-std=c++17"], PROGRAMS / "cavity_mpi.cpp", FLAGS)

    def command(self, folder: Path) -> list[str | Path]:
        program = builds.program(PROGRAMS / "cavity_mpi.cpp")
        return ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", program]

    def environment(self) -> dict[str, str]:
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True)
class Coupled(Peer):
    def missing(self) -> str | None:
        if not places.tool("xmml-run"):
            return "xmml-run is not installed beside this Python; make build"
        if not shutil.which("c++"):
            return "no C++ compiler; apt-get install g++"
        return None

    def prepare(self) -> None:
        builds.compile_submodel(PROGRAMS / "cavity_half.cpp", FLAGS)

    def command(self, folder: Path) -> list[str | Path]:
        return [places.tool("xmml-run") or "xmml-run", "--quiet", "-o", folder / "run", HERE / "model.xmml"]


PEERS: tuple[Peer, ...] = (Mpi(MPI, "one MPI program"), Coupled(COUPLED, "two coupled submodels"))
