"""Why a run is told to end in whose job it runs."""

from __future__ import annotations

import time

import pytest
from xmml_executors.execution import end_of_job
from xmml_planner import Plan
from xmml_planner.sites import AllocatedNodes, Site


def in_job(ends_at: float | None) -> Plan:
    """A plan in an allocation that ends at a time."""
    site = Site("alpha", scheduler="slurm", allocation=AllocatedNodes("12", ("n1",), ends_at=ends_at))
    return Plan("m", "/m/model.xmml", "/m", (), (), (), (), sites=(site,))


@pytest.mark.parametrize(
    ("left_s", "said"),
    [
        (1.0, "job 12 has reached its time limit"),
        (600.0, "job 12, or this process, was told to end before its time limit"),
        (None, "job 12, or this process, was told to end before its time limit"),
    ],
)
def test_a_run_that_is_told_to_end_says_whether_its_job_has_reached_its_time_limit(
    left_s: float | None, said: str
) -> None:
    assert end_of_job(in_job(None if left_s is None else time.time() + left_s)) == said
