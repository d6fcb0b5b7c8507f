"""The agent of a job, as a real process, spoken to through its files and through a talker."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from agents_at_a_site import Site, connections_to
from site_here import site_at
from waiting import LIMIT_S, wait_until
from xmml_executors.binding.leases import CpuLeases
from xmml_executors.binding.topology import FOLDER_VARIABLE, own_cpus
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.protocol import AgentStatus
from xmml_native.machine import start_of
from xmml_sites.program import command_at
from xmml_sites.ssh.local import LocalTransport
from xmml_sites.transfer.site_files import site_files

#: When a staged file was written.
WRITTEN_NS = 1_600_000_000_123_456_789


def test_a_placeholder_says_that_it_is_ready_and_ends_when_nobody_says_anything(site: Site) -> None:
    placeholder = site.job("m.1/0", patience_s=0.3)
    assert site.await_report("m.1/0", "ready")["pid"] == placeholder.pid
    assert placeholder.wait(LIMIT_S) == AgentStatus.TIMED_OUT
    assert [each["is"] for each in site.reports("m.1/0")][1:] == ["given up", "over"]


def test_a_placeholder_that_is_held_waits_longer_and_goes_when_it_is_aborted(site: Site) -> None:
    site.tell("m.1/0", 1, do="hold", s=1000)
    placeholder = site.job("m.1/0", patience_s=0.3)
    site.await_report("m.1/0", "ready")
    with pytest.raises(subprocess.TimeoutExpired):
        placeholder.wait(1.0)
    site.tell("m.1/0", 2, do="abort")
    assert placeholder.wait(LIMIT_S) == AgentStatus.ABORTED


def test_a_placeholder_that_is_held_ends_when_its_launcher_falls_silent(site: Site) -> None:
    site.renew(1, 1000)
    site.tell("m.1/0", 1, do="hold", s=1000)
    placeholder = site.job("m.1/0")
    site.await_report("m.1/0", "ready")
    site.renew(2, 0.5)
    assert placeholder.wait(LIMIT_S) == AgentStatus.LEASE_EXPIRED
    assert [each["is"] for each in site.reports("m.1/0")][1:] == ["lease over", "over"]


def test_programs_do_not_inherit_how_slurm_binds_the_step_of_their_agent(site: Site) -> None:
    bound = {"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_MEM_BIND_LIST": "0x1", "SLURM_TRES_PER_TASK": "cpu=1"}
    site.tell("m.1/0", 1, do="go")
    site.run("agent", "m.1/0", str(LIMIT_S), env={**os.environ, **bound, "SLURM_JOB_ID": "7"})
    site.start("m.1/0", 2, ["sh", "-c", "env | grep ^SLURM_"])
    site.await_report("m.1/0", "ended")
    assert (site.folder / "instances/a/stdout").read_text() == "SLURM_JOB_ID=7\n"


def bound_at(site: Site, machine: Path, cores: list[int], of_cores: int) -> dict[str, Any]:
    """Start a program that shows its CPUs; return what the agent reports of its binding."""
    site.tell("m.1/0", 1, do="go")
    site.run("agent", "m.1/0", str(LIMIT_S), env={**os.environ, FOLDER_VARIABLE: str(machine)})
    command = [sys.executable, "-c", "import os; print(*sorted(os.sched_getaffinity(0)))"]
    site.start("m.1/0", 2, command, cores=cores, of_cores=of_cores)
    report = site.await_report("m.1/0", "bound")
    site.await_report("m.1/0", "ended")
    return report


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that describes the CPUs that this process may use, and on which nobody has leases."""
    for cpu in own_cpus():
        (tmp_path / f"machine/cpu/cpu{cpu}").mkdir(parents=True)
    return tmp_path / "machine"


def test_a_program_is_bound_to_the_places_of_the_plan_and_leases_them(site: Site, machine: Path) -> None:
    ours = own_cpus()
    report = bound_at(site, machine, [len(ours) - 1], len(ours))
    assert report == {"is": "bound", "name": "a", "cpus": [ours[-1]], "reason": ""}
    assert (site.folder / "instances/a/stdout").read_text() == f"{ours[-1]}\n"
    with CpuLeases(machine).choosing(ours) as free:
        assert free == set(ours[:-1])


