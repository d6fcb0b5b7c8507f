"""What jobs ask their queues for, where that is not what the file of sites says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xmml_planner import Job, NoPlan, WishError
from xmml_planner.job_settings import JobSettings, job_settings
from xmml_planner.sites import Site, SiteCatalogue

SLURM = Site("alpha", ssh="alpha", scheduler="slurm", partition="batch", options=("--nice=1",), walltime_s=7200.0)
CATALOGUE = SiteCatalogue({"here": Site("here"), "alpha": SLURM, "beta": Site("beta", ssh="beta", scheduler="pbs")})
JOB = Job("alpha", "alpha", ("macro",), nodes=2, cores_per_node=4, memory_per_node_bytes=2**29, walltime_s=900.0)


def settings(*given: str) -> dict[str, JobSettings]:
    return job_settings(CATALOGUE, [(each.partition("=")[0], each.partition("=")[2]) for each in given])


def test_a_setting_without_a_site_holds_for_every_site_with_a_queue() -> None:
    assert set(settings("account=abc")) == {"alpha", "beta"}


def test_a_setting_with_a_site_holds_for_that_one() -> None:
    (name,) = found = settings("alpha.partition=long")
    assert (name, found[name].of_site(SLURM).partition) == ("alpha", "long")


def test_the_last_value_of_a_key_counts_and_options_add_up() -> None:
    changed = settings("qos=low", "alpha.qos=high", "options=--constraint=fast", "options=--exclusive")["alpha"]
    assert changed.of_site(SLURM).qos == "high"
    assert changed.of_site(SLURM).options == ("--nice=1", "--constraint=fast", "--exclusive")


def test_a_job_asks_for_exactly_the_walltime_and_at_least_the_memory() -> None:
    small = settings("walltime=30 min", "memory=1 MiB")["alpha"].of_job(JOB, SLURM)
    assert (small.walltime_s, small.memory_per_node_bytes) == (1800.0, JOB.memory_per_node_bytes)
    large = settings("memory=4 GiB")["alpha"].of_job(JOB, SLURM)
    assert (large.walltime_s, large.memory_per_node_bytes) == (JOB.walltime_s, 4 * 2**30)


def test_what_is_set_for_the_jobs_of_a_run_is_known_to_come_from_there() -> None:
    site = replace(SLURM, origin={"partition": "sites.toml:3", "walltime": "sites.toml:4", "cores": "sites.toml:5"})
    changed = settings("partition=long", "walltime=1 h")["alpha"].of_site(site)
    assert changed.origin == {"partition": "--job", "walltime": "--job", "cores": "sites.toml:5"}


def test_the_planner_sees_the_shorter_of_the_walltimes() -> None:
    assert settings("walltime=1 h")["alpha"].of_site(SLURM).walltime_s == 3600.0
    assert settings("walltime=3 h")["alpha"].of_site(SLURM).walltime_s == 7200.0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("walltime=3 h", "jobs at alpha are to have a walltime of 3 hr, but have at most 2 hr there"),
        ("memory=16 GiB", "jobs at alpha are to have a memory of"),
    ],
)
def test_what_a_site_does_not_have_is_refused(given: str, says: str) -> None:
    site = Site("alpha", scheduler="slurm", walltime_s=7200.0, memory_bytes=8 * 2**30)
    with pytest.raises(NoPlan) as refusal:
        settings(given)["alpha"].of_job(JOB, site)
    assert says in str(refusal.value)
    assert "ask for less, or place instances elsewhere" in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("alhpa.qos=low", 'alhpa.qos: there is no site "alhpa"; did you mean "alpha"?'),
        ("here.qos=low", "here.qos: here has no queue, so its programs are started without a job"),
        ("partitoin=long", 'partitoin: jobs have no "partitoin"; did you mean "partition"'),
        ("walltime=30", 'walltime: "30" has no unit'),
        ("memory=lots", "memory: "),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_there_is(given: str, says: str) -> None:
    with pytest.raises(WishError) as refusal:
        settings(given)
    assert says in str(refusal.value)


def test_where_no_site_has_a_queue_there_are_no_jobs_to_set() -> None:
    with pytest.raises(WishError, match="qos: no site has a queue"):
        job_settings(SiteCatalogue({"here": Site("here")}), [("qos", "low")])
