"""What the acceptance models share: running a model with the installed xmml-run, as a user would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 100


@dataclass(frozen=True)
class Run:
    """A run that is over: its exit status, what xmml-run said, its folder and that of the model."""

    status: int
    report: dict[str, Any]
    folder: Path
    model: Path
    stderr: str

    def output(self, instance: str) -> str:
        """All that an instance printed."""
        return (self.folder / "instances" / instance / "stdout").read_text()

    def lines(self, instance: str) -> list[str]:
        return self.output(instance).splitlines()

    def work(self, instance: str) -> Path:
        """The work folder of an instance."""
        return self.folder / "instances" / instance / "work"


RunModel = Callable[..., Run]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment, with xmml-config on the path (Makefiles use it) and OpenMPI content with root and few cores."""
    path = os.pathsep.join([str(Path(xmml_run()).parent), os.environ["PATH"]])
    mpi = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    return {**os.environ, "PATH": path, **mpi}


@pytest.fixture
def run_model(tmp_path: Path, environment: dict[str, str]) -> RunModel:
    """Copies the folder of a model, runs it there, and checks the exit status; on failure shows everybody's output."""

    def run(folder: Path, *options: str, status: int = 0) -> Run:
        copy = tmp_path / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("build", "runs", "__pycache__"))
        where = tmp_path / "run"
        command = [xmml_run(), str(copy / "model.xmml"), "--json", "-o", str(where), *options]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=copy, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.fail(f"{folder.name}: not over after {TIMEOUT_S} s\n{logs(where)}", pytrace=False)
        if done.returncode != status:
            pytest.fail(
                f"{folder.name}: exit status {done.returncode}, not {status}\n{done.stderr}{logs(where)}", pytrace=False
            )
        return Run(done.returncode, json.loads(done.stdout.strip().splitlines()[-1]), where, copy, done.stderr)

    return run


def xmml_run() -> str:
    """The command beside the running Python, else the one on the path."""
    beside = Path(sys.executable).parent / "xmml-run"
    found = str(beside) if beside.exists() else shutil.which("xmml-run")
    assert found is not None, "xmml-run is not installed here: run `make build` and activate .venv"
    return found


def logs(run: Path) -> str:
    """What every instance of a run printed, for the message of a failed test."""
    texts = []
    for file in sorted(run.glob("instances/*/std*")):
        if text := file.read_text(errors="replace").strip():
            texts.append(f"--- {file.relative_to(run)}\n{text[-4000:]}\n")
    return "\n" + "".join(texts)