def test_a_program_whose_cpu_another_run_has_leased_is_not_bound_and_that_is_told(site: Site, machine: Path) -> None:
    ours, leases = own_cpus(), CpuLeases(machine)
    with leases.choosing(ours[:1]):
        pass
    report = bound_at(site, machine, [0], len(ours))
    assert report == {"is": "bound", "name": "a", "cpus": [], "reason": f"another run has leased CPU {ours[0]}"}
    assert (site.folder / "instances/a/stdout").read_text() == " ".join(map(str, ours)) + "\n"


def test_a_program_is_not_bound_where_the_cpus_are_not_those_of_the_job(site: Site, machine: Path) -> None:
    count = len(own_cpus())
    told = bound_at(site, machine, [0], count + 1)
    assert told["cpus"] == []
    assert f"the job has {count + 1} CPUs of this node, and programs may use {count}" in told["reason"]


def test_orders_that_come_together_with_go_are_carried_out(site: Site) -> None:
    placeholder = site.job("m.1/0")
    site.await_report("m.1/0", "ready")
    (site.folder / "model" / "input.txt").write_text("water")
    orders = site.folder / "jobs" / "m.1/0" / "orders"
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["cat", "input.txt"], stage_in=["input.txt"])
    assert orders.read_text().count("\n") == 2
    assert site.await_report("m.1/0", "output")["text"] == "water"
    assert site.await_report("m.1/0", "ended")["status"] == 0
    assert (site.folder / "instances/a/stdout").read_text() == "water"
    site.tell("m.1/0", 3, do="quit")
    assert placeholder.wait(LIMIT_S) == 0
    assert site.reports("m.1/0")[-1] == {"is": "over"}


def test_an_order_that_comes_twice_is_obeyed_once(site: Site) -> None:
    site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    for _ in range(3):
        site.start("m.1/0", 2, ["echo", "once"])
    site.await_report("m.1/0", "ended")
    site.tell("m.1/0", 3, do="quit")
    site.await_report("m.1/0", "over")
    assert [each["text"] for each in site.reports("m.1/0") if each["is"] == "output"] == ["once"]


def test_silence_of_the_launcher_ends_what_runs(site: Site) -> None:
    site.renew(1, 1000)
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["sleep", "1000"])
    pid = site.await_report("m.1/0", "started")["pid"]
    site.renew(2, 0.5)
    site.await_report("m.1/0", "lease over")
    assert placeholder.wait(LIMIT_S) == AgentStatus.LEASE_EXPIRED
    assert not Path(f"/proc/{pid}").exists()


def fill_up(site: Site, job: str, placeholder: subprocess.Popen[bytes]) -> None:
    """As on a disk that is full: an agent cannot add anything to its reports any more."""
    size = (site.folder / "jobs" / job / "reports").stat().st_size
    resource.prlimit(placeholder.pid, resource.RLIMIT_FSIZE, (size, size))


def test_silence_of_the_launcher_ends_what_runs_also_on_a_full_disk(site: Site) -> None:
    site.renew(1, 1000)
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["sleep", "1000"])
    pid = site.await_report("m.1/0", "started")["pid"]
    fill_up(site, "m.1/0", placeholder)
    site.renew(2, 0.5)
    assert placeholder.wait(LIMIT_S) == AgentStatus.LEASE_EXPIRED
    assert not Path(f"/proc/{pid}").exists()


def test_a_full_disk_on_which_nothing_can_be_reported_ends_the_job(site: Site) -> None:
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["sleep", "1000"])
    pid = site.await_report("m.1/0", "started")["pid"]
    fill_up(site, "m.1/0", placeholder)
    site.tell("m.1/0", 3, do="prepare", folder="/proc/nowhere", stage_in=[])
    assert placeholder.wait(LIMIT_S) == AgentStatus.UNWRITABLE
    assert not Path(f"/proc/{pid}").exists()


def test_a_killed_agent_leaves_no_process_behind(site: Site) -> None:
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["sh", "-c", "setsid sleep 1000 & sleep 1000"])
    pid = site.await_report("m.1/0", "started")["pid"]
    placeholder.send_signal(signal.SIGKILL)
    wait_until(lambda: not start_of(pid), "the process has not ended")


def test_a_batch_system_that_ends_the_job_ends_everything_in_it(site: Site) -> None:
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["sleep", "1000"])
    pid = site.await_report("m.1/0", "started")["pid"]
    placeholder.terminate()
    assert placeholder.wait(LIMIT_S) == AgentStatus.KILLED
    assert not Path(f"/proc/{pid}").exists()
    told = [each["is"] for each in site.reports("m.1/0")]
    assert told.index("killed") < told.index("ended")


