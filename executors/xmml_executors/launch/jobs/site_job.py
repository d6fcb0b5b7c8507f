"""A job of the plan at its site, and the attempt it is at."""

from __future__ import annotations

from dataclasses import field

from xmml_planner import Job
from xmml_planner.sites import Site

from xmml.late_dataclass import dataclass
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.protocol import Ready


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
    about: dict[int, Ready] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Its folder below `jobs/`."""
        return f"{self.member}.{self.attempt}"

    @property
    def given(self) -> dict[str, str]:
        """Where the values that it asks for come from, in words, by their keys in the file of sites."""
        words = self.part.given
        if not self.planned.walltime_s and self.part.walltime_s is None:
            words["walltime"] = "the default: walltime of the site is not given"
        elif self.part.walltime_s is None or self.planned.walltime_s not in (0.0, self.part.walltime_s):
            words["walltime"] = "from the run times in the model"
        for key, planned, site in (
            ("nodes", self.planned.nodes, self.part.nodes),
            ("cores", self.planned.cores_per_node, self.part.cores),
            ("memory", self.planned.memory_per_node_bytes, self.part.memory_bytes),
            ("gpus", self.planned.gpus_per_node, self.part.gpus),
        ):
            if planned != site:
                most = self.nodes.neediest(key)
                words[key] = "what its instances need" if most is None else f"what {most.name} needs, {most.position}"
        return words

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
