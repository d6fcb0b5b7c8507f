"""The allocation in which a run is launched, as a source of sites: its nodes are the machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace

from xmml.late_dataclass import dataclass
from xmml_planner.sites.catalogue import (
    WITHIN_BANDWIDTH,
    WITHIN_LATENCY_S,
    AllocatedNodes,
    Link,
    Site,
    SiteCatalogue,
)

#: The name of the site where the batch system does not say what its cluster is called.
UNNAMED = "allocation"
_NAME = re.compile(r"[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class AllocatedNode:
    """What a job has of one node.

    Attributes:
        host: its name, as the batch system has it.
        cores: how many the job has there.
        memory_bytes: how much the job may use there; `None`: not known.
        gpus: how many the job has there.
        component: of a heterogeneous job; 0 for other jobs.
    """

    host: str
    cores: int
    memory_bytes: int | None = None
    gpus: int = 0
    component: int = 0


@dataclass(frozen=True)
class Allocation:
    """The nodes and cores that a batch system has given to the job in which this process runs.

    Attributes:
        scheduler: `slurm` or `pbs`.
        step: its number, if this process is a step of the job, which has only some of its cores; else empty.
        dialect: of PBS; `None` for Slurm.
        job: its id.
        nodes: in the order of the batch system.
        launch_host: the node on which this process runs, as the batch system names it; empty: none of them.
        cluster: the name of the cluster; empty: not known.
        partition: the partition or queue of the job; empty: not known.
        submit_host: where the job was submitted; empty: not known.
        ends_at: when the job has to end, in seconds since 1970; `None`: not known, or at any time.
        ends_in_s: the time that is left till then [s].
    """

    scheduler: str
    job: str
    nodes: tuple[AllocatedNode, ...]
    launch_host: str = ""
    step: str = ""
    dialect: str | None = None
    cluster: str = ""
    partition: str = ""
    submit_host: str = ""
    ends_at: float | None = None
    ends_in_s: float | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return f"step {self.step} of job {self.job}" if self.step else f"job {self.job}"

    @property
    def is_step_of_one_node(self) -> bool:
        """Whether it is a step that has cores of one node."""
        return bool(self.step) and len(self.nodes) == 1

    @property
    def is_this_machine(self) -> bool:
        """Whether its only node is the one on which this process runs."""
        return [node.host for node in self.nodes] == [self.launch_host]


def allocation_catalogue(allocation: Allocation, software: Iterable[str] = ()) -> SiteCatalogue:
    """Return the catalogue that holds in an allocation without a `sites.toml`: its nodes, as one site.

    Nodes that differ in cores, memory or GPUs, and the components of a heterogeneous job, are parts of it, each for
    itself.

    Args:
        software: what programs need, which the script of the job is taken to have seen to.
    """
    name = allocation.cluster if _NAME.fullmatch(allocation.cluster) else UNNAMED
    site = Site(
        name,
        scheduler=allocation.scheduler,
        dialect=allocation.dialect,
        python=sys.executable,
        software=tuple(software),
        # A step of one node cannot say of which of the job's cores steps of its own are to be.
        mpi="srun" if allocation.scheduler == "slurm" and not allocation.is_step_of_one_node else "mpirun",
    )
    return _catalogue(SiteCatalogue({name: site}), name, allocation)


def with_allocation(catalogue: SiteCatalogue, allocation: Allocation) -> tuple[SiteCatalogue, str | None]:
    """Return a catalogue in which the nodes of an allocation stand for the site at which they are, and the name of that
    site; `None`: the allocation is at none of its sites.

    It is at a site with its batch system that is reached without ssh, since that is the cluster of this machine, or
    whose name or ssh destination is the name of the cluster or the host from which the job was submitted. Of the parts
    of a cluster it is the one with the partition of the job.
    """
    name = _site_of(catalogue, allocation)
    return (catalogue, None) if name is None else (_catalogue(catalogue, name, allocation), name)


def _site_of(catalogue: SiteCatalogue, allocation: Allocation) -> str | None:
    names = {allocation.cluster, allocation.submit_host, allocation.submit_host.partition(".")[0]} - {""}

    def is_same_cluster(site: Site) -> bool:
        whole = catalogue[catalogue.cluster(site.name)]
        destination = (whole.ssh or "").rpartition("@")[2].partition(":")[0]
        return whole.is_here or bool(names & {whole.name, destination, destination.partition(".")[0]})

    found = [
        site
        for site in catalogue.sites.values()
        if site.scheduler == allocation.scheduler
        and is_same_cluster(site)
        and (not site.partition or not allocation.partition or site.partition == allocation.partition)
    ]
    return min(found, key=lambda site: not site.partition).name if found else None


def _catalogue(catalogue: SiteCatalogue, name: str, allocation: Allocation) -> SiteCatalogue:
    """Return a catalogue with the nodes of an allocation in the place of a site."""
    described = catalogue[name]
    parts = _parts(allocation)
    free_name = (f"{name}-{number}" for number in range(2, 1_000_000) if f"{name}-{number}" not in catalogue.sites)
    names = [name, *(next(free_name) for _ in parts[1:])]
    made = {
        own: replace(
            described,
            name=own,
            ssh=None,
            like=None if own == name else name,
            nodes=len(nodes),
            cores=nodes[0].cores,
            memory_bytes=nodes[0].memory_bytes,
            gpus=nodes[0].gpus,
            walltime_s=allocation.ends_in_s,
            queue_wait_s=None,
            origin={},
            listen=_listen(described, allocation),
            allocation=AllocatedNodes(
                allocation.job,
                tuple(node.host for node in nodes),
                str(nodes[0].component) if len({node.component for node in allocation.nodes}) > 1 else "",
                nodes[0].host == allocation.launch_host,
                allocation.ends_at,
            ),
        )
        for own, nodes in zip(names, parts, strict=True)
    }
    others, links = _without(catalogue, name)
    sites: dict[str, Site] = {}
    for each in catalogue.sites:
        sites |= made if each == name else {each: others[each]}
    return SiteCatalogue(sites, links, catalogue.path)


def _listen(described: Site, allocation: Allocation) -> str | None:
    """Return where instances listen: there is no relay by which those on other nodes could reach a loopback device."""
    if len(allocation.nodes) > 1 and described.listen in (None, "loopback"):
        return "node"
    return described.listen


def _parts(allocation: Allocation) -> list[list[AllocatedNode]]:
    """Return the nodes that are alike together, this one first."""
    found: dict[object, list[AllocatedNode]] = {}
    for node in sorted(allocation.nodes, key=lambda each: each.host != allocation.launch_host):
        found.setdefault((node.component, node.cores, node.memory_bytes, node.gpus), []).append(node)
    return list(found.values())


def _without(catalogue: SiteCatalogue, name: str) -> tuple[Mapping[str, Site], tuple[Link, ...]]:
    """Return the other sites without a site of their cluster, and the links as they are without it.

    The allocation is reached in another way than the other parts of its cluster, so it is a cluster of its own.
    """
    whole = catalogue.cluster(name)
    of_cluster = [each for each in catalogue.sites if catalogue.cluster(each) == whole and each != name]
    head = next(iter(of_cluster), None) if whole == name else whole
    others = {
        each: replace(site, like=(None if each == head else head)) if each in of_cluster and whole == name else site
        for each, site in catalogue.sites.items()
        if each != name
    }
    given = {frozenset(link.between) for link in catalogue.links}
    return others, (*catalogue.links, *_missing(catalogue, name, given))


def _missing(catalogue: SiteCatalogue, name: str, given: Iterable[frozenset[str]]) -> list[Link]:
    """Return the links that followed from the cluster of a site."""
    found = []
    for each in catalogue.sites:
        if each == name or frozenset((each, name)) in given:
            continue
        link = catalogue.link(name, each)
        if catalogue.cluster(each) == catalogue.cluster(name):
            found.append(
                Link((name, each), WITHIN_LATENCY_S, WITHIN_BANDWIDTH, methods=("tcp", "relay"), encrypt=False)
            )
        elif not link.assumed:
            found.append(replace(link, between=(name, each)))
    return found
