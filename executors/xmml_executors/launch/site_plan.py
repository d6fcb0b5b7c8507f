"""What a plan says of its sites: which jobs they have, and how they are reached."""

from __future__ import annotations

from typing import Any

from xmml_planner import Plan
from xmml_planner.sites import HERE, Site

from xmml_executors.launch.relay_links import RelayLinks, links_of

#: For how long a job is asked whose run time nobody knows, where the queue gives no time by default.
USUAL_WALLTIME_S = 86_400.0


def remote_jobs(plan: Plan) -> dict[str, tuple[Any, Site]]:
    """Return the jobs of a plan, with their sites, that do not simply run as processes of this machine."""
    sites = {site.name: site for site in plan.sites}
    return {
        job.name: (job, sites[job.site])
        for job in plan.jobs
        if job.site in sites and not (sites[job.site].is_here and not sites[job.site].has_queue)
    }


def cluster_of(plan: Plan, site: Site) -> Site:
    """Return the site that a part of a cluster takes login node and files from; of another site, itself."""
    sites = {each.name: each for each in plan.sites}
    while site.like is not None and site.like in sites:
        site = sites[site.like]
    return site


def launch_site(plan: Plan) -> str:
    """Return the name of the site that is this machine, if the plan has one."""
    return next((site.name for site in plan.sites if site.is_here and not site.has_queue), HERE)


def relay_links(plan: Plan, site: str) -> RelayLinks:
    """Return the links of the relay of a site."""
    clusters = {each.name: cluster_of(plan, each).name for each in plan.sites}
    home = {launch_site(plan), *(each.name for each in plan.sites if each.is_here)}
    return links_of(plan, site, clusters, home)


def needs_relay(plan: Plan, *, is_direct: bool) -> bool:
    """Whether some instances reach the coordinator, or each other, through a relay only; with `is_direct`, they reach
    the coordinator without."""
    through_relay = any(route.method == "relay" for route in plan.routes)
    return through_relay or (not is_direct and any(site.submits_jobs for _, site in remote_jobs(plan).values()))
