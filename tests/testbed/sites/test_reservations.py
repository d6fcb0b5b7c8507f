"""Runs whose jobs lie in advance reservations at both clusters, made for the same time: all sites, or none."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from testbed.leftovers import wait_until_clean
from testbed.pair import LIMIT_S, Pair, Run
from testbed.release import RELEASED_WITHIN_S, check_released, is_file_of_a_run, left_after_a_run, released
from waiting import wait_until
from wan.soak import long_form

if TYPE_CHECKING:
    from testbed import Bed

XMML_RUN = Path(sys.executable).with_name("xmml-run")
PLACES = {"left": "alpha", "right": "beta"}
#: How long jobs wait in their reservations without a launcher, and then the reservations without jobs. It begins when
#: they do, and Slurm looks every half minute.
LEASE_S = 9.0
LAPSED_WITHIN_S = 100.0


@pytest.fixture
def reserve(firewalled: Bed, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts the model with reservations at both clusters; at those named its user may reserve."""
    made: list[Pair] = []
    with ExitStack() as rights:

        def start(*may: str, env: Mapping[str, str] | None = None) -> Run:
            for name in may:
                rights.enter_context(firewalled.cluster(name).slurm.users_reserve())
            made.append(Pair(firewalled, tmp_path / "pair"))
            text = firewalled.sites_toml("alpha", "beta")
            text = text.replace('scheduler = "slurm"\n', 'scheduler = "slurm"\ncan_reserve = true\n')
            return made[-1].start(text, PLACES, "--co-allocation", "reservation", is_direct=False, env=env)

        yield start
        for each in made:
            each.end()


def reservations(bed: Bed) -> dict[str, dict[str, str]]:
    """What each cluster says of the reservation that it has, if it has one."""
    found = {}
    for name in PLACES.values():
        for line in bed.cluster(name).slurm.held()[1]:
            assert name not in found, "two reservations at one cluster"
            found[name] = dict(word.partition("=")[::2] for word in line.split())
    return found


def job(bed: Bed, site: str) -> dict[str, str]:
    """The only job of a cluster: its reservation and state, and when it began."""
    (line,) = bed.cluster(site).slurm.root("squeue -h -o '%v %T %S'").splitlines()
    return dict(zip(("reservation", "state", "start"), line.split(), strict=True))


def journal(run: Run) -> list[dict[str, Any]]:
    """What the run has noted before it did it."""
    return [json.loads(line) for line in (run.pair.folder / "run" / "journal.jsonl").read_text().splitlines()]


@contextmanager
def all_held(bed: Bed, run: Run) -> Iterator[None]:
    """Within the block both clusters have agreed, and have the jobs. Instances that begin meanwhile do not go on."""
    hold = bed.site("alpha").home() / "hold"
    hold.touch()
    try:
        for name in PLACES.values():
            wait_until(lambda name=name: bed.cluster(name).slurm.root("squeue -h -o %v").strip(), lambda: run.output)
        assert set(reservations(bed)) == set(PLACES.values()), run.output
        yield
    finally:
        hold.unlink()


def told(folder: Path, name: str) -> str:
    """What an instance has said, whatever its machine is called."""
    return re.sub(r" on \S+", "", (folder / "instances" / name / "stdout").read_text())


def test_the_jobs_of_two_clusters_run_in_reservations_that_begin_at_the_same_moment(
    firewalled: Bed, reserve: Callable[..., Run]
) -> None:
    run = reserve("alpha", "beta")
    with all_held(firewalled, run):
        agreed = reservations(firewalled)
        run.until("left  | heard 0.0")
        jobs = {name: job(firewalled, name) for name in PLACES.values()}
    with released(run, "alpha", "beta"):
        assert run.wait() == 0, run.output
    assert agreed["alpha"]["StartTime"] == agreed["beta"]["StartTime"]
    for name, its in jobs.items():
        assert its["state"] == "RUNNING"
        assert its["reservation"] == agreed[name]["ReservationName"]
        assert datetime.fromisoformat(its["start"]) >= datetime.fromisoformat(agreed[name]["StartTime"])
    here = run.pair.folder / "here"
    model = run.pair.folder / "model.xml"
    subprocess.run([XMML_RUN, model, "-o", here], check=True, capture_output=True, timeout=LIMIT_S)
    for name in PLACES:
        assert told(run.pair.folder / "run", name) == told(here, name)
        assert told(here, name).count("\n") == 5


def test_a_cluster_that_refuses_gives_the_reservation_of_the_other_back(
    firewalled: Bed, reserve: Callable[..., Run]
) -> None:
    run = reserve("alpha")
    assert run.wait() == 5, run.output
    check_released(run, "alpha", "beta", since=time.monotonic())
    noted = journal(run)
    asked = {line["site"]: line for line in noted if line["what"] == "reserve"}
    assert set(asked) == {"alpha", "beta"}
    (given_back,) = (line for line in noted if line["what"] == "unreserved")
    assert given_back["name"] == asked["alpha"]["name"]
    assert given_back["time"] - asked["beta"]["time"] < RELEASED_WITHIN_S
    assert not any(line["what"] == "submit" for line in noted)
    assert "beta does not reserve: Slurm does not reserve 1 nodes for asmith: " in run.lines[-1], run.output
    assert sum("does not reserve" in line for line in run.lines) == 1, run.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_who_is_ended_while_reservations_are_held_gives_them_back(
    firewalled: Bed, reserve: Callable[..., Run], number: signal.Signals
) -> None:
    run = reserve("alpha", "beta")
    with all_held(firewalled, run):
        began = time.monotonic()
        run.process.send_signal(number)
        assert run.wait() == 130, run.output
    check_released(run, "alpha", "beta", since=began)
    assert "the run was interrupted" in run.lines[-1], run.output
    noted = journal(run)
    names = {line["name"] for line in noted if line["what"] == "reserve"}
    assert {line["name"] for line in noted if line["what"] == "unreserved"} == names
    assert len(names) == 2


def test_cancel_gives_back_what_a_killed_launcher_has_reserved(firewalled: Bed, reserve: Callable[..., Run]) -> None:
    run = reserve("alpha", "beta")
    with all_held(firewalled, run):
        run.process.kill()
        run.process.wait()
        words = run.cancel().stdout
    assert left_after_a_run(firewalled, RELEASED_WITHIN_S) == []
    for name in PLACES.values():
        assert f"{name}: nothing is left" in words


@long_form("a minute, most of it Slurm's")
def test_what_a_killed_launcher_has_reserved_goes_by_itself_long_before_its_time_is_over(
    firewalled: Bed, reserve: Callable[..., Run]
) -> None:
    run = reserve("alpha", "beta", env={"XMML_SITE_LEASE_S": f"{LEASE_S}"})
    with all_held(firewalled, run):
        run.process.kill()
    began = time.monotonic()
    left = wait_until_clean(firewalled, LAPSED_WITHIN_S, is_kept=is_file_of_a_run)
    assert left == [], "goes on without a launcher"
    print(f"the reservations and their jobs were gone after {time.monotonic() - began:.1f} s")
    run.process.wait()
    assert run.cancel().returncode == 0
