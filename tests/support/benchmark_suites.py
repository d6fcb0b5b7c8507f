"""Running a suite of benchmarks in its short form."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from waiting import RUN_LIMIT_S

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run_suite(
    suite: str, folder: Path, *options: str, has_plot: bool = True, program: str = "run.py"
) -> tuple[str, list[dict[str, str]]]:
    """Return what a suite prints, and the rows of its CSV file."""
    command = [sys.executable, BENCHMARKS / suite / program, "--rounds", "1", "--output", folder, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = folder.glob("*.csv")
    plots = list(folder.glob("*.png"))
    assert len(plots) == has_plot
    assert all(plot.stat().st_size > 10_000 for plot in plots)
    with table.open(newline="") as file:
        return done.stdout, list(csv.DictReader(file))
