"""Jobs that an earlier launcher of a run, which was interrupted, has submitted or was about to submit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.site.journal import JournalContent
from xmml_executors.launch.site.run_site import RunSite


class PastJobs:
    """What the journal of the run says about its jobs."""

    def __init__(self, past: JournalContent | None, sites: Mapping[str, RunSite]) -> None:
        """
        Args:
            past: the journal; `None`: the run has had no launcher before.
            sites: the sites that the run has now, by their names.
        """
        self._past = past
        self._sites = sites

    def adopt(self, jobs: Mapping[str, SiteJob]) -> dict[str, int]:
        """Take over the placeholders of jobs; return their attempts by member."""
        adopted: dict[str, int] = {}
        for site, member, attempt, id in self._left(jobs):
            if id:
                self._sites[site].adopt(jobs[member], attempt, id)
                adopted[member] = attempt
        return adopted

    def spent(self, jobs: Mapping[str, SiteJob]) -> dict[str, int]:
        """Return the attempts by member that were about to be submitted, so that nobody knows whether they were."""
        return {member: attempt for _, member, attempt, id in self._left(jobs) if not id}

    def _left(self, jobs: Mapping[str, SiteJob]) -> Iterator[tuple[str, str, int, str]]:
        """Yield site, member, attempt and id of what is left of jobs."""
        for site, left in (self._past.sites if self._past is not None else {}).items():
            for folder, id in left.jobs.items():
                member, _, attempt = folder.rpartition(".")
                if member in jobs and site in self._sites:
                    yield site, member, int(attempt), id
