"""A job of the plan at its site, and the attempt it is at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from xmml_planner import Job
from xmml_planner.sites import Site

from xmml.late_dataclass import dataclass
from xmml_executors.launch.job_nodes import JobNodes


@dataclass
class SiteJob:
    """A job of the plan, and the attempt it is at.

    Attributes:
        member: its name in its group.
        site: the cluster, or machine, at which it is.
        part: the site of the plan: the cluster itself, or a part of it.
        id: in the queue.
        limit_s: for how long it was asked for; 0: that is not known.
        longest_s: what its queue gives at most; `None`: that is not known.
        nodes: what runs on its nodes.
        about: what the agent of each node said of itself when it was ready.
    """

    member: str
    site: str
    part: Site
    planned: Job
    walltime_s: float
    nodes: JobNodes
    attempt: int = 0
    id: str = ""
    limit_s: float = 0.0
    longest_s: float | None = None
    about: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Its folder below `jobs/`."""
        return f"{self.member}.{self.attempt}"

    @property
    def is_ready(self) -> bool:
        """Whether the agents of all nodes are."""
        return len(self.about) == len(self.nodes.agents)

    @property
    def agents(self) -> list[str]:
        """The folders of its agents below `jobs/`."""
        return agent_folders(self.folder, self.nodes)

    def agent(self, node: int) -> str:
        """The folder of the agent of a node."""
        return agent_folder(self.folder, node)


def agent_folder(job: str, node: int) -> str:
    """Return the folder of the agent of a node, from that of its job, below `jobs/`."""
    return f"{job}/{node}"


def agent_folders(job: str, nodes: JobNodes) -> list[str]:
    """Return the folders of all agents of a job."""
    return [agent_folder(job, each.node) for each in nodes.agents]
