"""What those who wait for jobs of rules hear, whatever the queue says and whoever stops waiting meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import skipping_clock
from slurm_answers import answer, with_accounting, without_accounting
from snakemake_executor_plugin_xmml import rule_jobs
from snakemake_executor_plugin_xmml.placement import Needs
from snakemake_executor_plugin_xmml.rule_jobs import (
    SILENT_ROUNDS,
    RuleJob,
    RuleJobFailed,
    _Request,
    _RuleSite,
    given,
    script_of,
)
from snakemake_executor_plugin_xmml.slurm_resources import with_slurm_settings
from xmml_planner.sites import Site
from xmml_sites.batch import JobRejected, JobScript, JobState, JobStatus, QueueLimits, SchedulerUnavailable

REQUEST = _Request(JobScript("a", "/a", "true"), {})
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

    async def known_limits(self) -> QueueLimits:
        return QueueLimits()


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
    both = waited(
        tmp_path, queue, lambda site: asyncio.gather(site._until_over("1", REQUEST), site._until_over("2", REQUEST))
    )
    assert both == [OVER, OVER]


@pytest.mark.parametrize("says", [OVER, NEVER])
def test_others_hear_of_their_jobs_although_one_stops_waiting_while_the_queue_is_asked(
    tmp_path: Path, says: JobStatus
) -> None:
    tasks: list[asyncio.Task[JobStatus]] = []
    queue = Queue(says, meanwhile=lambda: tasks[0].cancel())

    async def wait(site: _RuleSite) -> list[Any]:
        tasks.extend(asyncio.create_task(site._until_over(number, REQUEST)) for number in "12")
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
        waited(tmp_path, queue, lambda site: site._until_over("1", REQUEST))
    assert len(asked) == rounds


def test_a_job_that_can_never_run_is_taken_out_of_its_queue(tmp_path: Path) -> None:
    queue = Queue(NEVER)
    with pytest.raises(RuleJobFailed, match="job 1 at alpha will never start: too many cores"):
        waited(tmp_path, queue, lambda site: site._until_over("1", REQUEST))
    assert queue.cancelled[0] == "1"


# --- limits of a queue ------------------------------------------------------------------------------------------------

ALPHA = Site("alpha", scheduler="slurm", account="abc", origin={"account": "sites.toml:3"})
DAYS = 'the job asks for 2 day (runtime of the rule), the partition batch allows 1 day: set walltime = "1 day"'
CORES = "the job asks for 16 cores (threads of the rule), the account abc allows 8 cores: set cores = 8"


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the programs of Slurm, with accounting; the queue is asked a hundred times a second."""
    folder = without_accounting(tmp_path / "bin", monkeypatch)
    with_accounting(folder)
    answer(folder, "sinfo", "echo 'NODES|batch|64|2000|(null)|4|idle'")
    answer(folder, "scancel", f'echo "$@" > {tmp_path}/cancelled')
    monkeypatch.setattr(rule_jobs, "ASK_EVERY_S", 0.01)
    return folder


def ended(tmp_path: Path, needs: Needs, wait: Callable[[_RuleSite, _Request], Awaitable[Any]]) -> Any:
    """Return what comes of a job that needs this."""

    async def do() -> Any:
        site = _RuleSite(ALPHA)
        job = RuleJob("count-1", "true", needs, (), (), (), Path("log"), Path("arriving"))
        try:
            return await wait(site, _Request(script_of(job, ALPHA, str(tmp_path)), given(needs, ALPHA)))
        finally:
            await site.close()

    return asyncio.run(do())


@pytest.mark.parametrize(
    ("reason", "needs", "told"),
    [
        ("PartitionTimeLimit", Needs(runtime_s=172_800.0), DAYS),
        ("AssocGrpCpuLimit", Needs(threads=16), CORES),
    ],
)
def test_a_job_that_would_wait_for_ever_is_told_with_the_value_that_is_wrong_and_one_that_would_do(
    tmp_path: Path, answers: Path, reason: str, needs: Needs, told: str
) -> None:
    answer(answers, "squeue", f"echo '7|PENDING|{reason}|N/A|'")
    with pytest.raises(RuleJobFailed) as failure:
        ended(tmp_path, needs, lambda site, request: site._until_over("7", request))
    assert str(failure.value) == f"job 7 at alpha will never start: {reason}; {told}"
    assert (tmp_path / "cancelled").read_text() == "-Q 7\n"


def test_a_job_within_a_limit_that_others_use_up_only_waits(tmp_path: Path, answers: Path) -> None:
    first, then = "mkdir asked", "echo '7|PENDING|AssocGrpCpuLimit|N/A|' || echo '7|COMPLETED|None|N/A|'"
    answer(answers, "squeue", f"cd {tmp_path}; {first} && {then}")
    status = ended(tmp_path, Needs(threads=8), lambda site, request: site._until_over("7", request))
    assert status.state is JobState.ENDED


def test_a_job_that_its_queue_refuses_is_told_with_the_value_that_is_wrong(tmp_path: Path, answers: Path) -> None:
    answer(answers, "sbatch", "echo 'sbatch: error: Requested time limit is invalid' >&2; exit 1")
    with pytest.raises(JobRejected, match=f"Requested time limit is invalid; {re.escape(DAYS)}$"):
        ended(tmp_path, Needs(runtime_s=172_800.0), lambda site, request: site._submit_wholly(request))


def test_where_the_values_of_a_job_come_from_is_told() -> None:
    ruled = with_slurm_settings(ALPHA, [("partition", "long"), ("account", "xyz")])
    assert given(Needs(threads=2, memory_bytes=1, gpus=1), ruled) == {
        "account": "account of the rule",
        "partition": "partition of the rule",
        "cores": "threads of the rule",
        "memory": "mem_mb of the rule",
        "gpus": "gpu of the rule",
        "walltime": "the default: the rule has no runtime",
    }
    timed = Site("alpha", scheduler="slurm", walltime_s=60.0, origin={"walltime": "sites.toml:5"})
    assert given(Needs(), timed)["walltime"] == "walltime in sites.toml:5"
