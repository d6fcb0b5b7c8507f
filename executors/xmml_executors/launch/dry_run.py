"""What a launch would do at each site, without doing it: files, builds, relays, jobs with their scripts, commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from xmml_planner import Plan
from xmml_planner.sites import Site
from xmml_planner.submissions import first_and_later, remote_jobs
from xmml_planner.summary import counted
from xmml_sites.batch import JobScript, NotSupported, of_site
from xmml_sites.program import NAME as PROGRAM

from xmml.graphs.quantity_text import value_text
from xmml.units import Dimension
from xmml_executors.coallocation.actions import Action, Reserve, Submit, SubmitTogether
from xmml_executors.executor import in_image
from xmml_executors.launch.co_allocation import CoAllocationFailed, choose_strategy
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.jobs.site_plan import (
    USUAL_WALLTIME_S,
    cluster_of,
    launch_site,
    needs_relay,
    relay_links,
)
from xmml_executors.launch.preparation.builds import builds_at
from xmml_executors.launch.relays import local_relay, remote_relay
from xmml_executors.launch.site.paths import SitePaths, below_home, site_folder
from xmml_executors.launch.site.run_site import placeholder
from xmml_executors.launch.site.staging import built_files, matching_files, patterns_for
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import relay_log

#: Stands for the home folder at a site, in scripts that want absolute paths; people see `~`.
HOME = "/the-home-folder-at-the-site"
#: Stand for what is not known before the run: its name, a port of a login node that leads here, a reservation.
RUN, PORT, RESERVATION = "RUN", "PORT", "RESERVATION"
#: What people are told that these stand for.
MEANINGS = {
    "~": "stands for your home folder",
    RUN: "for the name of the run",
    PORT: "for a port that is free",
    RESERVATION: "for the name of the reservation",
}
#: How long a job that runs in a reservation waits for a word.
PATIENCE_S = 60.0


def dry_run_lines(plan: Plan, run_folder: str, *, is_direct: bool = False, strategy: str | None = None) -> list[str]:
    """Return what would be done at the sites of a plan, as lines.

    Args:
        is_direct: every site can reach the coordinator's addresses as they are.
        strategy: how the jobs are got together; `None`: as the sites allow it best.

    Raises:
        SiteError: a file that a site needs is not there, or the sites do not allow the strategy.
    """
    jobs: dict[str, SiteJob] = {}
    clusters: dict[str, Site] = {}
    for name, (planned, site) in remote_jobs(plan).items():
        cluster = clusters.setdefault(cluster_of(plan, site).name, cluster_of(plan, site))
        walltime_s = planned.walltime_s or site.walltime_s or USUAL_WALLTIME_S
        nodes = JobNodes(planned, site, (plan.by_name[name] for name in planned.instances))
        jobs[name] = SiteJob(name, cluster.name, site, planned, walltime_s, nodes)
    has_relay = needs_relay(plan, is_direct=is_direct)
    submissions = _submissions(jobs, clusters, run_folder, strategy)
    lines = ["", f"this machine: {_relay_here(plan, clusters, run_folder)}"] if has_relay else []
    for cluster in clusters.values():
        here = [job for job in jobs.values() if job.site == cluster.name]
        parts = {job.part.name for job in here}
        lines += ["", f"site {cluster.name}: {where(cluster)}"]
        lines.append(f"  folder {_folder(cluster, run_folder)} with {PROGRAM}, if not there already")
        if cluster.allocation is None:
            lines += _files(plan, parts)
        lines += [f"  build: {build.command}" for build, _ in builds_at(plan, parts)]
        lines += _way_back(plan, cluster, run_folder, has_relay=has_relay, is_direct=is_direct)
        for job in here:
            lines += [*submissions.get(job.member, []), *_commands(plan, job, cluster, run_folder)]
    lines = [line.replace(HOME, "~") for line in lines]
    return [*_legend(lines), *lines]


def _files(plan: Plan, parts: Collection[str]) -> list[str]:
    """Return what is sent to a site."""
    folder, wanted = Path(plan.model_folder), patterns_for(plan, parts)
    files = list(matching_files(folder, wanted, built_files(plan, parts)))
    left_out = sorted({*matching_files(folder, wanted)}.difference(files))
    size = sum(file.stat().st_size for file in files)
    lines = [
        f"  {counted(len(files), 'file')} ({size:,} bytes), if not there already:",
        *(f"    {file.relative_to(folder)}" for file in files),
    ]
    if left_out:
        lines.append("  not sent, because builds here have made them (run:stage-in brings them):")
        lines += [f"    {file.relative_to(folder)}" for file in left_out]
    return lines


def _legend(lines: Sequence[str]) -> list[str]:
    """Return what the names stand for that these lines have in place of what is not known yet."""
    text = "\n".join(lines)
    used = [name for name in MEANINGS if re.search(rf"(?<!\w){name}(?!\w)", text)]
    told = ", ".join(f"{name} {MEANINGS[name]}" for name in used)
    return ["", f"At the sites, {told}. The run replaces these by what they stand for."] if used else []


def where(site: Site) -> str:
    """Return how a site is reached, and what starts jobs there."""
    way = f"ssh {site.ssh}" if site.ssh is not None else "this machine"
    if site.allocation is not None:
        return f"{way}, in job {site.allocation.job} of {site.scheduler}"
    return f"{way}, {site.scheduler}" if site.has_queue else f"{way}, no queue"


def _home(cluster: Site) -> str:
    return str(Path.home()) if cluster.is_here else HOME


def _folder(cluster: Site, run_folder: str) -> str:
    return site_folder(cluster, _home(cluster), RUN, run_folder)


# --- relays -----------------------------------------------------------------------------------------------------------


def _relay_here(plan: Plan, clusters: Mapping[str, Site], run_folder: str) -> str:
    site = launch_site(plan)
    device = local_relay.device_of(is_open=any(cluster.is_here for cluster in clusters.values()))
    log = Path(run_folder, relay_log(site))
    return f"mto {shlex.join(local_relay.words_of(f'{site}-{RUN}', device, 0, log))}"


def _way_back(plan: Plan, cluster: Site, run_folder: str, *, has_relay: bool, is_direct: bool) -> list[str]:
    """Return how the processes of a site reach this machine."""
    if cluster.is_here or (is_direct and not has_relay):
        return []
    leads_to = "the relay of this machine" if has_relay else "the coordinator"
    lines = [f"  ssh leads 127.0.0.1:{PORT} there to {leads_to}"]
    if has_relay and cluster.has_queue:
        options = relay_links(plan, cluster.name).words(f"127.0.0.1:{PORT}")
        log = f"{_folder(cluster, run_folder)}/{relay_log(cluster.name)}"
        words = remote_relay.words_of(f"{cluster.name}-{RUN}", remote_relay.port_named(cluster), log, options)
        lines.append(f"  in the site gateway, as by mto {shlex.join(words)}")
    return lines


# --- jobs -------------------------------------------------------------------------------------------------------------


def _commands(plan: Plan, job: SiteJob, cluster: Site, run_folder: str) -> Iterator[str]:
    """Yield what runs in a job."""
    home, planned_python = _home(cluster), job.part.python
    python = below_home(planned_python, home)
    is_shared = cluster.allocation is not None
    there = run_folder if is_shared else _folder(cluster, run_folder)
    model_there = plan.model_folder if is_shared else ""
    mpi = job.part.mpi
    paths = SitePaths(plan.model_folder, run_folder, there, python, "$PATH", mpi, planned_python, home, model_there)
    inside = [plan.by_name[name] for name in job.planned.instances]
    for each in inside:
        if each.process is None:
            command = paths.command(in_image(each.command, each, run_folder, plan.model_folder))
            yield f"  {each.name}: {' '.join(command)}"
    for process in sorted({str(each.process) for each in inside if each.process is not None}):
        names = ", ".join(each.name for each in inside if each.process == process)
        yield f"  {process}: a process of ours with {names}"


def _submissions(
    jobs: Mapping[str, SiteJob], clusters: Mapping[str, Site], run_folder: str, wanted: str | None
) -> dict[str, list[str]]:
    """Return how each job is submitted, by its name; of those that are submitted together, by that of the first."""
    first, later = first_and_later({name: (job.planned, job.part) for name, job in jobs.items()})
    shown: dict[str, list[str]] = {}
    for group in [first, *later] if first else later:
        try:
            strategy = choose_strategy([jobs[name] for name in group], clusters, wanted)
        except CoAllocationFailed as error:
            raise SiteError(str(error)) from None
        for action in strategy.begin(0.0):
            name, lines = _submission(action, jobs, clusters, run_folder)
            shown[name] = lines
    return shown


def _submission(
    action: Action, jobs: Mapping[str, SiteJob], clusters: Mapping[str, Site], run_folder: str
) -> tuple[str, list[str]]:
    match action:
        case SubmitTogether(members, _, slack_s, patience_s):
            together = [jobs[name] for name in members]
            title = f"jobs {', '.join(members)}, as one heterogeneous job"
            return members[0], _job(title, clusters, run_folder, together, slack_s, patience_s)
        case Submit(member, _, slack_s, patience_s):
            return member, _job(f"job {member}", clusters, run_folder, [jobs[member]], slack_s, patience_s)
        case Reserve(member, start, end):
            job = jobs[member]
            title = f"job {member}, in cores that are reserved from {start:.0f} s to {end:.0f} s from now on"
            slack_s = end - start - job.walltime_s
            return member, _job(title, clusters, run_folder, [job], slack_s, PATIENCE_S, RESERVATION)
    raise ValueError(f"no strategy begins with {action}")


def _job(
    title: str,
    clusters: Mapping[str, Site],
    run_folder: str,
    jobs: Sequence[SiteJob],
    slack_s: float,
    patience_s: float,
    reservation: str = "",
) -> list[str]:
    """Return the command that submits a script, and the script."""
    cluster = clusters[jobs[0].site]
    folder, scheduler = _folder(cluster, run_folder), of_site(cluster)
    home = _home(cluster)
    scripts: list[JobScript] = [
        placeholder(
            job,
            1,
            f"xmml-{RUN}-{job.member}",
            folder,
            below_home(job.part.python, home),
            slack_s,
            patience_s,
            reservation,
        )
        for job in jobs
    ]
    title += _for_waiting(jobs, scripts)
    known = all(job.planned.walltime_s or job.part.walltime_s or not job.part.has_queue for job in jobs)
    title += ":" if known else " (its queue is asked for the time that it gives by default; this script assumes a day):"
    try:
        text = scheduler.render(scripts[0]) if len(scripts) == 1 else scheduler.render_together(scripts)
    except NotSupported as error:
        raise SiteError(f"{cluster.name}: {error}") from None
    lines = [scheduler.submit_command(f"{scripts[0].folder}/job.sh"), *text.splitlines()]
    return [f"  {title}", *(f"    {line}" for line in lines)]


def _for_waiting(jobs: Sequence[SiteJob], scripts: Sequence[JobScript]) -> str:
    """Return in words how much longer than the plan says jobs are asked for, so that they can wait for others."""
    waiting_s = max(
        (
            script.walltime_s - job.walltime_s
            for job, script in zip(jobs, scripts, strict=True)
            if job.part.submits_jobs
        ),
        default=0.0,
    )
    return f", with {value_text(waiting_s, Dimension.TIME)} for waiting" if waiting_s > 0 else ""
