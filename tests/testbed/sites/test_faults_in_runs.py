"""Whatever goes wrong at one site while a run goes on: the others are released, one message says what and where,
nothing is left.

How long the release takes, until nothing is left (jobs, processes, files, ports, sockets) at the sites and on the
launching machine, is measured from the fault and printed (`pytest -s`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from testbed.bed import as_user
from testbed.leftovers import wait_until_clean
from testbed.pair import LIMIT_S, Pair, Run, sites, small_folder
from testbed.release import RELEASED_WITHIN_S, is_file_of_a_run, jobs_of, left_after_a_run, released
from waiting import wait_until
from wan.soak import LONG, long_form

if TYPE_CHECKING:
    from testbed import Bed, LoginSite
    from wan import Machine

    MakePair = Callable[..., Pair]

XMML = Path(sys.executable).with_name("xmml")
CLUSTERS = {"left": "alpha", "right": "beta"}
#: Runs go on until somebody ends them.
ENDLESS = {"steps": 10_000, "pause": 0.05}
#: Rules with which nothing comes out of a machine any more, and nothing in.
SILENT = """table inet silent {
    chain in { type filter hook input priority -10; policy drop; }
    chain out { type filter hook output priority -10; policy drop; }
}
"""
#: Ends the processes by which sshd serves connections, with those that they have become the user with.
END_OF_SSH = 'for each in {}; do kill -KILL $(pgrep -x "sshd.*" -P $each) $each; done'


@pytest.fixture
def pair(firewalled: Bed, tmp_path: Path) -> Iterator[MakePair]:
    """Makes the model, which talks until it is ended."""
    made: list[Pair] = []

    def make(name: str = "pair", **options: float) -> Pair:
        made.append(Pair(firewalled, tmp_path / name, **{**ENDLESS, **options}))
        return made[-1]

    yield make
    for each in made:
        each.end()


def heard(run: Run) -> dict[str, int]:
    """How often each instance has heard the other."""
    return {name: sum(f"{name:<5} | heard" in line for line in run.lines) for name in CLUSTERS}


def start(pair: Pair, *, second_user: bool = False, output: str = "run", env: Mapping[str, str] | None = None) -> Run:
    """Start the model over both clusters, which reach each other and us through relays only."""
    sites = pair.bed.sites_toml("alpha", "beta", second_user=second_user)
    return pair.start(sites, CLUSTERS, output=output, is_direct=False, env=env)


def running(pair: Pair, env: Mapping[str, str] | None = None) -> Run:
    """Start the model over both clusters, and wait until its instances talk."""
    run = start(pair, env=env)
    run.until("left  | heard")
    run.until("right | heard")
    return run


def check(run: Run, status: int, *words: str) -> None:
    """The last line says what went wrong and where; of the others only those about jobs that were given back may."""
    assert run.process.returncode == status, run.output
    for word in words:
        assert word in run.lines[-1], run.output
    reason = run.lines[-1].removeprefix("xmml-run: ").rpartition("; see ")[0]
    assert sum(reason in line for line in run.lines if ": released (" not in line) == 1, run.output


def node_of(bed: Bed, site: str) -> Machine:
    """The node on which the job of a run is."""
    (job,) = jobs_of(bed, site)
    return bed.machines[job.split()[2]]


def number_of(bed: Bed, site: str) -> str:
    """The job of a run in its queue."""
    (job,) = jobs_of(bed, site)
    return job.split()[0]


# --- one part fails -------------------------------------------------------------------------------------------------


def test_an_instance_that_crashes_ends_the_run(firewalled: Bed, pair: MakePair) -> None:
    run = running(pair())
    crash = firewalled.site("alpha").home() / "crash"
    with released(run, "alpha", "beta"):
        crash.touch()
        run.until("left  | told to crash")
        crash.unlink()  # it is left by nobody
    check(run, 4, "left failed", "told to crash")


def test_a_job_that_the_operator_cancels_ends_the_run_and_no_instance_is_blamed(
    firewalled: Bed, pair: MakePair
) -> None:
    run = running(pair())
    with released(run, "alpha", "beta"):
        firewalled.cluster("alpha").slurm.root(f"scancel {number_of(firewalled, 'alpha')}")
    check(run, 5, "the job of alpha is over", "it was cancelled")


def test_a_job_whose_time_is_over_ends_the_run_and_no_instance_is_blamed(firewalled: Bed, pair: MakePair) -> None:
    run = running(pair())
    slurm = firewalled.cluster("beta").slurm
    assert "error" not in slurm.root(f"scontrol update JobId={number_of(firewalled, 'beta')} EndTime=now")
    # Slurm looks at time limits every half minute. The fault is when it ends the job.
    wait_until(lambda: not jobs_of(firewalled, "beta"), lambda: slurm.root("squeue -o '%i %T %r %e'"), LIMIT_S)
    with released(run, "alpha", "beta"):
        pass
    check(run, 5, "the job of beta is over", "its time was over")


def test_a_node_that_the_operator_takes_down_ends_the_run(firewalled: Bed, pair: MakePair) -> None:
    run = running(pair())
    cluster, node = firewalled.cluster("alpha"), node_of(firewalled, "alpha")
    try:
        with released(run, "alpha", "beta"):
            cluster.slurm.root(f"scontrol update NodeName={node.name} State=down Reason=test")
        check(run, 5, "the job of alpha is over", "its node failed")
    finally:
        cluster.slurm.root(f"scontrol update NodeName={node.name} State=resume")
        cluster.slurm.settle()


@long_form("forty seconds, most of them Slurm's")
def test_a_node_whose_daemon_dies_ends_the_run_when_its_queue_knows(firewalled: Bed, pair: MakePair) -> None:
    run = running(pair())
    cluster, node = firewalled.cluster("alpha"), node_of(firewalled, "alpha")
    node.run(["sh", "-c", "kill -9 $(cat /run/slurmd.pid)"], cwd="/")
    try:
        # What runs there goes on; Slurm gives the node up after 15 s.
        wait_until(lambda: not jobs_of(firewalled, "alpha"), lambda: cluster.slurm.root("squeue; sinfo -R"))
        with released(run, "beta"):
            pass
        check(run, 5, "the job of alpha is over", "its node failed")
    finally:
        cluster.slurm.start_node(node)
        cluster.slurm.settle()


def test_a_node_without_power_ends_the_run_long_before_its_queue_knows(own_bed: Bed, tmp_path: Path) -> None:
    run = running(Pair(own_bed, tmp_path / "pair", **ENDLESS))
    node = node_of(own_bed, "alpha")
    with released(run, "beta"):
        node.configure_firewall(SILENT)  # first, so that its kernel does not say goodbye for the programs
        node.crash()
    check(run, 5, "the job of alpha is over", "its node does not answer")
    assert not [path for name in ("alpha", "beta") for path in (own_bed.site(name).home() / "xmml").glob("runs/*")]


def test_a_quota_that_is_used_up_in_the_middle_ends_the_run(firewalled: Bed, pair: MakePair) -> None:
    gamma = firewalled.site("gamma")
    with small_folder(firewalled, "gamma", "8m") as folder:
        run = pair().start(
            sites(firewalled, gamma=f'work = "{folder}"'), {"left": "alpha", "right": "gamma"}, is_direct=False
        )
        run.until("right | heard")
        with released(run, "alpha"):
            gamma.login.run(["sh", "-c", f"cat /dev/zero > {folder}/all 2>/dev/null; true"], cwd="/")
        check(run, 5, "gamma", "the disk is full, or a quota")
        kept = re.compile(r"file at gamma: \S+/small(/all|/staged.*)?$")
        assert (
            wait_until_clean(firewalled, RELEASED_WITHIN_S, "gamma", is_kept=lambda line: bool(kept.match(line))) == []
        )


# --- Ctrl-C ---------------------------------------------------------------------------------------------------------


def interrupt(run: Run) -> None:
    with released(run, "alpha", "beta"):
        run.interrupt()
    check(run, 130, "the run was interrupted")


def test_ctrl_c_while_it_connects(firewalled: Bed, pair: MakePair) -> None:
    run = start(pair())
    run.until("alpha: connecting")
    interrupt(run)


def test_ctrl_c_while_files_are_on_their_way(firewalled: Bed, pair: MakePair) -> None:
    made = pair()
    (made.folder / "large.py").write_bytes(os.urandom(12_000_000))
    link = firewalled.wan.link("laptop", "alpha")
    link.set(rate_bit_s=8e6)  # twelve seconds for the file
    try:
        run = start(made)
        runs = firewalled.site("alpha").home() / "xmml" / "runs"
        wait_until(lambda: list(runs.glob("*/incoming/*")), lambda: run.output)
        interrupt(run)
    finally:
        link.set(rate_bit_s=1e9)


def test_ctrl_c_while_a_job_waits_for_the_other(firewalled: Bed, pair: MakePair) -> None:
    with firewalled.cluster("beta").occupied():
        run = start(pair())
        run.until("alpha: ready")
        with released(run, "alpha"):
            run.interrupt()
        check(run, 130, "the run was interrupted")


def test_ctrl_c_while_it_runs(pair: MakePair) -> None:
    interrupt(running(pair()))


def test_ctrl_c_while_results_come_back(firewalled: Bed, pair: MakePair) -> None:
    made = pair(steps=5, pause=0.0)
    wishes = [firewalled.site(name).home() / "result" for name in ("alpha", "beta")]
    wishes[0].write_text("12000000")
    wishes[1].write_text("1000")
    link = firewalled.wan.link("laptop", "alpha")
    try:
        with held(firewalled.site("alpha")):
            run = start(made)
            run.until("left  | heard 0.0")
            link.set(rate_bit_s=4e6)  # twenty-four seconds for the result
        here = made.folder / "run" / "instances"
        # That of beta has come, and nothing is left there; that of alpha is on its way.
        folders = firewalled.site("beta").home() / "xmml" / "runs"
        wait_until(
            lambda: (here / "right/work/result").exists() and list(here.glob("left/work/.*.xmml-part")),
            lambda: run.output,
        )
        wait_until(lambda: not list(folders.glob("*")), lambda: run.output)
        began = time.monotonic()
        run.interrupt()
        assert run.wait(RELEASED_WITHIN_S) == 130, run.output
    finally:
        link.set(rate_bit_s=1e9)
        for wish in wishes:
            wish.unlink()
    check(run, 130, "the run was interrupted while its results came back")
    assert any("at alpha" in line and "xmml cancel " in line for line in run.lines), run.output
    there = next((firewalled.site("alpha").home() / "xmml" / "runs").iterdir()) / "instances"
    for path in (each for each in (here / "left").rglob("*") if each.is_file()):
        assert path.read_bytes() == (there / path.relative_to(here)).read_bytes(), path
    assert not list(here.rglob(".*.xmml-part"))
    assert (here / "right/work/result").stat().st_size == 1000
    assert (there / "left/work/result").stat().st_size == 12_000_000
    until = began + RELEASED_WITHIN_S
    assert left_after_a_run(firewalled, until - time.monotonic(), "beta") == []
    assert wait_until_clean(firewalled, until - time.monotonic(), "alpha", is_kept=is_file_of_a_run) == []
    assert run.cancel().returncode == 0
    assert left_after_a_run(firewalled, RELEASED_WITHIN_S) == []


# --- who is lost for good -------------------------------------------------------------------------------------------

#: How long a site goes on without us, and we wait for it: the usual times make a long test.
LEASE_S, AWAY_LIMIT_S = (90.0, 60.0) if LONG else (30.0, 12.0)
SOON = {"XMML_SITE_LEASE_S": f"{LEASE_S}"}


def test_what_a_killed_launcher_has_begun_ends_by_itself(firewalled: Bed, pair: MakePair) -> None:
    run = running(pair(), SOON)
    began = time.monotonic()
    run.process.kill()
    left = wait_until_clean(firewalled, LEASE_S + RELEASED_WITHIN_S, is_kept=is_file_of_a_run)
    assert left == [], "goes on without a launcher"
    print(f"everything at the sites has ended after {time.monotonic() - began:.1f} s")
    assert run.wait() != 0
    told = firewalled.laptop.run([XMML, "status", "run"], cwd=run.pair.folder, check=False).stdout
    assert "lost" in told, told
    assert "xmml cancel" in told, told
    assert run.cancel().returncode == 0
    assert left_after_a_run(firewalled, RELEASED_WITHIN_S) == []


@contextmanager
def vanished(bed: Bed, site: str, *, is_silent: bool) -> Iterator[None]:
    """Within the block nothing reaches a site, whose connections have ended if it is not silent about it."""
    if not is_silent:
        words = "servers=$(pgrep -P $(cat /run/sshd.pid)); kill -KILL $(cat /run/sshd.pid); rm /run/sshd.pid; "
        bed.site(site).login.run(["sh", "-c", words + END_OF_SSH.format("$servers")], cwd="/", check=False)
    links = (
        [bed.wan.link(site, other) for other in ("laptop", *CLUSTERS.values()) if other != site] if is_silent else []
    )
    for link in links:
        link.cut()
    try:
        yield
    finally:
        for link in links:
            link.mend()
        if not is_silent:
            bed.site(site).start_sshd()


def test_what_a_killed_launcher_has_begun_ends_also_where_the_network_is_cut(firewalled: Bed, pair: MakePair) -> None:
    run = running(pair(), SOON)
    with vanished(firewalled, "alpha", is_silent=True):
        began = time.monotonic()
        run.process.kill()
        assert run.wait() != 0
        cancelled = run.cancel()
        assert cancelled.returncode == 5, cancelled
        removed = r"beta: nothing is left; removed: job \d+, /home/asmith/xmml/runs/\S+\n"
        assert re.fullmatch(removed, cancelled.stdout), cancelled
        problem = r"xmml cancel: site alpha: alpha cannot be reached: .*: xmml cancel \S*run\n"
        assert re.fullmatch(problem, cancelled.stderr), cancelled
        limit_s = began + LEASE_S + RELEASED_WITHIN_S - time.monotonic()
        assert wait_until_clean(firewalled, limit_s, "alpha", is_kept=is_file_of_a_run) == [], "goes on"
        assert left_after_a_run(firewalled, 0.0, "beta") == []
    cancelled = run.cancel()
    assert (cancelled.returncode, cancelled.stderr) == (0, "")
    assert re.fullmatch(r"alpha: nothing is left; removed: /home/alice/xmml/runs/\S+\n", cancelled.stdout), cancelled
    assert left_after_a_run(firewalled, RELEASED_WITHIN_S) == []


def test_a_job_that_begins_when_its_launcher_was_killed_and_its_network_cut_ends_by_itself(
    firewalled: Bed, pair: MakePair
) -> None:
    beta = firewalled.cluster("beta")
    with beta.occupied() as end:
        run = start(pair(), env=SOON)
        run.until("alpha: ready")
        run.until("beta: submitted")
        with vanished(firewalled, "beta", is_silent=True):
            run.process.kill()
            end()
            limit_s = LEASE_S + RELEASED_WITHIN_S
            left = wait_until_clean(firewalled, limit_s, "alpha", "beta", is_kept=is_file_of_a_run)
            assert left == [], "waits without a launcher"
    assert run.wait() != 0
    ready = list((beta.home() / "xmml" / "runs").glob("*/jobs/*/*/reports"))
    assert len(ready) == 1, "it did not begin"
    cancelled = run.cancel()
    assert (cancelled.returncode, cancelled.stderr) == (0, "")
    assert [line.partition(";")[0] for line in sorted(cancelled.stdout.splitlines())] == [
        "alpha: nothing is left",
        "beta: nothing is left",
    ]
    assert left_after_a_run(firewalled, RELEASED_WITHIN_S) == []


@pytest.mark.parametrize("is_silent", [True, False], ids=["no packet passes", "sshd ends"])
def test_a_site_that_vanishes_for_good_is_named_and_the_other_released(
    firewalled: Bed, pair: MakePair, is_silent: bool
) -> None:
    run = running(pair(), SOON | {"XMML_AWAY_LIMIT_S": f"{AWAY_LIMIT_S}"})
    with vanished(firewalled, "alpha", is_silent=is_silent):
        with released(run, "beta", within_s=AWAY_LIMIT_S + RELEASED_WITHIN_S):
            pass
        check(run, 5, "site alpha has not been reached for")
        silent = re.search(r"has not been reached for (\d+) s", run.lines[-1])
        assert silent is not None
        assert int(silent[1]) < LEASE_S, "given up when instances may long be taken for lost"
    left = wait_until_clean(firewalled, LEASE_S + RELEASED_WITHIN_S, "alpha", is_kept=is_file_of_a_run)
    assert left == [], "goes on where nobody is heard any more"
    assert run.cancel().returncode == 0


# --- at the same time -----------------------------------------------------------------------------------------------


@contextmanager
def held(site: LoginSite) -> Iterator[None]:
    """Within the block instances at a site do not go on after their first message."""
    files = [site.home(user) / "hold" for user in site.users]
    for file in files:
        file.touch()
    try:
        yield
    finally:
        for file in files:
            file.unlink()


def run_at_the_same_time(bed: Bed, *starts: Callable[[], Run]) -> None:
    """Start runs that talk twenty times; all of them run before one goes on, and all hear every word."""
    with held(bed.site("alpha")):
        runs = [start() for start in starts]
        for run in runs:
            run.until("left  | heard 0.0")
        assert {len(jobs_of(bed, name)) for name in CLUSTERS.values()} == {len(runs)}
    for run in runs:
        assert run.wait() == 0, run.output
        assert heard(run) == {"left": 20, "right": 20}, run.output


def test_two_people_run_at_the_same_time_over_the_same_clusters(firewalled: Bed, pair: MakePair) -> None:
    one, other = (pair(name, steps=20, pause=0.0) for name in ("one", "other"))
    run_at_the_same_time(firewalled, lambda: start(one), lambda: start(other, second_user=True))


def test_the_same_model_runs_twice_at_the_same_time(firewalled: Bed, pair: MakePair) -> None:
    made = pair(steps=20, pause=0.0)
    (made.folder / "large.py").write_bytes(os.urandom(12_000_000))  # on its way for both at the same time
    run_at_the_same_time(firewalled, *(lambda name=name: start(made, output=name) for name in ("one", "other")))
    assert (made.folder / "one" / "instances" / "left" / "stdout").read_text().startswith("heard 0.0 on alpha")


def test_who_finds_the_port_of_a_relay_taken_goes_another_way(firewalled: Bed, pair: MakePair) -> None:
    beta = firewalled.site("beta")
    words = "import socket; s = socket.create_server(('', 40001)); print('taken', flush=True); input()"
    stranger = beta.login.start(
        as_user(beta.users[1], f'exec python3 -c "{words}"'), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
    )
    try:
        assert stranger.stdout.readline() == b"taken\n"
        run = start(pair(steps=5, pause=0.0))
        assert run.wait() == 0, run.output
        assert heard(run) == {"left": 5, "right": 5}, run.output
    finally:
        stranger.kill()
        stranger.communicate()


# --- relays ---------------------------------------------------------------------------------------------------------


def kill_relay(bed: Bed, site: str) -> None:
    """As by an operator who sees a strange program on a login node."""
    login = bed.site(site)
    login.run("set -- $(cat ~/xmml/runs/*/relay) && kill -KILL $1")  # process, when it began, host


def cut_ssh(bed: Bed, site: str) -> None:
    """As by a login node that is started anew: every ssh connection ends, and the ports that it forwarded."""
    words = END_OF_SSH.format("$(pgrep -P $(cat /run/sshd.pid))")
    bed.site(site).login.run(["sh", "-c", words], cwd="/", check=False)


def goes_on(run: Run, steps: int, *faults: Callable[[], None]) -> None:
    """Whatever is done to a run, after so many steps at both sites each message has come once and in order."""
    for number, fault in enumerate(faults):
        run.until(f"left  | heard {3 + 20 * number}.0")
        fault()
    assert run.wait(2 * LIMIT_S) == 0, run.output
    for name in CLUSTERS:
        told = (run.pair.folder / "run" / "instances" / name / "stdout").read_text().split("\n")[:-1]
        assert [line.split()[1] for line in told] == [f"{step}.0" for step in range(steps)], run.output


#: Twelve seconds at least: what is done to a run is done long before its end.
STEPS = 120
#: A short one is over before connections are made anew.
OUTAGE_S = 25.0 if LONG else 3.0


def test_relays_that_die_are_started_again_and_the_run_goes_on(open_bed: Bed, tmp_path: Path) -> None:
    pair = Pair(open_bed, tmp_path / "pair", steps=STEPS, pause=0.1)
    try:
        over_relays = sites(open_bed).replace('methods = ["tcp"]', 'methods = ["relay"]')
        run = pair.start(over_relays, CLUSTERS)  # the coordinator is reached without relays
        goes_on(run, STEPS, *(lambda name=name: kill_relay(open_bed, name) for name in ("alpha", "beta")))
    finally:
        pair.end()
    assert sum("its relay has ended" in line for line in run.lines) == 2, run.output


def test_a_run_goes_on_after_an_outage_of_the_network(firewalled: Bed, pair: MakePair) -> None:
    """Nothing passes to and from a site, and no connection hears of it."""
    run = start(pair(steps=STEPS, pause=0.02))

    def outage() -> None:
        with vanished(firewalled, "alpha", is_silent=True):
            time.sleep(OUTAGE_S)  # the fault itself

    goes_on(run, STEPS, outage)


def test_a_run_goes_on_when_ways_to_its_coordinator_are_lost(firewalled: Bed, pair: MakePair) -> None:
    """Instances come by the relay of their cluster, and that by ssh; both end, and no other way leads there."""
    run = start(pair(steps=STEPS, pause=0.1))
    goes_on(run, STEPS, lambda: kill_relay(firewalled, "alpha"), lambda: cut_ssh(firewalled, "beta"))
    for name in ("alpha", "beta"):
        assert any(f"{name}: its relay has ended" in line for line in run.lines), run.output
    events = (run.pair.folder / "run" / "events.jsonl").read_text()
    assert '"what": "back"' in events or '"what":"back"' in events, events
