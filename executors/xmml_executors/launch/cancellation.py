"""Cancelling a run whose launcher has exited: everything that its journal names is removed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from xmml_planner import Plan
from xmml_sites.batch import SchedulerUnavailable
from xmml_sites.ssh import TransportError

from xmml_executors.launch.site.journal import Journal, JournalContent
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError


def clean_sites(plan: Plan, folder: OpenFolder, tell: Callable[[str], None]) -> list[str]:
    """Remove what may be left at every site; return what went wrong, a line for each site.

    Raises:
        JournalLocked: somebody else is at it, or goes on with the run.
        SiteError: the journal cannot be read or written.
    """
    return asyncio.run(_clean_sites(plan, folder, tell))


async def _clean_sites(plan: Plan, folder: OpenFolder, tell: Callable[[str], None]) -> list[str]:
    journal = Journal(folder)
    past = journal.past
    sites = {site.name: site for site in plan.sites}
    try:
        journal.write_cancel()
        problems = await asyncio.gather(
            *(_clean(RunSite(sites[name], past.run_id, journal), past, tell) for name in past.unclean if name in sites)
        )
    finally:
        journal.close()
    return [problem for problem in problems if problem]


async def _clean(site: RunSite, past: JournalContent, tell: Callable[[str], None]) -> str:
    left = past.sites[site.name]
    try:
        await site.locate()
        if left.folder and left.folder != site.folder:
            raise SiteError(
                f"the journal names {left.folder}, and the run is in {site.folder} there: neither is removed"
            )
        if left.shared and os.path.dirname(left.shared) != os.path.dirname(site.folder):
            raise SiteError(f"the journal names {left.shared}, which is not beside {site.folder}: neither is removed")
        await site.recover_job_ids(left.jobs)
        found = await site.remains(list(left.reservations))
        await site.clean_shared(left, past.launcher)
        await site.clean(site.job_ids, list(left.reservations))
    except (TransportError, SiteError, SchedulerUnavailable) as error:
        return _what_to_do(site, left.folder, str(error))
    finally:
        await site.leave()
    tell(f"{site.name}: nothing is left" + (f"; removed: {', '.join(found)}" if found else ""))
    return ""


def _what_to_do(site: RunSite, folder: str, why: str) -> str:
    """Return the message about a site where something may be left."""
    named = why if why.startswith(f"site {site.name}:") else f"site {site.name}: {why}"
    files = f", its files stay in {folder}" if folder else ""
    return (
        f"{named}; programs of the run that still live there end by themselves, jobs that wait end when they begin"
        f"{files}; when that is mended, again: xmml cancel {site.journal.path.parent}"
    )
