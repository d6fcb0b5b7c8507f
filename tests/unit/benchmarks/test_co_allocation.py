"""The simulation of co-allocation: it is determined by its seeds, and its clusters keep the rules of a scheduler."""

from __future__ import annotations

import csv
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from waiting import RUN_LIMIT_S

FOLDER = Path(__file__).parents[3] / "benchmarks" / "co-allocation"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("cluster")


@pytest.mark.timeout(2 * RUN_LIMIT_S)
def test_strategies_are_compared_and_the_page_gets_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- co-allocation table -->\nold\n<!-- end of the table -->\nafter\n")
    options = ["--quick", "--loads", "0.5", "--groups", "1", "--docs", page, "--output", tmp_path]
    command = [sys.executable, FOLDER / "run.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    (table,) = tmp_path.glob("*.csv")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["strategy"] for row in rows}) == 5
    assert all(row["strategy"] in text and float(row["wasted_core_s"]) > 0 for row in rows)


def test_a_small_job_goes_before_a_large_one_only_if_it_does_not_delay_it(cluster: ModuleType) -> None:
    site = cluster.Cluster(10)
    site.submit(cluster.Job("running", 6, 100.0, 100.0))
    site.schedule(0.0)
    large = cluster.Job("large", 10, 100.0)
    short, long = cluster.Job("short", 4, 100.0), cluster.Job("long", 4, 101.0)
    for job in (large, long, short):
        site.submit(job)
    assert site.schedule(0.0) == [short]
    assert site.estimate(large, 0.0) == 100.0


def test_a_job_is_started_in_its_reservation_and_no_other_job_is(cluster: ModuleType) -> None:
    site = cluster.Cluster(10)
    assert site.reserve(cluster.Window("w", 10, 50.0, 150.0), 0.0) is None
    ours, other = cluster.Job("ours", 10, 100.0, None, "w"), cluster.Job("other", 1, 60.0)
    site.submit(other)
    site.submit(ours)
    assert site.schedule(0.0) == []
    assert site.schedule(50.0) == [ours]


def test_a_reservation_that_would_disturb_a_running_job_is_refused_with_the_time_that_would_not(
    cluster: ModuleType,
) -> None:
    site = cluster.Cluster(10)
    site.submit(cluster.Job("running", 6, 100.0, 20.0))
    site.schedule(0.0)
    assert site.reserve(cluster.Window("w", 5, 50.0, 150.0), 0.0) == 100.0
