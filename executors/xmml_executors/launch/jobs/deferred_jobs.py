"""When jobs that come later are asked for, and what is told if one that waits for them is over before."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xmml_planner import Plan
from xmml_sites.job import WALLTIME_EXPIRED

from xmml.graphs.quantity_text import value_text
from xmml.units import Dimension
from xmml_executors.launch.jobs.site_job import SiteJob

#: A job is asked for so much earlier than its queue usually takes, for submission and its start [s].
AHEAD_S = 30.0


def due_in_s(jobs: Sequence[SiteJob], plan: Plan) -> float:
    """Return how long after the run has begun the jobs of a group are to be asked for: as much before their expected
    start as the slowest of their queues takes; a queue without `queue_wait` counts as empty."""
    begun_s = min((job.starts_s for job in plan.jobs), default=0.0)
    starts_s = min(job.planned.starts_s for job in jobs)
    queue_s = max(job.part.queue_wait_s or 0.0 for job in jobs)
    return max(0.0, starts_s - begun_s - queue_s - AHEAD_S)


def why_over(job: SiteJob, why: str, expected: Collection[SiteJob]) -> str:
    """Return what to tell people of a job that is over before its run is.

    Args:
        why: as the job or its queue says.
        expected: the jobs that have not come yet.
    """
    awaited = [each for each in expected if job.member in each.planned.after]
    if not awaited or not why.startswith(WALLTIME_EXPIRED):
        return f"the job of {job.site} is over: {why}"
    names = " and ".join(f"{each.member} ({each.id or 'not submitted yet'})" for each in awaited)
    sites = " and ".join(dict.fromkeys(each.part.name for each in awaited))
    limit = value_text(job.limit_s or job.walltime_s, Dimension.TIME)
    return (
        f"the job {job.member} ({job.id}) of {job.site} is over: it had a limit of {limit}, and {names}, for which its "
        f"instances waited, had not come through the queue of {sites}. Say with queue_wait of {sites} in the file of "
        f"sites how long that usually takes, so that more time is asked for, or allow {job.part.name} a longer walltime"
    )
