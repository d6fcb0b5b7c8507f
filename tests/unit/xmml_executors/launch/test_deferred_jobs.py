"""When jobs that come later are asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from xmml_executors.launch.jobs.deferred_jobs import AHEAD_S, due_in_s
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_planner import Job, Plan
from xmml_planner.sites import Site

QUEUE = Site("queue", scheduler="slurm", queue_wait_s=120.0)
OTHER = Site("other", scheduler="slurm")


def job(name: str, site: Site, group: str, *after: str, starts_s: float = 0.0) -> SiteJob:
    planned = Job(name, site.name, (), group=group, after=after, starts_s=starts_s)
    return SiteJob(name, site.name, site, planned, 60.0, JobNodes(planned, site, ()))


def test_a_group_is_due_as_long_before_its_start_as_its_slowest_queue_takes(make_plan: Callable[..., Plan]) -> None:
    later = [job("c", QUEUE, "group-2", "a", starts_s=1000.0), job("d", OTHER, "group-2", "a", starts_s=1000.0)]
    first = job("a", QUEUE, "group-1", starts_s=100.0)
    plan = dataclasses.replace(make_plan("x"), jobs=tuple(each.planned for each in (first, *later)))
    assert due_in_s(later, plan) == 1000.0 - 100.0 - 120.0 - AHEAD_S
    assert due_in_s([job("e", QUEUE, "group-3", "a", starts_s=150.0)], plan) == 0.0
