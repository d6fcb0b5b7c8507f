"""Whether a queue would take the largest job that the file of sites allows: it is asked, and nothing is submitted."""

from __future__ import annotations

from dataclasses import replace

from xmml_planner.sites import Site

from xmml.graphs.quantity_text import value_text
from xmml.units import Dimension
from xmml_sites.batch import JobRejected, JobScript, Scheduler, SchedulerUnavailable
from xmml_sites.check.report import Finding, Verdict
from xmml_sites.ssh import Transport

#: From where the queue's command reads the script.
STDIN = "/dev/stdin"
SHORT_S = 60.0


async def job_trial(site: Site, scheduler: Scheduler, transport: Transport) -> Finding | None:
    """Return whether the queue takes such a job, and else which key of the file of sites is wrong; `None`: this batch
    system says nothing of it. Only Slurm can be asked about a job; of others the limits of their queues are known.

    Raises:
        TransportError: the site cannot be reached.
    """
    if not site.has_queue:
        return None
    limits = scheduler.parse_limits(await transport.run(scheduler.limits_command()))
    queue = limits.partition(site.partition or "")
    walltime_s = site.walltime_s or (queue.default_s if queue is not None else None) or SHORT_S
    small = _job(site)
    wanted = {
        "nodes": replace(small, nodes=site.nodes),
        "cores": replace(small, cores=site.cores),
        "memory": replace(small, memory=site.memory_bytes or 0),
        "gpus": replace(small, gpus=site.gpus),
        "walltime": replace(small, walltime_s=walltime_s),
    }
    largest = replace(
        small,
        nodes=site.nodes,
        cores=site.cores,
        memory=site.memory_bytes or 0,
        gpus=site.gpus,
        walltime_s=walltime_s,
    )
    size = _size(site, walltime_s)
    if beyond := limits.exceeded(largest, site.given):
        return Finding("job", Verdict.FAILED, "; ".join(beyond))
    if scheduler.name != "slurm":
        return Finding("job", Verdict.OK, f"{size} is within the limits of {queue}") if queue is not None else None
    why = await _why_not(largest, scheduler, transport)
    if why is None:
        return Finding("job", Verdict.OK, f"{size} can be asked for")
    if (reason := await _why_not(small, scheduler, transport)) is not None:
        what = "look at partition, account, qos, reservation and options"
        return Finding("job", Verdict.FAILED, f"not even the smallest job is taken: {reason}; {what}")
    wrong = [key for key, job in wanted.items() if await _why_not(job, scheduler, transport) is not None]
    keys = f"{', '.join(wrong)} of the site are more than there is" if wrong else "all of that together is too much"
    return Finding("job", Verdict.FAILED, f"{size} cannot be asked for: {why}; {keys}", {"wrong": wrong})


def _job(site: Site) -> JobScript:
    return JobScript(
        "xmml-check",
        "/tmp",
        "true",
        walltime_s=SHORT_S,
        partition=site.partition or "",
        account=site.account or "",
        qos=site.qos or "",
        reservation=site.reservation or "",
        options=site.options,
    )


async def _why_not(job: JobScript, scheduler: Scheduler, transport: Transport) -> str | None:
    answer = await transport.run(scheduler.estimate_command(STDIN), scheduler.render(job))
    try:
        scheduler.parse_estimate(answer)
    except (JobRejected, SchedulerUnavailable) as error:
        return str(error)
    return None


def _size(site: Site, walltime_s: float) -> str:
    words = [f"{site.nodes} x {site.cores} cores"]
    if site.memory_bytes:
        words.append(f"{value_text(site.memory_bytes, Dimension.DATA)} on each node")
    if site.gpus:
        words.append(f"{site.gpus} GPUs on each node")
    return f"a job of {', '.join([*words, value_text(walltime_s, Dimension.TIME)])}"
