"""What a launch would do at each site, without doing it: files, builds, jobs with their scripts, commands."""

from __future__ import annotations

from pathlib import Path

from xmml_planner import Plan
from xmml_planner.sites import Site

from xmml_executors.coallocation import Manners
from xmml_executors.launch.at_site import SitePaths
from xmml_executors.launch.plan_of_sites import USUAL_WALLTIME_S, cluster_of, remote_jobs
from xmml_executors.launch.remote_builds import builds_at
from xmml_executors.launch.run_site import JobAtSite, placeholder
from xmml_executors.launch.staging import files_of, needed
from xmml_executors.schedulers import by_name

#: Stands for the home directory at a site, in scripts that want absolute paths.
HOME = "/HOME"


def rehearsal(plan: Plan, run_folder: str) -> list[str]:
    """Return what would be done at the sites of a plan, as lines.

    Raises:
        SiteError: a file that a site needs is not there.
    """
    lines: list[str] = []
    jobs = remote_jobs(plan)
    for cluster in {cluster_of(plan, site).name: cluster_of(plan, site) for _, site in jobs.values()}.values():
        parts = {site.name for _, site in jobs.values() if cluster_of(plan, site).name == cluster.name}
        files = list(files_of(Path(plan.model_folder), needed(plan, parts)))
        lines += ["", f"site {cluster.name}: {where(cluster)}"]
        lines.append(
            f"  {len(files)} files ({sum(file.stat().st_size for file in files):,} bytes), if not there already:"
        )
        lines += [f"    {file.relative_to(plan.model_folder)}" for file in files]
        lines += [f"  build: {build.command}" for build, _ in builds_at(plan, parts)]
        for planned, site in jobs.values():
            if site.name not in parts:
                continue
            walltime_s = planned.walltime_s or site.walltime_s or USUAL_WALLTIME_S
            lines += [
                f"  job {planned.name}:",
                *script_of(JobAtSite(planned.name, cluster.name, site, planned, walltime_s)),
            ]
            paths = SitePaths(plan.model_folder, run_folder, "~/run", site.python, "$PATH", site.mpi)
            lines += [
                f"  {name}: {' '.join(paths.command(plan.by_name[name].command))}"
                for name in planned.instances
                if plan.by_name[name].process is None
            ]
            shared = {plan.by_name[name].process for name in planned.instances} - {None}
            lines += [
                f"  {process}: a process of ours with "
                + ", ".join(name for name in planned.instances if plan.by_name[name].process == process)
                for process in sorted(str(each) for each in shared)
            ]
    return lines


def where(site: Site) -> str:
    """Return how a site is reached, and what starts jobs there."""
    way = f"ssh {site.ssh}" if site.ssh is not None else "this machine"
    return f"{way}, {site.scheduler}" if site.has_queue else f"{way}, no queue"


def script_of(job: JobAtSite) -> list[str]:
    """Return the lines of a job's script."""
    site = job.part
    work = HOME + site.work[1:] if site.work.startswith("~") else site.work
    folder = f"{work}/runs/RUN"
    slack_s = min(Manners().longest_wait_s, job.walltime_s)
    script = placeholder(job, 1, "xmml-RUN", folder, f"{site.python} -I -S {folder}/agent.py", slack_s, 60.0)
    text = by_name(site.scheduler, site.dialect or "openpbs").render(script).replace(HOME, "~")
    return [f"    {line}" for line in text.splitlines()]
