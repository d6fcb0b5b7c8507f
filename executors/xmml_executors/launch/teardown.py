"""The teardown of a run at its sites: results are fetched, then what the run has there is removed."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence

from xmml_planner import Plan
from xmml_planner.hosting import members
from xmml_sites.ssh import ConnectionLost, NoAnswer, SiteUnreachable
from xmml_sites.transfer.ends import remove_parts
from xmml_sites.transfer.results import fetch_listed, is_in
from xmml_sites.transfer.site_files import SILENT_S, fetched_patiently

from xmml.late_dataclass import dataclass
from xmml_executors.executor import LastReport, ResultsLeft, SiteNotice, SiteProgress
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.launch.site.timeouts import lease_s
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder, relay_log

#: How long a site may take to be cleaned when the run is over and its results are here.
CLEAN_WITHIN_S = 30.0
#: How long closing the connection to a site may take that was given up.
CLOSED_WITHIN_S = 1.0
#: Working folders without declared results are fetched whole, unless they are larger [bytes].
MOST_BYTES = 256 * 1024 * 1024
#: How often it is noted how much has come [s]; `xmml cancel` waits as long as something is noted.
NOTED_EVERY_S = 5.0


@dataclass(frozen=True)
class NotFetched:
    """What was not fetched, although nothing went wrong.

    Attributes:
        too_large: working folders that are not fetched unless the model names results, relative to the run's folder.
        not_there: folders of instances, each with the name of a result that it has not.
        links: how many symbolic links were left out.
        first_links: some of them, relative to the run's folder.
    """

    too_large: Sequence[str] = ()
    not_there: Sequence[tuple[str, str]] = ()
    links: int = 0
    first_links: Sequence[str] = ()


class Teardown:
    """Fetches the results from all sites at the same time, and cleans the sites.

    Attributes:
        ended_well: the instances whose programs have ended without an error: these have written their results.
    """

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
        self._fetching: list[asyncio.Task[NotFetched]] = []
        self._is_interrupted = False
        self.ended_well: set[str] = set()

    def interrupt(self) -> None:
        """Stop fetching; what has not arrived stays at its site."""
        self._is_interrupted = True
        for task in self._fetching:
            task.cancel()

    async def leave(self, sites: Sequence[RunSite], *, has_results: bool) -> None:
        """Fetch the results of sites where all jobs have ended, clean the sites, and disconnect."""
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
                f"it does not answer; its programs stop within {lease_s():g} s, when their lease expires; its "
                f"results are in {site.folder}"
            )
        why, answers = await self._fetch(site) if has_results else ("", True)
        if why:
            text = (
                f"what the run has made at {site.name} has not all come back: {why}; it still lies at {site.name} "
                f"in {site.folder}: copy it from there, then remove it with: xmml cancel {self._folder.path}"
            )
            self._report(ResultsLeft(text, self._is_interrupted))
        if not answers:
            self._report(SiteProgress(site.name, ""))
            return
        self._report(SiteProgress(site.name, "removing what the run has there"))
        try:
            async with asyncio.timeout(CLEAN_WITHIN_S):
                await site.clean(site.job_ids, keeps_folder=bool(why))
        finally:
            self._report(SiteProgress(site.name, ""))

    async def _fetch(self, site: RunSite) -> tuple[str, bool]:
        """Fetch the results of a site; return why some are left there, if so, and whether the site answers."""
        if site.shares_files:
            return "", True
        if self._is_interrupted:
            return "that was interrupted", True
        arrived = Arrived(site.name, self._report)
        task = asyncio.create_task(fetch_results(site, self._plan, self._folder, self._jobs, arrived))
        self._fetching.append(task)
        try:
            rest = await task
            if rest.links:
                self._report(SiteNotice(links_left_out(rest), site.name))
            return self._why_left(rest), True
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            return "that was interrupted", True
        except Exception as error:
            is_away = isinstance(error, (SiteUnreachable, ConnectionLost, NoAnswer, TimeoutError))
            return str(error) or f"nothing has come for {SILENT_S:g} s", not is_away

    def _why_left(self, rest: NotFetched) -> str:
        """Return why the folder of a run has to stay at its site; empty if it has not."""
        done = {self._plan.by_name[name].folder for name in self.ended_well & self._plan.by_name.keys()}
        missing = [
            f"{folder} has not written {name}, which run:stage-out names"
            for folder, name in rest.not_there
            if folder in done
        ]
        return "; ".join(filter(None, [too_large(rest.too_large), *missing]))


async def _close(site: RunSite) -> None:
    """Close the connection to a site; nothing there is waited for if it was given up."""
    async with asyncio.timeout(CLOSED_WITHIN_S if site.is_given_up else None):
        await site.leave()


class Arrived:
    """How much of the results of a site has arrived."""

    def __init__(self, site: str, report: Callable[[LastReport], None]) -> None:
        """
        Args:
            report: is told now and then, as long as something arrives.
        """
        self._site = site
        self._report = report
        self._total_b = self._arrived_b = 0
        self._has_moved = True

    def total(self, size_b: int) -> None:
        """Say how much there is."""
        self._total_b, self._arrived_b = size_b, 0

    def advanced(self, size_b: int) -> None:
        """Say how much more stands here."""
        self._arrived_b += size_b

    def moved(self) -> None:
        """Say that something goes on, whatever it is."""
        self._has_moved = True

    async def note(self) -> None:
        """Report now and then, until cancelled."""
        while True:
            if self._has_moved:
                amount = f", {self._arrived_b / 1e6:,.1f} of {self._total_b / 1e6:,.1f} MB" if self._total_b else ""
                self._report(SiteProgress(self._site, f"fetching results{amount}"))
            self._has_moved = False
            await asyncio.sleep(NOTED_EVERY_S)


async def fetch_results(
    site: RunSite, plan: Plan, folder: RunFolder, jobs: Mapping[str, SiteJob], arrived: Arrived
) -> NotFetched:
    """Copy the logs of a site's instances and of its relay, and the results, into the folder of the run; return what
    else there is to say.

    Args:
        arrived: is told how far it is.

    Raises:
        TransportError: the site cannot be reached.
        SiteError: it does not answer sensibly.
        TimeoutError: nothing has come for `SILENT_S`.
        OSError: something cannot be written here.
    """
    wanted = _wanted_of(site, plan, jobs)
    noting = asyncio.create_task(arrived.note())
    try:
        return await fetched_patiently(
            lambda on_piece: _fetch_once(site, wanted, folder, arrived, on_piece), arrived.moved
        )
    except BaseException:
        remove_parts(folder.files.lasting_path, relay_log(site.name))
        for each in wanted:
            remove_parts(folder.files.lasting_path / each)
        raise
    finally:
        noting.cancel()


def _wanted_of(site: RunSite, plan: Plan, jobs: Mapping[str, SiteJob]) -> dict[str, list[str]]:
    """Return the folders of the instances and shared processes of a site, each with the patterns of its results."""
    names = [name for job in jobs.values() if job.site == site.name for name in job.planned.instances]
    wanted = {plan.by_name[name].folder: list(plan.by_name[name].stage_out) for name in names if name in plan.by_name}
    for process, instances in members(plan).items():
        if any(instance.name in names for instance in instances):
            wanted[process] = []
    return wanted


def links_left_out(rest: NotFetched) -> str:
    """Return what is told of symbolic links among the results that were left out."""
    names = ", ".join(rest.first_links) + (", ..." if rest.links > len(rest.first_links) else "")
    links = "a symbolic link" if rest.links == 1 else f"{rest.links:,} symbolic links"
    return (
        f"not copied: {links} among the results: {names}; run:stage-out with the name of a link copies the file or "
        "folder that it leads to"
    )


def too_large(folders: Sequence[str]) -> str:
    """Return why working folders were left at their site; empty if there are none."""
    if not folders:
        return ""
    has = "has" if len(folders) == 1 else "have"
    return (
        f"{', '.join(folders)} {has} more than {MOST_BYTES >> 20} MiB, and no run:stage-out in the model says which of "
        "the files are results"
    )


async def _fetch_once(
    site: RunSite,
    wanted: Mapping[str, Sequence[str]],
    folder: RunFolder,
    arrived: Arrived,
    on_piece: Callable[[], None],
) -> NotFetched:
    files = [relay_log(site.name)]
    rest = await fetch_listed(
        site.transport,
        site.site_command,
        "fetching results",
        {"folders": wanted, "files": files, "most_bytes": MOST_BYTES},
        folder.files.lasting_path,
        is_wanted=lambda path: path in files or is_in(os.path.dirname(path), wanted),
        make_folder=lambda each: _make_folder(folder.files, each),
        lease_s=lease_s(),
        on_piece=on_piece,
        on_listing=lambda listing: arrived.total(listing.bytes),
        on_bytes=arrived.advanced,
    )
    return NotFetched(rest.too_large, rest.not_there, rest.links, rest.first_links)


def _make_folder(base: OpenFolder, path: str) -> None:
    """Make a folder below another, but nothing through a link: the copy that needs it says so."""
    try:
        base.make_folder(path)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
