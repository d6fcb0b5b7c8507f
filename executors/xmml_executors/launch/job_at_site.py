"""A job of the plan at its site, and the attempt it is at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from xmml_planner import Job
from xmml_planner.sites import Site

from xmml.late_dataclass import dataclass


@dataclass
class JobAtSite:
    """A job of the plan, and the attempt it is at.

    Attributes:
        member: its name in its group.
        site: the cluster, or machine, at which it is.
        part: the site of the plan: the cluster itself, or a part of it.
        id: in the queue.
        limit_s: for how long it was asked for; 0: that is not known.
        about: what its agent said of itself when it was ready.
    """

    member: str
    site: str
    part: Site
    planned: Job
    walltime_s: float
    attempt: int = 0
    id: str = ""
    limit_s: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Its folder below `jobs/`."""
        return f"{self.member}.{self.attempt}"
