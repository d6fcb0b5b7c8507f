"""The benchmarks between sites start, measure, and write what they promise. What they measure here says nothing."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmark_suites import BENCHMARKS, run_suite
from needs import needs
from testbed import why_not as why_not_sites
from wan import why_not

#: A benchmark in its short form takes far less.
LIMIT_S = 300.0
pytestmark = pytest.mark.timeout(600)
needs_links = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
needs_sites = pytest.mark.skipif(why_not_sites() is not None, reason=str(why_not_sites()))


@needs_links
@needs("iperf3")
def test_links_between_sites_are_measured(tmp_path: Path) -> None:
    options = ["--quick", "--experiments", "bulk", "--rtt", "1", "--streams", "2", "--sizes", "1"]
    text, rows = run_suite("wide-area", tmp_path, *options)
    measured = {(row["peer"], row["streams"]) for row in rows}
    assert measured == {("path", each) for each in ("auto", "auto, link given", "2")} | {("tcp", "2"), ("iperf3", "2")}
    assert all(float(row["seconds"]) > 8e-3 for row in rows), "1 MiB needs 8 ms at 1 Gbit/s"
    assert "automatic over the best bare TCP" in text
    assert "without MPWide: say with --mpwide" in text
    assert "best MPWide" not in text


@needs_links
@needs("iperf3")
def test_a_build_of_mpwide_takes_part(tmp_path: Path) -> None:
    """The benchmark's side of it: the library is a stand-in, for MPWide itself is in no registry."""
    source = Path(__file__).parent / "mpwide_stand_in"
    built = tmp_path / "lib" / "libMPW.a"
    built.parent.mkdir()
    shutil.copytree(source, tmp_path / "include")
    subprocess.run(["c++", "-c", "-O2", "-o", tmp_path / "MPWide.o", source / "MPWide.cpp"], check=True)
    subprocess.run(["ar", "rcs", built, tmp_path / "MPWide.o"], check=True)
    options = ["--quick", "--experiments", "bulk", "--rtt", "1", "--streams", "2", "--sizes", "1"]
    results = tmp_path / "results"
    text, rows = run_suite("wide-area", results, *options, "--mpwide", str(tmp_path))
    times = [float(row["seconds"]) for row in rows if (row["peer"], row["streams"]) == ("mpwide", "2")]
    assert len(times) == 5
    assert all(seconds > 8e-3 for seconds in times), "1 MiB needs 8 ms at 1 Gbit/s"
    assert "automatic over the best MPWide" in text
    command = [sys.executable, BENCHMARKS / "wide-area" / "run.py", "--mpwide", results]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert (refused.returncode, "there is no MPWide.h in" in refused.stdout) == (1, True), refused.stdout


@needs_links
@needs("ping")
def test_relays_between_sites_are_measured_against_a_ping(tmp_path: Path) -> None:
    options = ["--quick", "--experiments", "latency,added,control,near-link", "--sizes", "0", "--seconds", "1.5"]
    text, rows = run_suite("relays", tmp_path, *options)
    trips = [row for row in rows if row["figure"] == "round trip"]
    ways = {("ping", "0"), ("direct", "0"), *(("relays", count) for count in "123")}
    assert {(row["peer"], row["count"]) for row in trips} == ways
    assert all(float(row["value"]) > 15.2e-3 for row in trips), "nothing is faster than the link"
    (rate,) = (float(row["value"]) for row in rows if (row["experiment"], row["figure"]) == ("near link", "rate"))
    assert 0 < rate < 1.1 * 125e6, "no more than the link carries, and what waited when the count began"
    beside = [row for row in rows if row["figure"] == "p99 beside bulk"]
    assert len(beside) == 2
    assert all(float(row["value"]) > float(row["rtt_ms"]) / 1e3 for row in beside)
    assert "of what TCP can carry" in text
    assert "times as long" in text


def run_sites(program: str, folder: Path, *options: str) -> tuple[str, list[dict[str, str]]]:
    """Run a benchmark over the test bed in its short form; what it prints, and the rows of its CSV file."""
    command = [sys.executable, BENCHMARKS / "sites" / program, "--quick", "--output", folder, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = folder.glob("*.csv")
    with table.open(newline="") as file:
        return done.stdout, list(csv.DictReader(file))


@needs_sites
def test_a_run_over_two_clusters_is_measured(tmp_path: Path) -> None:
    text, rows = run_sites("run.py", tmp_path, "--seconds", "2")
    assert [row["sent"] for row in rows] == ["True", "False"]
    for row in rows:
        assert 0 <= float(row["skew_s"]) < float(row["begin_s"])
        assert float(row["seconds"]) > 1
        assert int(row["commands"]) >= 0
        assert float(row["cpu_s"]) > 0
    assert "commands per site" in text


@needs_sites
@needs("rsync")
def test_staging_is_measured_beside_what_everybody_has(tmp_path: Path) -> None:
    _, rows = run_sites("staging.py", tmp_path, "--size", "24")
    assert {row["peer"] for row in rows} == {"xMML by openssh", "xMML by asyncssh", "scp", "rsync"}
    assert all(float(row["seconds"]) > 0 and float(row["processor_s"]) > 0 for row in rows)
    assert "### A file of 24 MiB to a site" in next(tmp_path.glob("staging-*.md")).read_text()


@needs_sites
def test_what_many_runs_of_a_workflow_cost_is_measured(tmp_path: Path) -> None:
    text, rows = run_sites("ensemble.py", tmp_path, "--runs", "2")
    assert any(int(row["launchers"]) > 0 and float(row["memory_mib"]) > 0 for row in rows)
    assert any(int(row["login"]) > 0 for row in rows)
    assert "### 2 coupled runs of a workflow, 8 at a time" in text
