"""Bringing back from a site what the run has made there: logs, and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from xmml_planner import Plan
from xmml_planner.hosting import members

from xmml_executors.launch.run_site import JobAtSite, RunSite
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder

#: Working folders without declared results come back whole, unless they are larger.
MOST_BYTES = 256 * 1024 * 1024


async def bring_back(site: RunSite, plan: Plan, folder: RunFolder, jobs: Mapping[str, JobAtSite]) -> None:
    """Copy the logs of a site's instances, and their results, into the folder of the run.

    Raises:
        TransportError: the site cannot be reached.
        SiteError: it does not answer sensibly.
    """
    names = [name for job in jobs.values() if job.site == site.name for name in job.planned.instances]
    wanted: dict[str, Any] = {
        plan.by_name[name].folder: list(plan.by_name[name].stage_out) for name in names if name in plan.by_name
    }
    for process, instances in members(plan).items():
        if any(instance.name in names for instance in instances):
            wanted[process] = []
    order = {"folders": wanted, "most_bytes": MOST_BYTES}
    done = await site.transport.run(f"{site.agent} list", stdin=json.dumps(order), timeout_s=60.0)
    if done.status != 0:
        raise SiteError(f"site {site.name}: what the run has made cannot be listed: {done.said}")
    pairs = []
    for path in json.loads(done.stdout):
        local = (folder.path / path).resolve()
        if not local.is_relative_to(folder.path.resolve()):
            raise SiteError(f"site {site.name} names a file outside of the run's folder: {path}")
        local.parent.mkdir(parents=True, exist_ok=True)
        pairs.append((f"{site.folder}/{path}", local))
    if pairs:
        await site.transport.get_many(pairs)