def test_a_batch_system_that_ends_a_waiting_placeholder_is_told_apart_from_us(site: Site) -> None:
    placeholder = site.job("m.1/0")
    site.await_report("m.1/0", "ready")
    placeholder.terminate()
    assert placeholder.wait(LIMIT_S) == AgentStatus.KILLED
    assert [each["is"] for each in site.reports("m.1/0")] == ["ready", "killed", "over"]


def test_who_shows_the_secret_itself_is_turned_away(site: Site) -> None:
    site.job("m.1/0")
    ready = site.await_report("m.1/0", "ready")
    secret = (site.folder / "jobs/m.1/0/secret").read_bytes()
    with socket.create_connection(("127.0.0.1", ready["port"]), timeout=LIMIT_S) as stranger:
        stranger.sendall(secret)
        while stranger.recv(4096):  # why; one that is admitted would wait here
            pass


def test_a_talker_tells_at_once_when_an_agent_is_gone_without_a_word(site: Site) -> None:
    placeholder = site.job("m.1/0")
    ready = site.await_report("m.1/0", "ready")
    site.tell("m.1/0", 1, do="go")
    talker = site.run("talk", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert talker.stdin is not None
    assert talker.stdout is not None
    nobody = ["127.0.0.1", 1]  # who was never reached is not missed
    watch = {"watch": {"m.1/0": ["127.0.0.1", ready["port"]], "m.2": nobody}}
    talker.stdin.write(json.dumps(watch).encode() + b"\n")
    talker.stdin.flush()
    assert json.loads(talker.stdout.readline())["is"] == "talking"
    wait_until(lambda: connections_to(ready["port"]), "nobody has connected")
    placeholder.kill()
    told = json.loads(talker.stdout.readline())
    assert told == {"is": "gone", "agent": "m.1/0", "why": "its agent has ended without a word"}
    talker.stdin.close()
    assert talker.wait(LIMIT_S) == 0


def test_a_folder_that_cannot_be_written_is_reported(site: Site) -> None:
    site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["true"], folder="/proc/nowhere")
    assert site.await_report("m.1/0", "unwritable")["file"].startswith("/proc/nowhere")


def test_a_named_pipe_that_is_to_be_staged_is_reported_and_holds_nothing_up(site: Site) -> None:
    os.mkfifo(site.folder / "model/pipe")
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["true"], stage_in=["pipe"])
    report = site.await_report("m.1/0", "unwritable")
    assert (report["file"], report["error"]) == (f"{site.folder}/model/pipe", "it is no file that can be copied")
    site.tell("m.1/0", 3, do="abort")
    assert placeholder.wait(LIMIT_S) == AgentStatus.ABORTED


