"""The parameter study that comes with the canal: prepared, run as often as there are cases, analysed, drawn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import canal_study


def test_the_study_of_the_canal_goes_from_its_cases_to_a_picture(tmp_path: Path) -> None:
    canal_study.write(tmp_path / "canal")
    command = [sys.executable, "-m", "snakemake", "--executor", "xmml", "--jobs", "2", *canal_study.CASES]
    done = subprocess.run(command, cwd=tmp_path / "canal", capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    canal_study.check(tmp_path / "canal")
