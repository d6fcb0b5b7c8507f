"""Batch systems: one interface of pure functions, an implementation for each (`docs/schedulers.md`)."""

from xmml_planner.sites import Site
from xmml_planner.sites.fields import SCHEDULERS

from xmml_sites.batch.fork import Fork
from xmml_sites.batch.job_script import (
    RESULT,
    STARTED,
    STDERR,
    STDOUT,
    JobResult,
    read_result,
    umask_of_this_process,
)
from xmml_sites.batch.pbs import Pbs
from xmml_sites.batch.queue_limits import Limits, QueueLimits
from xmml_sites.batch.scheduler import (
    JobRejected,
    JobScript,
    JobState,
    JobStatus,
    NodeStep,
    NotSupported,
    ReservationRefused,
    ReservationRequest,
    ReservationState,
    Scheduler,
    SchedulerUnavailable,
)
from xmml_sites.batch.slurm import Slurm
from xmml_sites.batch.within_job import WithinJob

__all__ = [
    "RESULT",
    "STARTED",
    "STDERR",
    "STDOUT",
    "Fork",
    "JobRejected",
    "JobResult",
    "JobScript",
    "JobState",
    "JobStatus",
    "Limits",
    "NodeStep",
    "NotSupported",
    "Pbs",
    "QueueLimits",
    "ReservationRefused",
    "ReservationRequest",
    "ReservationState",
    "Scheduler",
    "SchedulerUnavailable",
    "Slurm",
    "WithinJob",
    "by_name",
    "of_site",
    "read_result",
    "umask_of_this_process",
]


def of_site(site: Site) -> Scheduler:
    """The batch system of a site; in an allocation its inside."""
    scheduler = by_name(site.scheduler, site.dialect or "openpbs")
    return WithinJob(scheduler) if site.allocation is not None else scheduler


def by_name(name: str, dialect: str = "openpbs") -> Scheduler:
    """The batch system that a site's description names, one of `SCHEDULERS`.

    Raises:
        ValueError: there is no such one.
    """
    if name == "local":
        return Fork()
    if name == "slurm":
        return Slurm()
    if name == "pbs":
        return Pbs(dialect)
    raise ValueError(f"{name!r} is no batch system that xMML knows; there are {', '.join(SCHEDULERS)}")
