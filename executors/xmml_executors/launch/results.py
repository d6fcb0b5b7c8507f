"""Bringing back from a site what the run has made there: logs, and results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xmml_planner import Plan
from xmml_planner.hosting import members
from xmml_sites.ssh import ConnectionLost

from xmml_executors.launch.run_site import RunSite
from xmml_executors.launch.site_job import SiteJob
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder, relay_log

#: Working folders without declared results come back whole, unless they are larger.
MOST_BYTES = 256 * 1024 * 1024


#: Bringing back may take as long as it takes; it ends when nothing has come for so long.
SILENT_S = 60.0
#: How often it is begun again after the connection was lost, if something had come over it.
ATTEMPTS = 5


async def fetch_results(site: RunSite, plan: Plan, folder: RunFolder, jobs: Mapping[str, SiteJob]) -> list[str]:
    """Copy the logs of a site's instances and of its relay, and the results, into the folder of the run.

    Returns:
        The working folders that are too large to come without being asked for, relative to the run's folder.

    Raises:
        TransportError: the site cannot be reached.
        SiteError: it does not answer sensibly.
        TimeoutError: nothing has come for `SILENT_S`.
        OSError: something cannot be written here.
    """
    loop = asyncio.get_running_loop()
    has_come = False
    async with asyncio.timeout(SILENT_S) as limit:

        def on_piece() -> None:
            nonlocal has_come
            has_come = True
            if not limit.expired():
                limit.reschedule(loop.time() + SILENT_S)

        for _ in range(ATTEMPTS - 1):
            try:
                return await _bring_back(site, plan, folder, jobs, on_piece)
            except ConnectionLost:
                if not has_come:
                    raise
                has_come = False
        return await _bring_back(site, plan, folder, jobs, on_piece)


def too_large(folders: Sequence[str]) -> str:
    """Return why working folders were left at their site; empty if there are none."""
    if not folders:
        return ""
    has = "has" if len(folders) == 1 else "have"
    return (
        f"{', '.join(folders)} {has} more than {MOST_BYTES >> 20} MiB, and no run:stage-out in the model says which of "
        "the files are results"
    )


async def _bring_back(
    site: RunSite, plan: Plan, folder: RunFolder, jobs: Mapping[str, SiteJob], on_piece: Callable[[], None]
) -> list[str]:
    names = [name for job in jobs.values() if job.site == site.name for name in job.planned.instances]
    wanted: dict[str, Any] = {
        plan.by_name[name].folder: list(plan.by_name[name].stage_out) for name in names if name in plan.by_name
    }
    for process, instances in members(plan).items():
        if any(instance.name in names for instance in instances):
            wanted[process] = []
    order = {"folders": wanted, "files": [relay_log(site.name)], "most_bytes": MOST_BYTES}
    done = await site.transport.run(f"{site.agent} list", stdin=json.dumps(order), timeout_s=SILENT_S)
    if done.status != 0:
        raise SiteError(f"site {site.name}: what the run has made cannot be listed: {done.said}")
    pairs = []
    listed = json.loads(done.stdout)
    for path in listed["found"]:
        local = (folder.path / path).resolve()
        if not local.is_relative_to(folder.path.resolve()):
            raise SiteError(f"site {site.name} names a file outside of the run's folder: {path}")
        local.parent.mkdir(parents=True, exist_ok=True)
        pairs.append((f"{site.folder}/{path}", local))
    if pairs:
        await site.transport.get_many(pairs, on_piece=on_piece)
    return list(listed["too_large"])
