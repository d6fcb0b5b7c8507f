"""Running a model with the installed xmml-run, as a user would, and reading what came of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import SEARCH_PATH, XMML_RUN
from waiting import RUN_LIMIT_S


def environment() -> dict[str, str]:
    """The environment with the installed commands first on the search path (Makefiles use xmml-config), and OpenMPI
    content with root and few cores: ranks that wait give way to those that they wait for."""
    mpi = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    return {**os.environ, "PATH": SEARCH_PATH, **mpi}


@dataclass(frozen=True)
class Run:
    """A run that is over: its exit status, what xmml-run said, its folder and that of the model.

    `report` is the JSON object at the end of standard output; empty if there is none.
    """

    status: int
    report: Mapping[str, Any]
    folder: Path
    model: Path
    stderr: str

    def output(self, instance: str) -> str:
        """All that an instance printed."""
        return (self.folder / "instances" / instance / "stdout").read_text()

    def lines(self, instance: str) -> list[str]:
        """The lines that an instance printed."""
        return self.output(instance).splitlines()

    def work(self, instance: str) -> Path:
        """The work folder of an instance."""
        return self.folder / "instances" / instance / "work"

    def events(self) -> list[dict[str, Any]]:
        """The events of the run."""
        return [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]


RunModel = Callable[..., Run]


def run_document(
    document: Path,
    *options: str,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    status: int | None = 0,
    limit_s: float = RUN_LIMIT_S,
) -> Run:
    """Run a model, or a plan, in its folder to the end.

    Args:
        document: the model.
        options: of xmml-run.
        folder: of the run; `run` beside the model if it is not given.
        env: added to `environment`.
        status: the exit status that it must have; None: any.
        limit_s: when to fail [s].

    Raises:
        pytest.fail.Exception: another exit status, or not over at the limit; with what every instance printed.
    """
    where = folder or document.parent / "run"
    command = [XMML_RUN, str(document), "--json", "-o", str(where), *options]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit_s,
            cwd=document.parent,
            env=environment() | dict(env or {}),
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"{document}: not over after {limit_s:g} s\n{logs(where)}", pytrace=False)
    if status is not None and done.returncode != status:
        pytest.fail(
            f"{document}: exit status {done.returncode}, not {status}\n{done.stderr}{logs(where)}", pytrace=False
        )
    lines = done.stdout.strip().splitlines()
    return Run(done.returncode, json.loads(lines[-1]) if lines else {}, where, document.parent, done.stderr)


def logs(run: Path) -> str:
    """What every instance of a run printed, for the message of a failed test."""
    texts = []
    for file in sorted(run.glob("instances/*/std*")):
        if text := file.read_text(errors="replace").strip():
            texts.append(f"--- {file.relative_to(run)}\n{text[-4000:]}\n")
    return "\n" + "".join(texts)
