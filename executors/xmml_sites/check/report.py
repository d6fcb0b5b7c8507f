"""What a check of the sites has found: plain values, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from xmml.late_dataclass import dataclass


class Verdict(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: `reached`, `scheduler`, `memory`, `job`, `work`, `clock`, `xmml`, `modules`, `setup`, `software`,
            `mpi` or `container`.
        text: what there is, or what is wrong and what to do.
        facts: the figures in it, for programs.
    """

    subject: str
    verdict: Verdict
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteReport:
    """All that was found of one site, in the order in which it was looked at."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings."""
        found = {finding.verdict for finding in self.findings}
        return next((bad for bad in (Verdict.FAILED, Verdict.WARNING) if bad in found), Verdict.OK)

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        findings = {
            finding.subject: {"verdict": finding.verdict.value, "text": finding.text, **finding.facts}
            for finding in self.findings
        }
        return {"verdict": self.verdict.value, "findings": findings}


@dataclass(frozen=True)
class LinkReport:
    """What was found between two sites.

    Attributes:
        between: their names.
        latency_s: one way [s]; `None`: not measured.
        bandwidth: bytes per second.
        text: how it was measured, or why it was not.
    """

    between: tuple[str, str]
    verdict: Verdict
    text: str
    latency_s: float | None = None
    bandwidth: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "between": list(self.between),
            "verdict": self.verdict.value,
            "text": self.text,
            "latency_s": self.latency_s,
            "bandwidth": self.bandwidth,
        }


@dataclass(frozen=True)
class SitesReport:
    """The sites and what lies between them."""

    sites: tuple[SiteReport, ...]
    links: tuple[LinkReport, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether a run over all these sites could not work."""
        return Verdict.FAILED in {*(site.verdict for site in self.sites), *(link.verdict for link in self.links)}

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "ok": not self.has_failed,
            "sites": {report.name: report.as_json() for report in self.sites},
            "links": [report.as_json() for report in self.links],
        }
