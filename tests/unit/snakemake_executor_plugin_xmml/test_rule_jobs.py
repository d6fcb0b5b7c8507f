"""What those who wait for jobs of rules hear, whatever the queue says and whoever stops waiting meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import skipping_clock
from snakemake_executor_plugin_xmml.rule_jobs import SILENT_ROUNDS, RuleJobFailed, _RuleSite
from xmml_planner.sites import Site
from xmml_sites.batch import JobState, JobStatus, SchedulerUnavailable

OVER = JobStatus(JobState.ENDED)
GOING = JobStatus(JobState.RUNNING)
NEVER = JobStatus(JobState.WAITING, "too many cores", can_never_run=True)


class Queue:
    """A queue that says these things about all jobs, one after the other, and calls this while it is asked."""

    def __init__(self, *says: Any, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.says, self.meanwhile, self.cancelled = list(says), meanwhile, list[str]()

    async def status(self, numbers: Sequence[str]) -> Mapping[str, JobStatus]:
        told = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        await asyncio.sleep(0.1)
        self.meanwhile()
        if isinstance(told, Exception):
            raise told
        return dict.fromkeys([*numbers, "of somebody else"], told)

    async def cancel(self, numbers: Sequence[str]) -> None:
        self.cancelled += numbers
        self.meanwhile()
        await asyncio.sleep(0.1)


def waited(tmp_path: Path, queue: Queue, wait: Callable[[_RuleSite], Awaitable[Any]]) -> Any:
    """Return what comes of waiting for jobs of a queue."""

    async def do() -> Any:
        site = _RuleSite(Site("alpha", work=f"{tmp_path}/work"))
        site.queue = cast("Any", queue)
        try:
            async with asyncio.timeout(3600):
                return await wait(site)
        finally:
            await site.close()

    return skipping_clock.run(do())


def test_all_who_wait_hear_that_their_jobs_are_over(tmp_path: Path) -> None:
    queue = Queue(GOING, SchedulerUnavailable("down"), OVER)
    both = waited(tmp_path, queue, lambda site: asyncio.gather(site._until_over("1"), site._until_over("2")))
    assert both == [OVER, OVER]


@pytest.mark.parametrize("says", [OVER, NEVER])
def test_others_hear_of_their_jobs_although_one_stops_waiting_while_the_queue_is_asked(
    tmp_path: Path, says: JobStatus
) -> None:
    tasks: list[asyncio.Task[JobStatus]] = []
    queue = Queue(says, meanwhile=lambda: tasks[0].cancel())

    async def wait(site: _RuleSite) -> list[Any]:
        tasks.extend(asyncio.create_task(site._until_over(number)) for number in "12")
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second = waited(tmp_path, queue, wait)
    assert isinstance(first, asyncio.CancelledError)
    assert second == OVER if says is OVER else "will never start: too many cores" in str(second)


@pytest.mark.parametrize(
    ("error", "rounds"), [(SchedulerUnavailable("down"), SILENT_ROUNDS), (ValueError("not understood"), 1)]
)
def test_a_queue_that_answers_with_errors_ends_the_waiting(tmp_path: Path, error: Exception, rounds: int) -> None:
    asked: list[None] = []
    queue = Queue(error, meanwhile=lambda: asked.append(None))
    with pytest.raises(type(error)):
        waited(tmp_path, queue, lambda site: site._until_over("1"))
    assert len(asked) == rounds


def test_a_job_that_can_never_run_is_taken_out_of_its_queue(tmp_path: Path) -> None:
    queue = Queue(NEVER)
    with pytest.raises(RuleJobFailed, match="job 1 at alpha will never start: too many cores"):
        waited(tmp_path, queue, lambda site: site._until_over("1"))
    assert queue.cancelled[0] == "1"
