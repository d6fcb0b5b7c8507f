"""Where rules run that are not coupled runs."""

import pytest
from snakemake_executor_plugin_xmml.placement import DoesNotFit, Needs, needs_of, place, too_small
from xmml_planner.sites import Site, SiteCatalogue

CATALOGUE = SiteCatalogue(
    {
        "here": Site("here", cores=2),
        "small": Site("small", ssh="small", cores=8, memory_bytes=16_000 * 2**20, walltime_s=3600),
        "dear": Site("dear", ssh="dear", cores=64, cost=0.1),
        "cheap": Site("cheap", ssh="cheap", cores=64, cost=0.05, queue_wait_s=600),
        "graphic": Site("graphic", ssh="graphic", cores=16, gpus=2, cost=1.0),
    }
)


def name(needs: Needs) -> str | None:
    site = place(needs, 2, CATALOGUE)
    return None if site is None else site.name


def test_what_a_job_asks_for_is_read_from_its_resources() -> None:
    resources = {"mem_mb": 2000, "gpu": 1, "runtime": 5, "site": "graphic", "tmpdir": "/tmp"}
    assert needs_of(4, resources) == Needs(4, 2000 * 2**20, 1, 300.0, "graphic")


def test_a_runtime_that_is_no_number_of_minutes_is_refused() -> None:
    with pytest.raises(DoesNotFit, match='runtime is "soon", which is no number of minutes'):
        needs_of(1, {"runtime": "soon"})


def test_without_resources_it_asks_for_one_thread() -> None:
    assert needs_of(0, {}) == Needs()


def test_what_fits_runs_here() -> None:
    assert name(Needs(threads=2)) is None


def test_what_does_not_fit_here_runs_where_it_is_cheapest() -> None:
    assert name(Needs(threads=8)) == "small"
    assert name(Needs(threads=32)) == "cheap"


def test_a_site_with_gpus_is_found() -> None:
    assert name(Needs(gpus=1)) == "graphic"


def test_a_site_that_is_named_is_taken() -> None:
    assert name(Needs(site="dear")) == "dear"


def test_this_machine_can_be_named() -> None:
    assert name(Needs(site="here")) == "here"


def test_the_queue_of_the_cluster_that_this_machine_belongs_to_is_a_site_like_others() -> None:
    cluster = SiteCatalogue({"login": Site("login", cores=2), "nodes": Site("nodes", scheduler="slurm", cores=64)})
    chosen = place(Needs(threads=8), 2, cluster)
    assert chosen is not None
    assert chosen.name == "nodes"


def test_an_unknown_site_is_refused_with_those_there_are() -> None:
    with pytest.raises(DoesNotFit, match='there is no site "daer"; the sites are: here, small, dear, cheap, graphic'):
        name(Needs(site="daer"))


def test_without_a_catalogue_there_is_only_this_machine() -> None:
    assert place(Needs(), 2, None) is None
    with pytest.raises(DoesNotFit, match="--xmml-sites is not given"):
        place(Needs(site="dear"), 2, None)


def test_where_nothing_fits_every_reason_is_told() -> None:
    with pytest.raises(DoesNotFit) as refusal:
        name(Needs(threads=100))
    assert "100 threads are asked for, this machine has 2 cores" in str(refusal.value)
    assert "a job on one node at cheap has 64" in str(refusal.value)


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        (Needs(threads=9), "9 threads are asked for, a job on one node at small has 8"),
        (Needs(gpus=1), "1 GPUs are asked for, a job on one node at small has 0"),
        (Needs(memory_bytes=17_000 * 2**20), "17000 MiB of memory are asked for, a job on one node at small has 16000"),
        (Needs(runtime_s=3601), "3601 seconds are asked for, a job on one node at small has 3600"),
        (Needs(threads=8, memory_bytes=16_000 * 2**20, runtime_s=3600), None),
    ],
)
def test_a_job_that_is_too_large_for_a_site_is_told_by_how_much(needs: Needs, why: str | None) -> None:
    assert too_small(CATALOGUE["small"], needs) == why
