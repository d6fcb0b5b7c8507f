"""What people are told of jobs that wait in a queue, and when."""

from __future__ import annotations

import re
import time

import pytest
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.queue_news import CHANGED_AFTER_S, UNCHANGED_AFTER_S, WORTH_TELLING_S, QueueNews
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_planner import Job
from xmml_planner.sites import Site
from xmml_sites.batch import JobState, JobStatus

RESOURCES = JobStatus(JobState.WAITING, reason="Resources")


@pytest.fixture
def job() -> SiteJob:
    site, planned = Site("alpha", scheduler="slurm"), Job("alpha", "alpha", ())
    return SiteJob("alpha", "alpha", site, planned, 60.0, JobNodes(planned, site, ()), attempt=1, id="80")


def test_a_job_that_waits_is_told_with_the_reason_the_expected_start_and_how_long_it_has_waited(job: SiteJob) -> None:
    news = QueueNews()
    status = JobStatus(JobState.WAITING, reason="Resources", starts_in_s=3600.0)
    news.of(job, status, 0.0)
    told = news.of(job, status, 360.0)
    assert told is not None
    found = re.fullmatch(r"job 80 pending \(Resources\), expected (\d\d:\d\d), waited 6 min 0 s", told)
    assert found, told
    around = {time.strftime("%H:%M", time.localtime(time.time() + 3600 + off)) for off in (-60, 0)}
    assert found[1] in around


def test_a_start_on_another_day_has_its_date(job: SiteJob) -> None:
    news = QueueNews()
    status = JobStatus(JobState.WAITING, starts_in_s=3 * 86_400.0)
    news.of(job, status, 0.0)
    assert re.search(r"pending, expected \d{4}-\d\d-\d\d \d\d:\d\d, ", news.of(job, status, 10.0) or "")


def test_a_job_that_begins_at_once_is_not_worth_a_word(job: SiteJob) -> None:
    news = QueueNews()
    assert news.of(job, RESOURCES, 0.0) is None
    assert news.of(job, RESOURCES, WORTH_TELLING_S - 1) is None
    assert news.of(job, JobStatus(JobState.RUNNING), WORTH_TELLING_S + 1) is None


def test_the_same_is_told_again_only_now_and_then(job: SiteJob) -> None:
    news = QueueNews()
    told_at = [at for at in range(0, 3600, 30) if news.of(job, RESOURCES, float(at))]
    assert told_at == list(range(30, 3600, int(UNCHANGED_AFTER_S)))


@pytest.mark.parametrize(
    ("status", "is_told"),
    [
        (JobStatus(JobState.WAITING, reason="Priority", starts_in_s=3600.0), True),
        (JobStatus(JobState.WAITING, reason="Resources", starts_in_s=7200.0), True),
        (JobStatus(JobState.WAITING, reason="Resources", starts_in_s=3630.0), False),
        (JobStatus(JobState.WAITING, reason="Resources"), True),
    ],
    ids=["another reason", "a later start", "hardly later", "no start any more"],
)
def test_what_has_changed_is_told_soon(job: SiteJob, status: JobStatus, is_told: bool) -> None:
    news = QueueNews()
    before = JobStatus(JobState.WAITING, reason="Resources", starts_in_s=3600.0)
    news.of(job, before, 0.0)
    assert news.of(job, before, 10.0)
    assert news.of(job, status, 11.0) is None, "not more often than this"
    assert bool(news.of(job, status, 10.0 + CHANGED_AFTER_S)) == is_told


def test_a_job_that_is_submitted_anew_waits_from_then_on(job: SiteJob) -> None:
    news = QueueNews()
    news.of(job, RESOURCES, 0.0)
    job.attempt = 2
    assert news.of(job, RESOURCES, 100.0) is None
    assert (news.of(job, RESOURCES, 106.0) or "").endswith("waited 6.0 s")
