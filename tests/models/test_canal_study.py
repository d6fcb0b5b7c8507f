"""The parameter study of the canal, as its README tells users to run it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from matplotlib import pyplot

CANAL = Path(__file__).parent.parent.parent / "workflows" / "canal"


def test_the_study_runs_every_case_and_draws_them(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "canal"
    shutil.copytree(CANAL, folder, ignore=shutil.ignore_patterns("runs", "build", "study", ".snakemake"))
    command = [sys.executable, "-m", "snakemake", "--executor", "xmml", "--jobs", "2", "--config", "heights=[0.5, 1.0]"]
    study = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert study.returncode == 0, study.stderr
    low, high = (
        np.loadtxt(folder / "study" / height / "highest.csv", delimiter=",").tolist() for height in ("0.5", "1.0")
    )
    assert high[1] > 1.5 * low[1] > 0  # a higher wave rises higher at the end,
    assert high[2] <= low[2]  # and is faster
    picture = pyplot.imread(folder / "study/runup.png")
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 100  # it is not blank
