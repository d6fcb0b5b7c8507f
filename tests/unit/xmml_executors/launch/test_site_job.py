"""A job at its site knows where the values come from that it asks its queue for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_planner import Job, Plan
from xmml_planner.execution_plan import NodeShare
from xmml_planner.sites import Site

ORIGIN = {"walltime": "sites.toml:4", "nodes": "sites.toml:5", "partition": "--job"}
SITE = Site("alpha", scheduler="slurm", walltime_s=3600.0, nodes=2, cores=4, origin=ORIGIN)
PLANNED = Job("alpha", "alpha", (), nodes=2, cores_per_node=2, walltime_s=3600.0)


def given(planned: Job = PLANNED, site: Site = SITE) -> dict[str, str]:
    return SiteJob("alpha", "alpha", site, planned, 60.0, JobNodes(planned, site, ())).given


def test_a_value_of_the_site_comes_from_its_line_or_option() -> None:
    assert given()["walltime"] == "walltime in sites.toml:4"
    assert given()["nodes"] == "nodes in sites.toml:5"
    assert given()["partition"] == "partition of --job"


def test_a_value_that_differs_from_that_of_the_site_comes_from_the_model() -> None:
    assert given()["cores"] == "what its instances need"
    assert given(replace(PLANNED, nodes=1))["nodes"] == "what its instances need"


def test_what_the_model_asks_for_is_that_of_the_instance_that_needs_most(make_plan: Callable[..., Plan]) -> None:
    small, large = (
        replace(each, shares=(NodeShare(0, cores=cores),), position=f"m.xmml:{line}:5")
        for each, cores, line in zip(make_plan("small", "large").instances, [(0,), (1, 2)], [3, 9], strict=True)
    )
    planned = replace(PLANNED, cores_per_node=3)
    job = SiteJob("alpha", "alpha", SITE, planned, 60.0, JobNodes(planned, SITE, (small, large)))
    assert job.given["cores"] == "what large needs, m.xmml:9:5"


@pytest.mark.parametrize(
    ("planned_s", "site_s", "words"),
    [
        (0.0, 3600.0, "walltime in sites.toml:4"),
        (900.0, 3600.0, "from the run times in the model"),
        (900.0, None, "from the run times in the model"),
        (0.0, None, "the default: walltime of the site is not given"),
    ],
)
def test_a_time_limit_comes_from_the_model_the_site_or_the_default(
    planned_s: float, site_s: float | None, words: str
) -> None:
    assert given(replace(PLANNED, walltime_s=planned_s), replace(SITE, walltime_s=site_s))["walltime"] == words
