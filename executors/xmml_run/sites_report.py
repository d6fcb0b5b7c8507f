"""The check of sites as people read it."""

from __future__ import annotations

from xmml_sites.check import LinkReport, SitesReport, Verdict

_MARKS = {Verdict.OK: "ok", Verdict.WARNING: "warning", Verdict.FAILED: "FAILED"}


def report_lines(report: SitesReport) -> list[str]:
    """A table: a row for each thing that was looked at, with its verdict."""
    rows: list[tuple[str, str, str, str]] = []
    for site in report.sites:
        rows += [(site.name, f.subject, _MARKS[f.verdict], f.text) for f in site.findings]
    for link in report.links:
        rows.append((" - ".join(link.between), "link", _MARKS[link.verdict], _link_text(link)))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = []
    previous = ""
    for row in rows:
        name = row[0] if row[0] != previous else ""
        if (name and previous and row[1] != "link") or (name and row[1] == "link" and " - " not in previous):
            lines.append("")
        previous = row[0]
        lines.append(f"{name:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}".rstrip())
    failed = [site.name for site in report.sites if site.verdict is Verdict.FAILED]
    failed += [" - ".join(link.between) for link in report.links if link.verdict is Verdict.FAILED]
    lines += ["", f"{len(failed)} cannot be used: {', '.join(failed)}" if failed else "all sites can be used"]
    return lines


def _link_text(link: LinkReport) -> str:
    if link.latency_s is None or link.bandwidth is None:
        return link.text
    return f"{link.latency_s * 1e3:.3g} ms one way, {link.bandwidth / 1e6:.3g} MB/s; {link.text}"
