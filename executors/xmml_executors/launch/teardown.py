"""Leaving the sites when a run is over: what it has made there comes back, and nothing of it stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from xmml_planner import Plan
from xmml_sites.ssh import ConnectionLost, NoAnswer, SiteUnreachable

from xmml_executors.executor import LastReport, ResultsLeft, SiteNotice
from xmml_executors.launch.results import SILENT_S, fetch_results, too_large
from xmml_executors.launch.run_site import RunSite
from xmml_executors.launch.site_job import SiteJob
from xmml_executors.launch.timeouts import lease_s
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder

#: How long a site may take to be cleaned when the run is over and its results are here.
CLEAN_WITHIN_S = 30.0
#: How long closing the connection to a site may take that was given up.
CLOSED_WITHIN_S = 1.0


class Teardown:
    """Brings results back, and cleans, all sites at the same time."""

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        jobs: Mapping[str, SiteJob],
        report: Callable[[LastReport], None],
    ) -> None:
        """
        Args:
            report: tells the run something, also what still lies at a site.
        """
        self._plan = plan
        self._folder = folder
        self._jobs = jobs
        self._report = report
        self._bringing_back: list[asyncio.Task[list[str]]] = []
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Let nothing more come back; what has not come stays at its site."""
        self._is_interrupted = True
        for task in self._bringing_back:
            task.cancel()

    async def leave(self, sites: Sequence[RunSite], *, has_results: bool) -> None:
        """Bring back what was made at sites where all jobs have ended, clean them, and close the connections to
        them."""
        problems = await asyncio.gather(
            *(self._leave(site, has_results=has_results) for site in sites), return_exceptions=True
        )
        for site, problem in zip(sites, problems, strict=True):
            if isinstance(problem, BaseException):
                text = str(problem) or f"it did not answer within {CLEAN_WITHIN_S:g} s"
                text = f"{site.name} could not be cleaned: {text}; xmml cancel {self._folder.path} tries again"
                self._report(SiteNotice(text))
        await asyncio.gather(*(_close(site) for site in sites), return_exceptions=True)

    async def _leave(self, site: RunSite, *, has_results: bool) -> None:
        if not site.folder:
            return
        if site.is_given_up:
            raise SiteError(
                f"it is silent; what runs there ends by itself within {lease_s():g} s; what it has made lies in "
                f"{site.folder}"
            )
        why, answers = await self._bring_back(site) if has_results else ("", True)
        if why:
            text = (
                f"what the run has made at {site.name} has not all come back: {why}; it still lies at {site.name} "
                f"in {site.folder}: copy it from there, then remove it with: xmml cancel {self._folder.path}"
            )
            self._report(ResultsLeft(text, self._is_interrupted))
        if not answers:
            return
        async with asyncio.timeout(CLEAN_WITHIN_S):
            await site.clean(site.job_ids, keeps_folder=bool(why))

    async def _bring_back(self, site: RunSite) -> tuple[str, bool]:
        """Bring back what was made at a site; return why not all has come, if so, and whether the site answers."""
        if site.shares_files:
            return "", True
        if self._is_interrupted:
            return "that was interrupted", True
        task = asyncio.create_task(fetch_results(site, self._plan, self._folder, self._jobs))
        self._bringing_back.append(task)
        try:
            return too_large(await task), True
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            return "that was interrupted", True
        except Exception as error:
            is_away = isinstance(error, (SiteUnreachable, ConnectionLost, NoAnswer, TimeoutError))
            return str(error) or f"nothing has come for {SILENT_S:g} s", not is_away


async def _close(site: RunSite) -> None:
    """Close the connection to a site; nothing there is waited for if it was given up."""
    async with asyncio.timeout(CLOSED_WITHIN_S if site.is_given_up else None):
        await site.leave()
