"""The parameter study of the canal, as its README tells users to run it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import canal_study
import numpy as np
from commands import SNAKEMAKE
from matplotlib import pyplot
from model_runs import environment

HEIGHTS = ("0.5", "1.0")


def test_the_study_runs_every_case_and_draws_them(tmp_path: Path) -> None:
    folder = tmp_path / "canal"
    canal_study.copy(folder)
    command = [*SNAKEMAKE, "--jobs", "2", *canal_study.cases(HEIGHTS)]
    study = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert study.returncode == 0, study.stderr
    canal_study.check(folder, HEIGHTS)
    low, high = (np.loadtxt(folder / "study" / height / "highest.csv", delimiter=",").tolist() for height in HEIGHTS)
    assert high[1] > 1.5 * low[1] > 0  # a higher wave rises higher at the end,
    assert high[2] <= low[2]  # and is faster
    picture = pyplot.imread(folder / "study/runup.png")
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 100  # it is not blank
