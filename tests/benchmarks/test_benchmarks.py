"""The benchmarks start, measure, and write what they promise. What they measure here says nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmark_suites import BENCHMARKS, run_suite
from needs import needs
from waiting import LIMIT_S


def test_floors_of_messages_are_measured(tmp_path: Path) -> None:
    text, rows = run_suite(
        "messages", tmp_path, "--quick", "--sizes", "0,4096", "--peers", "memcpy,socket,socket-python"
    )
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
    _, rows = run_suite("messages", tmp_path, "--quick", "--sizes", "0,1048576", "--peers", peers)
    assert len(rows) == 3 * 2 * 2
    assert all(float(row["message_s"]) > 0 for row in rows)


def test_hosted_instances_are_started_also_with_many_conduits(tmp_path: Path) -> None:
    text, rows = run_suite("startup", tmp_path, "--quick", "--instances", "2", "--peers", "xmml-hosted")
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


def test_the_supervisor_is_measured_beside_bare_spawning(tmp_path: Path) -> None:
    text, rows = run_suite("startup", tmp_path, "--quick", has_plot=False, program="supervisor.py")
    (row,) = rows
    assert all(float(row[figure]) > 0 for figure in ("begins_s", "supervised_s", "spawned_s"))
    assert "start and end by the supervisor [ms]" in text


def test_each_peer_carries_the_sizes_that_say_something_about_it(tmp_path: Path) -> None:
    text, rows = run_suite("messages", tmp_path, "--quick", "--sizes", "0,65536,131072", "--peers", "pipe,futex,same")
    sizes = {peer: {row["size_b"] for row in rows if row["peer"] == peer} for peer in ("pipe", "futex", "same")}
    assert sizes == {
        "pipe": {"0", "65536", "131072"},
        "futex": {"0", "65536"},
        "same": {"65536", "131072"},
    }
    assert "that the sender writes and the receiver reads" in text


def test_arrays_on_loan_are_measured_written_and_untouched(tmp_path: Path) -> None:
    peers = "xmml-python-lent,xmml-cpp-handed"
    text, rows = run_suite("messages", tmp_path, "--quick", "--sizes", "1048576", "--peers", peers)
    assert len(rows) == 2 * 2
    assert all(float(row["message_s"]) > 0 and int(row["first_share_kib"]) > 0 for row in rows)
    assert "that nobody touches" in text


def test_the_start_of_a_ring_is_measured_with_its_memory(tmp_path: Path) -> None:
    _, rows = run_suite("startup", tmp_path, "--instances", "2,4", "--peers", "xmml-python,xmml-cpp")
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode != 0
    assert "there is no peer pigeon; there are xmml-python" in done.stderr


def test_checks_and_task_graphs_are_measured(tmp_path: Path) -> None:
    text, rows = run_suite("analysis", tmp_path, "--quick")
    assert [(row["what"], row["couplings"], row["nodes"]) for row in rows] == [
        ("check", "10", "0"),
        ("check", "3000", "0"),
        ("check", "6000", "0"),
        ("task graph", "10", "3002"),
        ("task graph", "10", "6002"),
    ]
    assert all(float(row["seconds"]) > 0 and int(row["peak_kib"]) > 0 for row in rows)
    assert "per coupling [us]" in text


def test_plans_over_sites_are_measured(tmp_path: Path) -> None:
    text, rows = run_suite("planning", tmp_path, "--quick", has_plot=False)
    assert [(row["model"], row["instances"], row["sites"]) for row in rows] == [
        ("copies", "200", "10"),
        ("pairs", "200", "10"),
    ]
    assert all(float(row["processor_s"]) > 0 and int(row["peak_kib"]) > 0 for row in rows)
    assert all(float(row["at_least_s"]) <= float(row["makespan_s"]) for row in rows)
    assert "predicted makespan [s]" in text


@needs("sshd")
@pytest.mark.parametrize(
    ("options", "title"), [([], "### 4 instances in one process"), (["--programs"], "### 4 Python programs")]
)
def test_a_launcher_of_many_instances_at_a_site_is_measured(tmp_path: Path, options: list[str], title: str) -> None:
    options = ["--quick", "--instances", "4", *options]
    text, rows = run_suite("sites", tmp_path, *options, has_plot=False, program="instances.py")
    assert {row["way"] for row in rows} == {"openssh", "asyncssh", "no site"}
    assert all(float(row["launcher_s"]) > 0 and float(row["memory_mib"]) > 0 for row in rows)
    assert all(0 < float(row["joined_s"]) < float(row["seconds"]) for row in rows)
    assert f"{title} at a site without a queue" in text


def test_what_a_tap_costs_its_writer_is_measured(tmp_path: Path) -> None:
    text, rows = run_suite("pool", tmp_path, "--quick", has_plot=False, program="taps.py")
    phases = ["no tap", "a tap that takes", "a stopped tap", "after it was killed"]
    assert [row["phase"] for row in rows] == 2 * phases
    assert all(float(row["processor_us"]) > 0 and float(row["messages_per_s"]) > 0 for row in rows)
    assert "### A tap of messages of 8 B" in text


def test_both_cavities_are_measured_and_end_with_the_same_bits(tmp_path: Path) -> None:
    text, rows = run_suite("canal", tmp_path, "--quick", "--cells", "12,17")
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
    text, rows = run_suite("methods", tmp_path, "--quick", "--idle", "0,3")
    idle = {(row["method"], row["idle"], row["size_b"]) for row in rows if row["experiment"] == "idle"}
    assert idle == {(method, idle, size) for method in ("shm", "unix") for idle in "03" for size in ("0", "10240")}
    assert all(0 < float(row["median_s"]) <= float(row["longest_s"]) for row in rows)
    assert [int(row["changes"]) > 0 for row in rows if row["experiment"] == "change"] == [True]
    for experiment in ("protection", "stream"):
        assert {"tcp", "protected tcp"} <= {row["method"] for row in rows if row["experiment"] == experiment}
    assert "one-way time [us]" in text
    assert "one way [MB/s]" in text


def test_chains_of_relays_are_measured_beside_bare_forwarders(tmp_path: Path) -> None:
    options = ["--quick", "--experiments", "latency,throughput", "--sizes", "0,65536"]
    text, rows = run_suite("relays", tmp_path, *options)
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


def test_bound_and_unbound_pairs_are_measured(tmp_path: Path) -> None:
    text, rows = run_suite("binding", tmp_path, "--quick", has_plot=False)
    windows = [("0", "100"), ("100", "1000")]
    assert [(row["mode"], (row["first"], row["last"])) for row in rows] == [
        (mode, window) for mode in ("as it comes", "--bind core", "--bind none") for window in windows
    ]
    assert all(float(row["median_s"]) > 0 for row in rows)
    assert "One way, 1 KiB, median of a run [us]" in text


def test_objects_of_pools_are_measured_beside_messages_and_the_floor(tmp_path: Path) -> None:
    peers = "xmml-c,xmml-python,messages-python,floor"
    text, rows = run_suite(
        "pool", tmp_path, "--quick", "--peers", peers, "--experiments", "small,wanted", has_plot=False
    )
    small = [(row["case"], row["peer"]) for row in rows if row["experiment"] == "small"]
    assert small == [(case, peer) for case in ("gathered", "each flushed") for peer in peers.split(",")]
    wanted = {row["case"]: row for row in rows if (row["experiment"], row["peer"]) == ("wanted", "xmml-c")}
    assert (wanted["none wanted"]["received"], float(wanted["none wanted"]["sent_b"])) == ("0", 0)
    offered, received = (int(wanted["10 % wanted"][name]) for name in ("offered", "received"))
    assert 0.1 * offered <= received <= 0.15 * offered
    assert received * 804 * 1024 < float(wanted["10 % wanted"]["sent_b"]) < received * 805 * 1024
    assert all(float(row["seconds"]) > 0 for row in rows)
    assert "### Small objects [1/s]" in text
    assert "Over floor, C++" in text


def test_many_selectors_of_a_pool_are_measured(tmp_path: Path) -> None:
    options = ["--quick", "--peers", "xmml-c", "--experiments", "selectors"]
    _, rows = run_suite("pool", tmp_path, *options, has_plot=False)
    assert [row["case"] for row in rows] == ["1", "100"]
    assert all(row["offered"] == row["received"] for row in rows)


def test_the_floors_of_pools_are_measured_with_each_number_of_pairs_over_tcp_and_by_files(tmp_path: Path) -> None:
    options = ["--quick", "--peers", "floor,files-memory", "--experiments", "network,pairs,files"]
    text, rows = run_suite("pool", tmp_path, *options, has_plot=False)
    assert [(row["experiment"], row["case"], row["peer"]) for row in rows] == [
        ("network", "804 KiB", "floor"),
        *[("pairs", pairs, "floor") for pairs in ("1", "2", "5", "10")],
        ("files", "804 KiB", "files-memory"),
    ]
    assert all(row["offered"] == row["received"] for row in rows)
    assert not list(Path("/dev/shm").glob("xmml-bench-*"))
    assert "### Not measured" not in text


def test_a_peer_of_pools_that_is_not_installed_stands_in_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XMML_BENCH_PEERS", str(tmp_path / "none"))
    options = ["--quick", "--peers", "floor,adios2", "--experiments", "small"]
    text, _ = run_suite("pool", tmp_path, *options, has_plot=False)
    assert "no adios2 in" in text.partition("### Not measured")[2]
