"""When jobs will start: a site is asked once, however many jobs it has."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from waiting import until
from xmml_executors.coallocation import Member, Rendezvous, RendezvousPolicy
from xmml_executors.launch.co_allocation import CoAllocation
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.site.journal import Journal
from xmml_executors.launch.site.login import SiteLogin
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.open_folder import OpenFolder
from xmml_planner import Job
from xmml_planner.sites import Site
from xmml_sites.batch import SchedulerUnavailable
from xmml_sites.ssh.batched_queries import answers_of, batched
from xmml_sites.ssh.command_result import CommandResult
from xmml_sites.ssh.local import LocalTransport

NOW = datetime(2026, 11, 21, 1, 17, 5)
CLOCK = f"1795209540 {NOW.isoformat()}\n"
JOBS = 50


class Queue(LocalTransport):
    """Answers as the login node of a Slurm does, and counts what it was asked."""

    def __init__(self) -> None:
        super().__init__("alpha")
        self.asked: list[str] = []
        self.starts_in_s: float | None = 600.0
        self.is_down = False

    async def run(self, command: str, **_: object) -> CommandResult:  # type: ignore[override]
        self.asked.append(command)
        if self.is_down:
            raise SchedulerUnavailable("no answer")
        if "squeue" in command:
            ids = command.rpartition("-j ")[2].strip("'").split(",")
            start = "N/A" if self.starts_in_s is None else (NOW + timedelta(seconds=self.starts_in_s)).isoformat()
            return CommandResult(0, CLOCK + "".join(f"{id}|PENDING|Priority|{start}|\n" for id in ids), "")
        tried = command.count("sbatch --test-only")
        assert tried
        start = f"sbatch: Job 9 to start at {(NOW + timedelta(seconds=60)).isoformat()} using 4 processors\n"
        return CommandResult(0, "".join(f"{CLOCK}{start}\nxmml-answered 0\n" for _ in range(tried)), "")


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def site(tmp_path: Path, queue: Queue) -> Iterator[RunSite]:
    journal = Journal(OpenFolder(tmp_path))
    alpha = Site("alpha", ssh="alpha", scheduler="slurm")
    yield RunSite(alpha, "r-1", journal, SiteLogin(alpha, queue))
    journal.close()


def jobs_at(site: RunSite, count: int = JOBS, *, queued: bool = True) -> list[SiteJob]:
    jobs = []
    for number in range(count):
        planned = Job(f"j{number}", site.name, (), nodes=1, cores_per_node=1)
        job = SiteJob(f"j{number}", site.name, site.site, planned, 3600.0, JobNodes(planned, site.site, ()))
        jobs.append(dataclasses.replace(job, attempt=1, id=str(100 + number) if queued else ""))
    return jobs


def test_one_command_asks_about_all_jobs_of_a_site(site: RunSite, queue: Queue) -> None:
    starts = asyncio.run(site.estimates(jobs_at(site)))
    assert len(queue.asked) == 1
    assert set(starts) == {f"j{number}" for number in range(JOBS)}
    assert starts["j7"] == pytest.approx(600.0, abs=60.0)


def test_what_the_watch_of_the_jobs_was_told_is_not_asked_again(site: RunSite, queue: Queue) -> None:
    async def both() -> dict[str, float | None]:
        await site.status(jobs_at(site))
        return await site.estimates(jobs_at(site))

    starts = asyncio.run(both())
    assert len(queue.asked) == 1
    assert None not in starts.values()


def test_a_queue_that_did_not_know_is_asked_again_once(site: RunSite, queue: Queue) -> None:
    async def ask() -> list[dict[str, float | None]]:
        queue.starts_in_s = None
        first = await site.estimates(jobs_at(site))
        queue.starts_in_s = 600.0
        for id, (_, status) in site.queue.told.items():
            site.queue.told[id] = (asyncio.get_running_loop().time() - 5.0, status)
        return [first, await site.estimates(jobs_at(site))]

    first, second = asyncio.run(ask())
    assert len(queue.asked) == 2
    assert set(first.values()) == {None}
    assert None not in second.values()


def test_one_command_asks_about_all_jobs_that_are_in_no_queue(site: RunSite, queue: Queue) -> None:
    starts = asyncio.run(site.estimates(jobs_at(site, queued=False)))
    assert len(queue.asked) == 1
    assert list(starts.values()) == [60.0] * JOBS


def test_a_group_asks_each_site_once_however_many_jobs_it_has(site: RunSite, queue: Queue) -> None:
    async def gather() -> Rendezvous:
        jobs = {job.member: job for job in jobs_at(site)}
        manners = RendezvousPolicy(first_ask_s=0.0, ask_every_s=1000.0)
        members = [Member(job.member, job.site, 1, 3600.0) for job in jobs.values()]
        strategy = Rendezvous(members, manners)
        strategy.adopt(dict.fromkeys(jobs, 1), asyncio.get_running_loop().time(), {})
        co_allocation = CoAllocation(strategy, jobs, {"alpha": site}, lambda text: None)
        waiting = asyncio.create_task(co_allocation.gather())
        await until(lambda: len(strategy._estimates) == JOBS or waiting.done(), "the sites are not asked")
        assert not waiting.done(), waiting
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return strategy

    asyncio.run(gather())
    assert len([command for command in queue.asked if "squeue" in command]) == 1


def test_a_site_that_does_not_answer_says_nothing(site: RunSite, queue: Queue) -> None:
    queue.is_down = True
    with pytest.raises(SchedulerUnavailable):
        asyncio.run(site.estimates(jobs_at(site)))


@pytest.mark.parametrize("commands", [[], ["true"], ["echo one; exit 3", "echo two >&2", "cat", "printf three"]])
def test_questions_that_are_asked_together_are_answered_one_by_one(commands: Sequence[str]) -> None:
    async def ask() -> list[CommandResult]:
        transport = LocalTransport("here")
        try:
            return answers_of(await transport.run(batched(commands)))
        finally:
            await transport.close()

    answers = asyncio.run(ask())
    expected = {"true": (0, ""), "echo one; exit 3": (3, "one\n"), "echo two >&2": (0, "two\n")}
    expected |= {"cat": (0, ""), "printf three": (0, "three")}
    assert [(each.status, each.stdout) for each in answers] == [expected[command] for command in commands]
