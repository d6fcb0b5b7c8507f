"""The benchmarks start, measure, and write what they promise. What they measure here says nothing."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from testbed import why_not as why_not_sites
from wan import why_not

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def run(suite: str, folder: Path, *options: str) -> tuple[str, list[dict[str, str]]]:
    """What a suite says, and the rows of its CSV file."""
    command = [sys.executable, BENCHMARKS / suite / "run.py", "--rounds", "1", "--output", folder, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = folder.glob("*.csv")
    (plot,) = folder.glob("*.png")
    assert plot.stat().st_size > 10_000
    with table.open(newline="") as file:
        return done.stdout, list(csv.DictReader(file))


needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler (gcc)")


@needs_compiler
def test_floors_of_messages_are_measured(tmp_path: Path) -> None:
    text, rows = run("messages", tmp_path, "--quick", "--sizes", "0,4096", "--peers", "memcpy,socket,socket-python")
    assert {(row["peer"], row["pattern"], row["size_b"]) for row in rows} == {
        (peer, pattern, size)
        for peer in ("memcpy", "socket", "socket-python")
        for pattern in ("pingpong", "stream")
        for size in ("0", "4096")
    }
    assert all(float(row["message_s"]) > 0 for row in rows)
    assert "Unix socket, Python over its floor" not in text
    assert "One-way time [us]" in text


def test_messages_between_submodels_are_measured(tmp_path: Path) -> None:
    peers = "xmml-python,xmml-mixed,xmml-cpp"
    _, rows = run("messages", tmp_path, "--quick", "--sizes", "0,1048576", "--peers", peers)
    assert len(rows) == 3 * 2 * 2
    assert all(float(row["message_s"]) > 0 for row in rows)


def test_hosted_instances_are_started_also_with_many_conduits(tmp_path: Path) -> None:
    text, rows = run("startup", tmp_path, "--quick", "--instances", "2", "--peers", "xmml-hosted")
    planned = [row for row in rows if row["is_planned"] == "True"]
    timed = [(row["instances"], row["conduits"]) for row in planned if row["command_kib"] == "0"]
    assert timed == [("10", "50")]
    measured = [row for row in rows if row["command_kib"] != "0"]
    assert [(row["conduits"], row["methods"]) for row in measured] == [
        *[("2", ""), ("202", "")],
        *[("0", ""), ("10", ""), ("10", "tcp"), ("50", "")],
    ]
    assert all(int(row["instances_kib"]) > 0 for row in measured)
    assert "10 x xMML Python, hosted, 50 conduits" in text
    assert "with its connection" in text


@needs_compiler
def test_each_peer_carries_the_sizes_that_say_something_about_it(tmp_path: Path) -> None:
    text, rows = run("messages", tmp_path, "--quick", "--sizes", "0,65536,131072", "--peers", "pipe,futex,same")
    sizes = {peer: {row["size_b"] for row in rows if row["peer"] == peer} for peer in ("pipe", "futex", "same")}
    assert sizes == {
        "pipe": {"0", "65536", "131072"},
        "futex": {"0", "65536"},
        "same": {"65536", "131072"},
    }
    assert "that the sender writes and the receiver reads" in text


def test_arrays_on_loan_are_measured_written_and_untouched(tmp_path: Path) -> None:
    peers = "xmml-python-lent,xmml-cpp-handed"
    text, rows = run("messages", tmp_path, "--quick", "--sizes", "1048576", "--peers", peers)
    assert len(rows) == 2 * 2
    assert all(float(row["message_s"]) > 0 and int(row["first_share_kib"]) > 0 for row in rows)
    assert "that nobody touches" in text


def test_the_start_of_a_ring_is_measured_with_its_memory(tmp_path: Path) -> None:
    _, rows = run("startup", tmp_path, "--instances", "2,4", "--peers", "xmml-python,xmml-cpp")
    timed = [row for row in rows if row["command_kib"] == "0"]
    assert [row["instances"] for row in timed] == ["2", "2", "4", "4"]
    assert all(0 < float(row["first_messages_s"]) <= float(row["total_s"]) for row in rows)
    measured = [row for row in rows if row["command_kib"] != "0"]
    assert sorted((row["instances"], row["conduits"]) for row in measured) == sorted(
        [("2", "2"), ("2", "202"), ("4", "4")] * 2
    )
    assert all(int(row["instances_kib"]) > 0 and int(row["helpers_kib"]) > 0 for row in measured)


def test_an_unknown_peer_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, BENCHMARKS / "messages" / "run.py", "--peers", "pigeon"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "there is no peer pigeon; there are xmml-python" in done.stderr


def test_checks_and_task_graphs_are_measured(tmp_path: Path) -> None:
    text, rows = run("analysis", tmp_path, "--quick")
    assert [(row["what"], row["couplings"], row["nodes"]) for row in rows] == [
        ("check", "10", "0"),
        ("check", "3000", "0"),
        ("check", "6000", "0"),
        ("task graph", "10", "3002"),
        ("task graph", "10", "6002"),
    ]
    assert all(float(row["seconds"]) > 0 and int(row["peak_kib"]) > 0 for row in rows)
    assert "per coupling [us]" in text


@pytest.mark.skipif(shutil.which("mpicxx") is None, reason="needs OpenMPI (openmpi-bin, libopenmpi-dev)")
def test_both_cavities_are_measured_and_end_with_the_same_bits(tmp_path: Path) -> None:
    text, rows = run("canal", tmp_path, "--quick", "--cells", "12,17")
    assert [(row["peer"], row["cells"]) for row in rows] == [
        ("mpi", "12"),
        ("coupled", "12"),
        ("mpi", "17"),
        ("coupled", "17"),
    ]
    assert all(row["fingerprint"] == other["fingerprint"] for row, other in zip(rows[::2], rows[1::2], strict=True))
    assert all(0 < float(row["west_receiving_s"]) < float(row["step_s"]) < float(row["total_s"]) for row in rows)
    assert "efficiency" in text


def test_idle_conduits_and_changes_of_methods_are_measured(tmp_path: Path) -> None:
    text, rows = run("methods", tmp_path, "--quick", "--idle", "0,3")
    idle = {(row["method"], row["idle"], row["size_b"]) for row in rows if row["experiment"] == "idle"}
    assert idle == {(method, idle, size) for method in ("shm", "unix") for idle in "03" for size in ("0", "10240")}
    assert all(0 < float(row["median_s"]) <= float(row["longest_s"]) for row in rows)
    assert [int(row["changes"]) > 0 for row in rows if row["experiment"] == "change"] == [True]
    assert "one-way time [us]" in text


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.skipif(shutil.which("iperf3") is None, reason="needs iperf3")
def test_links_between_sites_are_measured(tmp_path: Path) -> None:
    options = ["--quick", "--experiments", "bulk", "--rtt", "1", "--streams", "2", "--sizes", "1"]
    text, rows = run("wide-area", tmp_path, *options)
    measured = {(row["peer"], row["streams"]) for row in rows}
    assert measured == {("path", each) for each in ("auto", "auto, link given", "2")} | {("tcp", "2"), ("iperf3", "2")}
    assert all(float(row["seconds"]) > 8e-3 for row in rows), "1 MiB needs 8 ms at 1 Gbit/s"
    assert "automatic over the best bare TCP" in text
    assert "without MPWide: say with --mpwide" in text
    assert "best MPWide" not in text


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.skipif(shutil.which("iperf3") is None, reason="needs iperf3")
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
    text, rows = run("wide-area", results, *options, "--mpwide", str(tmp_path))
    times = [float(row["seconds"]) for row in rows if (row["peer"], row["streams"]) == ("mpwide", "2")]
    assert len(times) == 5
    assert all(seconds > 8e-3 for seconds in times), "1 MiB needs 8 ms at 1 Gbit/s"
    assert "automatic over the best MPWide" in text
    command = [sys.executable, BENCHMARKS / "wide-area" / "run.py", "--mpwide", results]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (refused.returncode, "there is no MPWide.h in" in refused.stdout) == (1, True), refused.stdout


def test_chains_of_relays_are_measured_beside_bare_forwarders(tmp_path: Path) -> None:
    options = ["--quick", "--experiments", "latency,throughput", "--sizes", "0,65536"]
    text, rows = run("relays", tmp_path, *options)
    chains = {("direct", "0"), *((peer, count) for peer in ("forwarders", "relays") for count in "123")}
    timed = [row for row in rows if row["figure"] == "one way"]
    assert {(row["peer"], row["count"], row["size_b"]) for row in timed} == {
        (*chain, size) for chain in chains for size in ("0", "65536")
    }
    streams = {(row["peer"], row["count"], row["size_b"]) for row in rows if row["figure"] == "rate"}
    through = [("direct", "0"), *((peer, count) for peer in ("forwarders", "relays") for count in "12")]
    assert streams == {(*chain, size) for chain in through for size in ("65536", "1048576")}
    assert all(float(row["value"]) > 0 for row in rows)
    assert "time over that of bare forwarders" in text


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.skipif(shutil.which("ping") is None, reason="needs ping (iputils-ping)")
def test_relays_between_sites_are_measured_against_a_ping(tmp_path: Path) -> None:
    options = ["--quick", "--experiments", "latency,added,control,near-link", "--sizes", "0", "--seconds", "1.5"]
    text, rows = run("relays", tmp_path, *options)
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


@pytest.mark.skipif(why_not_sites() is not None, reason="needs two clusters")
@pytest.mark.timeout(300)
def test_a_run_over_two_clusters_is_measured(tmp_path: Path) -> None:
    command = [sys.executable, BENCHMARKS / "sites" / "run.py", "--quick", "--seconds", "2", "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = tmp_path.glob("*.csv")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["sent"] for row in rows] == ["True", "False"]
    for row in rows:
        assert 0 <= float(row["skew_s"]) < float(row["begin_s"])
        assert float(row["seconds"]) > 1
        assert int(row["commands"]) >= 0
        assert float(row["cpu_s"]) > 0
    assert "commands per site" in done.stdout


@pytest.mark.skipif(why_not_sites() is not None, reason="needs a cluster")
@pytest.mark.timeout(180)
def test_staging_is_measured_beside_what_everybody_has(tmp_path: Path) -> None:
    command = [sys.executable, BENCHMARKS / "sites" / "staging.py", "--quick", "--size", "24", "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    with next(tmp_path.glob("staging-*.csv")).open() as file:
        rows = list(csv.DictReader(file))
    assert {row["peer"] for row in rows} == {"xMML by openssh", "xMML by asyncssh", "scp", "rsync"}
    assert all(float(row["seconds"]) > 0 and float(row["processor_s"]) > 0 for row in rows)
    assert "### A file of 24 MiB to a site" in next(tmp_path.glob("staging-*.md")).read_text()
