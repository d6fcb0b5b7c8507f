"""What people are told of the life of a job comes in order, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from xmml_executors.coallocation import Member, Rendezvous
from xmml_executors.launch.co_allocation import CoAllocation
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.protocol import Ready
from xmml_planner.execution_plan import Job
from xmml_planner.sites import Site

READY = Ready("n1", 4711, 1, "7", "python3", "/usr/bin", ("n1",), "")


class SlowSite:
    """A site whose queue takes a job only when it is let."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.may_submit = asyncio.Event()
        self.cancelled: list[str] = []

    async def submit(self, jobs: list[SiteJob], attempt: int, *_: object) -> None:
        await self.may_submit.wait()
        for job in jobs:
            job.attempt, job.id = attempt, "7"

    async def cancel(self, job: SiteJob, attempt: int) -> None:
        self.cancelled.append(job.id)

    def watch(self, job: SiteJob, node: int) -> None:
        """Nothing to watch."""

    def hold(self, job: SiteJob, seconds: float) -> None:
        """Nothing to hold."""

    def go(self, job: SiteJob) -> None:
        """Nothing to start."""


def told(work: Callable[[CoAllocation, SiteJob, Any], Coroutine[Any, Any, None]]) -> list[str]:
    """Have something done with the co-allocation of one job; return what people were told."""

    async def carry_out() -> list[str]:
        alpha, words = Site("alpha", ssh="alpha", scheduler="slurm"), list[str]()
        planned = Job("j", "alpha", (), nodes=1, cores_per_node=1)
        job = SiteJob("j", "alpha", alpha, planned, 3600.0, JobNodes(planned, alpha, ()))
        site: Any = SlowSite(alpha)
        strategy = Rendezvous([Member("j", "alpha", 1, 3600.0)])
        co_allocation = CoAllocation(
            strategy, {"j": job}, {"alpha": site}, lambda text, site: words.append(f"{site}: {text}")
        )
        gathering = asyncio.create_task(co_allocation.gather())
        await asyncio.sleep(0)
        await work(co_allocation, job, site)
        gathering.cancel()
        await asyncio.gather(gathering, return_exceptions=True)
        await co_allocation.settle()
        return words

    return asyncio.run(carry_out())


async def submitted(co_allocation: CoAllocation, job: SiteJob, site: SlowSite) -> None:
    site.may_submit.set()
    await co_allocation.settle()


def test_a_job_that_was_released_is_not_said_to_be_ready_any_more() -> None:
    async def work(co_allocation: CoAllocation, job: SiteJob, site: SlowSite) -> None:
        await submitted(co_allocation, job, site)
        await co_allocation.release("it was cancelled")
        co_allocation.on_report(job, 1, 0, READY)  # it was on its way

    assert told(work) == ["alpha: submitted as job 7", "alpha: released (it was cancelled)"]


def test_a_job_is_said_to_be_ready_once() -> None:
    async def work(co_allocation: CoAllocation, job: SiteJob, site: SlowSite) -> None:
        await submitted(co_allocation, job, site)
        co_allocation.on_report(job, 1, 0, READY)
        co_allocation.on_report(job, 1, 0, READY)

    assert told(work)[:2] == ["alpha: submitted as job 7", "alpha: ready on n1, job 7"]
    assert len(told(work)) == len(set(told(work)))


def test_a_job_that_is_given_up_while_it_is_submitted_is_cancelled_by_its_number_when_it_has_one() -> None:
    cancelled = []

    async def work(co_allocation: CoAllocation, job: SiteJob, site: SlowSite) -> None:
        releasing = asyncio.create_task(co_allocation.release("it was cancelled"))
        await asyncio.sleep(0.01)
        site.may_submit.set()
        await releasing
        cancelled.extend(site.cancelled)

    assert told(work) == ["alpha: submitted as job 7", "alpha: released (it was cancelled)"]
    assert cancelled == ["7"]
