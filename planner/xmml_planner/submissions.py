"""Which jobs of a plan are submitted, which of them wait for each other, and which come later.

Components that begin when others have ended have jobs of their own. These would hold cores for nothing if they were
asked for together with the first.
"""

from __future__ import annotations

from collections.abc import Mapping

from xmml_planner.execution_plan import Job, Plan
from xmml_planner.sites.catalogue import Site


def remote_jobs(plan: Plan) -> dict[str, tuple[Job, Site]]:
    """Return the jobs of a plan, with their sites, that do not simply run as processes of this machine."""
    sites = {site.name: site for site in plan.sites}
    return {
        job.name: (job, sites[job.site])
        for job in plan.jobs
        if job.site in sites and not (sites[job.site].is_here and not sites[job.site].has_queue)
    }


def first_and_later(jobs: Mapping[str, tuple[Job, Site]]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the jobs that are got together at once, and those of each group that comes later. Where there
    is no queue, nothing is gained by waiting."""
    groups: dict[str, list[str]] = {}
    for name, (job, _) in jobs.items():
        groups.setdefault(job.group, []).append(name)
    first: list[str] = []
    later: list[list[str]] = []
    for names in groups.values():
        if all(jobs[name][0].after for name in names) and any(jobs[name][1].submits_jobs for name in names):
            later.append(names)
        else:
            first += names
    return first, later


def waiting_jobs(plan: Plan) -> frozenset[str]:
    """Return the names of the jobs that are got together with others, and so ask for time in which they wait for each
    other."""
    first, later = first_and_later(remote_jobs(plan))
    return frozenset(name for group in (first, *later) if len(group) > 1 for name in group)
