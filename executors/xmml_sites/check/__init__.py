"""Checking sites before anybody relies on them: `xmml sites check`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from xmml_planner.sites import Site, SiteCatalogue

from xmml_sites.check.link_check import links_between
from xmml_sites.check.probe import closing, probe
from xmml_sites.check.report import Finding, LinkReport, SiteReport, SitesReport, Verdict
from xmml_sites.check.sites_file_update import with_links
from xmml_sites.ssh import Transport, TransportError, open_transport

__all__ = ["Finding", "LinkReport", "SiteReport", "SitesReport", "Verdict", "check_sites", "with_links"]


async def check_sites(catalogue: SiteCatalogue, names: Iterable[str], version: str) -> SitesReport:
    """Look at sites, all at once, and then at what lies between those that answered.

    Args:
        version: of the xMML here.
    """
    opened: dict[str, Transport] = {}
    reports: dict[str, SiteReport] = {}

    async def one(site: Site) -> None:
        try:
            opened[site.name] = open_transport(site)
        except TransportError as error:
            reports[site.name] = SiteReport(site.name, (Finding("reached", Verdict.FAILED, str(error)),))
            return
        reports[site.name] = await probe(site, opened[site.name], version)

    chosen = list(names)
    try:
        await asyncio.gather(*(one(catalogue[name]) for name in chosen))
        answering = {name: opened[name] for name in chosen if _answers(reports[name])}
        links = await links_between(catalogue, reports, answering)
    finally:
        for transport in opened.values():
            async with closing(transport):
                pass
    return SitesReport(tuple(reports[name] for name in chosen), links)


def _answers(report: SiteReport) -> bool:
    verdicts: Mapping[str, Verdict] = {finding.subject: finding.verdict for finding in report.findings}
    return verdicts.get("reached") is Verdict.OK