def test_a_talker_passes_on_what_jobs_report_from_where_it_is_told(site: Site) -> None:
    site.job("m.1/0", patience_s=0.2)
    site.await_report("m.1/0", "over")
    size = (site.folder / "jobs/m.1/0/reports").stat().st_size

    def heard(offset: int, lines: int) -> list[Any]:
        talker = site.run("talk", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert talker.stdin is not None
        assert talker.stdout is not None
        talker.stdin.write(json.dumps({"listen": {"m.1/0": offset}}).encode() + b"\n")
        talker.stdin.flush()
        found = [json.loads(talker.stdout.readline()) for _ in range(1 + lines)]
        talker.stdin.close()
        assert talker.wait(LIMIT_S) == 0
        return found[1:]

    ready, given_up, over = heard(0, 3)
    assert (ready["report"]["is"], over["report"], over["next"]) == ("ready", {"is": "over"}, size)
    assert heard(ready["next"], 2) == [given_up, over]


def test_a_talker_takes_orders_and_renews_the_lease(site: Site) -> None:
    placeholder = site.job("m.1/0")
    talker = site.run("talk", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert talker.stdin is not None
    assert talker.stdout is not None
    for what in ({"lease": "7", "s": 60}, {"to": "m.1/0", "order": {"n": 1, "do": "abort"}}):
        talker.stdin.write(json.dumps(what).encode() + b"\n")
    talker.stdin.flush()
    answers = [json.loads(talker.stdout.readline()) for _ in range(3)][1:]
    assert answers == [{"is": "alive", "lease": "7"}, {"is": "taken", "agent": "m.1/0", "order": 1}]
    assert (site.folder / "lease").read_text() == "7 60\n"
    assert placeholder.wait(LIMIT_S) == AgentStatus.ABORTED


def test_a_talker_watches_more_agents_than_a_process_may_usually_have_files_open(site: Site) -> None:
    site.job("m.1/0")
    port = site.await_report("m.1/0", "ready")["port"]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limited = ["prlimit", f"--nofile=32:{hard}", *site.command("talk")]
    talker = subprocess.Popen(limited, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    site.started.append(talker)
    assert talker.stdin is not None
    assert talker.stdout is not None
    watch = {"watch": {f"m.1/{number}": ["127.0.0.1", port] for number in range(60)}}
    order = {"to": "m.1/0", "order": {"n": 1, "do": "abort"}}
    talker.stdin.write(b"".join(json.dumps(what).encode() + b"\n" for what in (watch, order)))
    talker.stdin.flush()
    assert json.loads(talker.stdout.readline())["is"] == "talking"
    assert talker.stdout.readline() == b'{"is":"taken","agent":"m.1/0","order":1}\n'


def test_an_order_that_a_full_disk_has_torn_is_taken_when_there_is_room_again(site: Site) -> None:
    placeholder = site.job("m.1/0")
    orders = site.folder / "jobs/m.1/0/orders"
    order = json.dumps({"to": "m.1/0", "order": {"n": 1, "do": "abort", "why": "x" * 200}}).encode() + b"\n"
    talker = site.run("talk", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    resource.prlimit(talker.pid, resource.RLIMIT_FSIZE, (50, 50))
    said, _ = talker.communicate(order, LIMIT_S)
    assert b"taken" not in said
    assert orders.read_text() == ""
    site.run("talk", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL).communicate(order, LIMIT_S)
    assert placeholder.wait(LIMIT_S) == AgentStatus.ABORTED


def test_the_reports_of_an_agent_whose_disk_is_full_end_with_a_whole_line(site: Site) -> None:
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["sleep", "1000"])
    site.await_report("m.1/0", "started")
    reports = site.folder / "jobs/m.1/0/reports"
    before = reports.read_text()
    resource.prlimit(placeholder.pid, resource.RLIMIT_FSIZE, (len(before) + 10, len(before) + 10))
    site.tell("m.1/0", 3, do="prepare", folder="/proc/nowhere", stage_in=[])
    assert placeholder.wait(LIMIT_S) == AgentStatus.UNWRITABLE
    assert reports.read_text() == before


#: Options of the commands that copy files.
CHANNELS = ("--channels", f"xmml-test-channels-{os.getpid()}", "--lease", str(LIMIT_S))


def missing(site: Site, files: list[list[Any]]) -> Any:
    return answered(site, "stage", {"store": str(site.folder.parent / "staged"), "folder": "model", "files": files})[
        "missing"
    ]


def results(site: Site, folders: dict[str, list[str]], files: Collection[str] = ()) -> tuple[set[str], list[str]]:
    """Return the results that a site has, and the folders with too many."""
    listed = answered(site, "results", {"folders": folders, "files": list(files), "most_bytes": 100})
    assert listed["bytes"] == sum((site.folder / each).stat().st_size for each in listed["found"])
    return set(listed["found"]), listed["too_large"]


def answered(site: Site, what: str, order: dict[str, Any]) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        transport = LocalTransport("here")
        try:
            async with site_files(
                transport, command_at(str(site.folder)), what, what, timeout_s=LIMIT_S, lease_s=LIMIT_S
            ) as there:
                return await there.order(order)
        finally:
            await transport.close()

    return asyncio.run(work())


def test_only_files_that_are_missing_or_damaged_are_asked_for(site: Site) -> None:
    store = site.folder.parent / "staged"
    store.mkdir()
    good, bad = hashlib.sha256(b"good").hexdigest(), hashlib.sha256(b"bad").hexdigest()
    (store / good).write_bytes(b"good")
    (store / bad).write_bytes(b"damaged")
    wanted: list[list[Any]] = [["bin/tool", good, 0o755, WRITTEN_NS], ["data.txt", bad, 0o644, WRITTEN_NS]]
    assert missing(site, wanted) == [bad]
    assert not (store / bad).exists()
    (store / bad).write_bytes(b"bad")
    assert missing(site, wanted) == []
    assert (site.folder / "model/bin/tool").read_bytes() == b"good"
    assert (site.folder / "model/bin/tool").stat().st_mode & 0o777 == 0o755
    assert (site.folder / "model/bin/tool").stat().st_mtime_ns == WRITTEN_NS


def test_a_file_that_was_written_before_1970_is_staged_as_such(site: Site) -> None:
    sha = hashlib.sha256(b"old").hexdigest()
    (site.folder / "incoming").mkdir()
    (site.folder / "incoming" / sha).write_bytes(b"old")
    assert missing(site, [["data.txt", sha, 0o644, -1_000_000_001]]) == []
    assert (site.folder / "model/data.txt").stat().st_mtime_ns == -1_000_000_001


def test_files_that_have_come_get_into_the_store_whole(site: Site) -> None:
    sha = hashlib.sha256(b"good").hexdigest()
    assert missing(site, [["data.txt", sha, 0o644, WRITTEN_NS]]) == [sha]
    (site.folder / "incoming").mkdir(exist_ok=True)
    (site.folder / "incoming" / sha).write_bytes(b"good")
    assert missing(site, [["data.txt", sha, 0o644, WRITTEN_NS]]) == []
    assert (site.folder.parent / "staged" / sha).read_bytes() == b"good"
    assert list((site.folder / "incoming").iterdir()) == []


def test_a_file_that_may_not_grow_so_large_is_named(site: Site) -> None:
    large = b"x" * 100_000
    sha = hashlib.sha256(large).hexdigest()
    store = site.folder.parent / "staged"
    store.mkdir()
    (store / sha).write_bytes(large)
    process = site.run("stage", *CHANNELS, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (50_000, 50_000))
    order = json.dumps(
        {"store": str(store), "folder": "model", "files": [["data.txt", sha, 0o644, WRITTEN_NS]]}
    ).encode()
    _, problem = process.communicate(struct.pack("<QI", 0, len(order)) + order, LIMIT_S)
    assert problem.decode().startswith(f"mto: {site.folder}/model/data.txt: File too large")


def test_what_has_come_in_part_does_not_get_into_the_store(site: Site) -> None:
    incoming = site.folder / "incoming"
    incoming.mkdir()
    (incoming / f".{'0' * 64}.xmml-part").write_bytes(b"go")
    assert missing(site, []) == []
    assert {each.name for each in (site.folder.parent / "staged").iterdir()} == {"verified", "versions"}
    assert list(incoming.iterdir()) == []


def test_results_are_what_the_patterns_name_else_all_that_is_left(site: Site) -> None:
    for instance in ("a", "b"):
        work = site.folder / "instances" / instance / "work"
        work.mkdir(parents=True)
        for name in ("x.csv", "y.tmp"):
            (work / name).write_text(name)
        (site.folder / "instances" / instance / "stdout").write_text("said")
    found, too_large = results(site, {"instances/a": ["*.csv"], "instances/b": []})
    assert found == {
        "instances/a/stdout",
        "instances/a/work/x.csv",
        "instances/b/stdout",
        "instances/b/work/x.csv",
        "instances/b/work/y.tmp",
    }
    assert not too_large


def test_results_are_named_plainly_and_lie_in_the_folder_of_their_instance(site: Site) -> None:
    for instance in ("a", "b"):
        work = site.folder / "instances" / instance / "work"
        work.mkdir(parents=True)
        for name in ("x.csv", "y.csv"):
            (work / name).write_text(name)
    patterns = ["./x.csv", "../work/y.csv", "../../b/work/x.csv"]
    assert results(site, {"instances/a": patterns}) == ({"instances/a/work/x.csv", "instances/a/work/y.csv"}, [])


def test_links_that_a_pattern_names_are_results_and_links_inside_a_folder_are_not(site: Site) -> None:
    elsewhere = site.folder.parent / "elsewhere"
    (elsewhere / "folder").mkdir(parents=True)
    for name in ("far.nc", "folder/inner.nc"):
        (elsewhere / name).write_text(name)
    work = site.folder / "instances/a/work"
    work.mkdir(parents=True)
    (work / "near.nc").write_text("near")
    for link, leads_to in (
        ("last.nc", work / "near.nc"),
        ("far.nc", elsewhere / "far.nc"),
        ("tree", elsewhere / "folder"),
    ):
        (work / link).symlink_to(leads_to)
    below = "instances/a/work"
    for patterns, found in (
        (["*.nc", "tree"], {"near.nc", "last.nc", "far.nc", "tree/inner.nc"}),
        (["."], {"near.nc"}),
        ([], {"near.nc"}),
    ):
        assert results(site, {"instances/a": patterns})[0] == {f"{below}/{name}" for name in found}


def test_a_result_that_is_named_without_wildcards_and_is_not_there_is_told(site: Site) -> None:
    (site.folder / "instances/a/work").mkdir(parents=True)
    order = {"folders": {"instances/a": ["histroy.csv", "*.nc"]}, "files": [], "most_bytes": 100}
    assert answered(site, "results", order)["not_there"] == [["instances/a", "histroy.csv"]]


def test_a_working_folder_that_is_too_large_is_named(site: Site) -> None:
    for instance in ("a", "b"):
        work = site.folder / "instances" / instance / "work"
        work.mkdir(parents=True)
        (work / "mesh.bin").write_bytes(bytes(101))
    asked_for = {"instances/a": ["mesh.bin"], "instances/b": []}
    assert results(site, asked_for) == ({"instances/a/work/mesh.bin"}, ["instances/b/work"])


def test_a_file_that_is_asked_for_is_listed_if_it_is_there(site: Site) -> None:
    (site.folder / "relays").mkdir()
    (site.folder / "relays/alpha.log").write_text("linked")
    assert results(site, {}, ["relays/alpha.log", "relays/beta.log"]) == ({"relays/alpha.log"}, [])


def test_the_relay_of_a_launcher_that_was_killed_is_ended_before_the_folder_goes(site: Site) -> None:
    with subprocess.Popen(["sleep", "1000"]) as relay:
        try:
            note = f"{relay.pid} {start_of(relay.pid)} {socket.gethostname()}\n"
            (site.folder / "relay").write_text(note)
            assert site.run("end").wait(LIMIT_S) == 0
            assert relay.wait(LIMIT_S) == -signal.SIGTERM
        finally:
            relay.kill()


def test_what_runs_can_be_ended_without_removing_results(site: Site) -> None:
    (site.folder / ".secret").write_text("secret")
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["sh", "-c", "echo 42 >result; sleep 1000"])
    result = site.folder / "instances/a/work/result"
    wait_until(lambda: result.exists() and result.read_text(), "there is no result")
    assert site.run("end").wait(LIMIT_S) == 0
    assert placeholder.wait(LIMIT_S) == AgentStatus.KILLED
    assert result.read_text() == "42\n"
    assert not (site.folder / ".secret").exists()


async def cleaned(site: RunSite) -> None:
    try:
        await site.clean()
    finally:
        await site.transport.close()


def test_cleaning_ends_what_runs_and_removes_the_folder(site: Site) -> None:
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["sleep", "1000"])
    pid = site.await_report("m.1/0", "started")["pid"]
    asyncio.run(cleaned(site_at(site.folder)))
    assert placeholder.wait(LIMIT_S) == AgentStatus.KILLED
    assert not site.folder.exists()
    assert not Path(f"/proc/{pid}").exists()


def test_an_order_that_is_none_ends_the_job_and_is_shown(site: Site) -> None:
    (site.folder / "jobs/m.1/0").mkdir(parents=True)
    placeholder = site.run("agent", "m.1/0", str(LIMIT_S), stderr=subprocess.PIPE)
    site.tell("m.1/0", 1, do="dance")
    _, said = placeholder.communicate(timeout=LIMIT_S)
    assert placeholder.returncode == 5
    assert said.decode() == (
        'mto: an order of the launcher is none: "do" is "dance", expected start, signal, watch, remove or quit: '
        '{"n": 1, "do": "dance"}\n'
    )


def test_a_word_to_the_login_node_that_is_none_ends_the_login_proxy_and_is_shown(site: Site) -> None:
    talker = site.run("talk", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said, _ = talker.communicate(b'{"dance": 1}\n', LIMIT_S)
    assert talker.returncode == 0
    assert "unknown field `dance`" in json.loads(said.splitlines()[-1])["why"]


def test_names_that_are_no_text_are_staged_and_listed_as_they_are(site: Site) -> None:
    odd = os.fsdecode(b"\xe9.csv")
    (site.folder / "model" / odd).write_text("water")
    site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["cat", odd], stage_in=["*.csv"])
    assert site.await_report("m.1/0", "ended")["status"] == 0
    found, _ = results(site, {"instances/a": ["*.csv"]})
    assert f"instances/a/work/{odd}" in found


def test_what_runs_ends_at_once_when_the_launcher_is_gone_for_good(site: Site) -> None:
    site.renew(1, 1000)
    placeholder = site.job("m.1/0")
    site.tell("m.1/0", 1, do="go")
    site.start("m.1/0", 2, ["sleep", "1000"])
    pid = site.await_report("m.1/0", "started")["pid"]
    assert site.run("forsake").wait(LIMIT_S) == 0
    assert site.reports("m.1/0")[-1] == {"is": "over"}
    assert placeholder.wait(LIMIT_S) == AgentStatus.LEASE_EXPIRED
    assert not Path(f"/proc/{pid}").exists()


def message(number: int, text: bytes) -> bytes:
    """A message as a channel carries it."""
    return struct.pack("<QI", number, len(text)) + text


CHANNEL_BEGINS = message(2**64 - 2, b"")


def with_large_result(site: Site) -> bytes:
    """Let a site have a result that no pipe holds; return the messages that have it sent."""
    work = site.folder / "instances/a/work"
    work.mkdir(parents=True)
    with (work / "mesh.bin").open("wb") as file:
        file.truncate(1 << 30)
    order = {"folders": {"instances/a": ["mesh.bin"]}, "files": [], "most_bytes": 100}
    nothing_stands = b"\x93\x28\x00\xc4\x00"
    return message(0, json.dumps(order).encode()) + message(1, nothing_stands)


#: A lease that ends while a test waits, and not before the test has said what it has to say [s].
SOON_OVER_S = 5


def leased(what: str, number: int = 0) -> list[str]:
    return [what, "--channels", f"xmml-test-leased-{os.getpid()}-{number}", "--lease", str(SOON_OVER_S)]


@pytest.mark.parametrize("what", ["stage", "results"])
def test_a_command_that_copies_files_ends_with_its_lease(site: Site, what: str) -> None:
    process = site.run(*leased(what), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(CHANNEL_BEGINS)
    process.stdin.flush()
    assert process.wait(LIMIT_S) != 0
    assert b"nothing has come from the launcher for 5s" in process.stderr.read()


def test_results_that_nobody_takes_any_more_are_given_no_longer_than_the_lease_lasts(site: Site) -> None:
    said = with_large_result(site)
    process = site.run(*leased("results"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(said)
    process.stdin.flush()  # what comes is not read, and nothing more is said
    assert process.wait(LIMIT_S) == 0


def test_a_further_channel_ends_with_its_lease_and_the_command_that_it_leads_to_with_it(site: Site) -> None:
    large = with_large_result(site)
    first = site.run("results", *CHANNELS, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    words = ["channel", *CHANNELS[:3], str(SOON_OVER_S)]
    further = site.run(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for process, said in ((further, CHANNEL_BEGINS), (first, large)):
        assert process.stdin is not None
        process.stdin.write(said)
        process.stdin.flush()
    assert further.wait(LIMIT_S) != 0
    first.wait(LIMIT_S)


def test_a_launcher_that_has_nothing_to_say_lives_all_the_same(site: Site) -> None:
    async def work() -> Any:
        transport = LocalTransport("here")
        lasts_s = 10.0
        try:
            async with site_files(
                transport, command_at(str(site.folder)), "stage", "staging", timeout_s=LIMIT_S, lease_s=lasts_s
            ) as there:
                await asyncio.sleep(lasts_s + 2.0)
                return await there.order({"store": str(site.folder.parent / "staged"), "folder": "model", "files": []})
        finally:
            await transport.close()

    assert asyncio.run(work()) == {"missing": []}


def test_a_command_that_copies_files_and_is_killed_leaves_nothing_in_the_folder_of_the_run(site: Site) -> None:
    order = with_large_result(site)
    before = set(site.folder.rglob("*"))
    process = site.run("results", *CHANNELS, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(order)
    process.stdin.flush()
    assert process.stdout.read(1)
    process.kill()
    process.wait()
    assert set(site.folder.rglob("*")) == before
