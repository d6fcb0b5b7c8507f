"""What the acceptance models share: a model is run in a copy of its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from model_runs import Run, RunModel, run_document


@pytest.fixture
def run_model(tmp_path: Path) -> RunModel:
    """Copies the folder of a model, runs it there, and checks the exit status; on failure shows everybody's output."""

    def run(folder: Path, *options: str, status: int = 0) -> Run:
        copy = tmp_path / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("build", "runs", "__pycache__"))
        return run_document(copy / "model.xmml", *options, folder=tmp_path / "run", status=status)

    return run
