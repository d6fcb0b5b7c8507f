"""Which jobs are asked for at once, which later, and what the table of a plan says of the time that they ask for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from xmml_planner import Job, Plan, plan, summary
from xmml_planner.execution_plan import Expectation
from xmml_planner.sites import Site
from xmml_planner.submissions import first_and_later

from xmml.model import Model

HERE = Site("laptop")
QUEUE = Site("queue", scheduler="slurm", queue_wait_s=120.0)
OTHER = Site("other", scheduler="slurm", walltime_s=7200.0)
PLAIN = Site("plain", ssh="plain")


def job(name: str, site: Site, group: str, *after: str, walltime_s: float = 0.0) -> tuple[Job, Site]:
    return Job(name, site.name, (), 1, group=group, after=after, walltime_s=walltime_s), site


def submissions(*jobs: tuple[Job, Site]) -> tuple[list[str], list[list[str]]]:
    return first_and_later({each[0].name: each for each in jobs})


def test_jobs_of_a_group_that_begins_after_others_come_later_together() -> None:
    jobs = (
        job("a", QUEUE, "group-1"),
        job("b", OTHER, "group-1"),
        job("c", QUEUE, "group-2", "a", "b"),
        job("d", OTHER, "group-2", "a", "b"),
        job("e", QUEUE, "group-3", "a"),
    )
    assert submissions(*jobs) == (["a", "b"], [["c", "d"], ["e"]])


def test_jobs_of_a_plan_without_groups_come_at_once() -> None:
    assert submissions(job("a", QUEUE, ""), job("b", OTHER, "")) == (["a", "b"], [])


def test_a_group_without_any_queue_is_asked_for_at_once() -> None:
    jobs = job("a", QUEUE, "group-1"), job("b", PLAIN, "group-2", "a"), job("c", PLAIN, "group-3", "a")
    assert submissions(*jobs, job("d", QUEUE, "group-3", "a")) == (["a", "b"], [["c", "d"]])


@pytest.fixture
def asked_for(model: Callable[..., Model]) -> Callable[..., list[str]]:
    """Returns what the table of a plan says that each of these jobs asks for."""

    def table(*jobs: tuple[Job, Site]) -> list[str]:
        sites = tuple({site.name: site for _, site in jobs}.values())
        expected = Expectation(1.0, 1.0, is_complete=True, cost=0.0, instances={})
        made: Plan = dataclasses.replace(
            plan(model("")), jobs=tuple(each for each, _ in jobs), sites=sites, expected=expected
        )
        lines = summary(made).splitlines()
        heads = next(line for line in lines if "asks for" in line)
        begin, end = heads.index("asks for"), heads.index("cost")
        return [
            line[begin:end].strip() for line in lines if any(line.startswith(f"  {each.name} ") for each, _ in jobs)
        ]

    return table


def test_the_table_of_a_plan_says_which_jobs_ask_for_time_to_wait_for_others(
    asked_for: Callable[..., list[str]],
) -> None:
    jobs = (
        job("a", QUEUE, "group-1"),
        job("b", OTHER, "group-1", walltime_s=1500.0),
        job("c", QUEUE, "group-2", "a", "b", walltime_s=1500.0),
    )
    assert asked_for(*jobs) == ["the default + waiting", "25 min + waiting", "25 min"]


def test_a_job_waits_for_nobody_if_all_others_are_processes_of_this_machine(
    asked_for: Callable[..., list[str]],
) -> None:
    assert asked_for(job("a", HERE, "group-1"), job("b", QUEUE, "group-1", walltime_s=1500.0)) == ["-", "25 min"]


def test_the_walltime_of_a_site_has_room_for_the_run_only_or_for_waiting_too(
    asked_for: Callable[..., list[str]],
) -> None:
    jobs = job("a", QUEUE, "group-1", walltime_s=1500.0), job("b", OTHER, "group-1", walltime_s=7200.0)
    assert asked_for(*jobs) == ["25 min + waiting", "2 hr"]
