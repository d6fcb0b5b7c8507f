"""The catalogue of sites: the machines and clusters that a model can run on, and what lies between them.

The values of a `sites.toml` ([docs/sites.md](../../../docs/sites.md)), in base units: seconds, bytes, bytes per second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property
from types import MappingProxyType

from xmml.late_dataclass import dataclass

#: The only site of the catalogue that is used when there is no `sites.toml`.
HERE = "here"

#: What is assumed between two sites to which no link is given: a path through the internet, and not a fast one.
ASSUMED_LATENCY_S = 0.02
ASSUMED_BANDWIDTH = 12_500_000.0
#: What is assumed between two sites that are parts of one cluster.
WITHIN_LATENCY_S = 0.0001
WITHIN_BANDWIDTH = 125_000_000.0

#: So many streams a path can have.
MOST_STREAMS = 128


@dataclass(frozen=True)
class RelaySite:
    """Where the relay of a site runs, and how others come to it.

    Attributes:
        host: where it runs, as the compute nodes of the site name it; `None`: the ssh destination.
        port: the port it listens on for its site; 0: any free one.
        listen: `host:port` at which the relays of other sites can dial in; `None`: it only dials out.
        through_ssh: it can be reached through the ssh connection to its site.
    """

    host: str | None = None
    port: int = 0
    listen: str | None = None
    through_ssh: bool = True


@dataclass(frozen=True)
class AllocatedNodes:
    """Nodes of the allocation in which the run is launched: nothing is submitted for what runs on them.

    Attributes:
        job: the id of the job to which they are allocated.
        hosts: their names.
        component: their number in a heterogeneous job; empty for other jobs.
        has_launcher: the run is launched on the first of them.
        ends_at: when the job has to end, in seconds since 1970; `None`: not known, or at any time.
    """

    job: str
    hosts: tuple[str, ...]
    component: str = ""
    has_launcher: bool = True
    ends_at: float | None = None


@dataclass(frozen=True)
class Site:
    """A machine or a part of a cluster.

    Attributes:
        ssh: destination for OpenSSH, `host`, `user@host` or `user@host:port`; `None`: this machine.
        like: the cluster that it is a part of: it takes from there whatever it does not say itself, and shares login
            node, files, queue and relay with it.
        transport: `asyncssh` or `openssh`.
        scheduler: `local` (programs are started at once), `slurm` or `pbs`.
        dialect: of PBS, `openpbs` or `torque`; `None` for other schedulers.
        partition: partition or queue of the jobs; `None`: the scheduler's default.
        reservation: an existing reservation that jobs run in.
        can_reserve: whether this user may make reservations.
        walltime_s: the longest job [s]; `None`: no limit is known.
        options: further options of jobs, as the scheduler's own directives spell them.
        modules: environment modules that are loaded before a program starts.
        setup: shell lines that are run before a program starts.
        env: variables of every program at this site.
        cores: cores of one node.
        memory_bytes: memory of one node [bytes]; `None`: not known, so never the reason against a place.
        gpus: GPUs of one node.
        speed: how fast a core is, relative to the machine for which the model gives its run times.
        mpi: `srun`, `mpirun`, or a command in which `{ranks}` stands for their number.
        container: `apptainer`, `singularity`, or a command in which `{image}` stands for the image; `None`: here the
            first of the two that there is, elsewhere `apptainer`.
        listen: where instances in its jobs listen for others: `node` (an address of their node), `loopback`, or a
            network device; `None`: on their node if their job has several nodes, or other jobs of the cluster send
            messages to it; else on the loopback device.
        work: folder at the site below which runs have theirs.
        python: the Python that has xMML at this site.
        software: what programs can need (`run:needs`) and is here.
        queue_wait_s: how long jobs usually wait [s]; `None`: not known.
        cost: of one core for an hour, in whatever currency all sites share.
        relay: `None`: no relay can run here.
        origin: where a value was given, by its key: `sites.toml:12`, or an option of the command line; a key that is
            missing was not given.
        allocation: the nodes, if they are allocated to the job in which the run is launched.
    """

    name: str
    ssh: str | None = None
    like: str | None = None
    transport: str = "asyncssh"
    scheduler: str = "local"
    dialect: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    can_reserve: bool = False
    walltime_s: float | None = None
    options: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    nodes: int = 1
    cores: int = 1
    memory_bytes: int | None = None
    gpus: int = 0
    speed: float = 1.0
    mpi: str = "mpirun"
    container: str | None = None
    listen: str | None = None
    work: str = "~/xmml"
    python: str = "python3"
    software: tuple[str, ...] = ()
    queue_wait_s: float | None = None
    cost: float = 0.0
    relay: RelaySite | None = RelaySite()
    origin: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    allocation: AllocatedNodes | None = field(default=None, metadata={"left_out": True})

    @property
    def is_here(self) -> bool:
        """Whether it is reached without ssh: this machine, or the cluster that this machine belongs to."""
        return self.ssh is None

    @property
    def has_queue(self) -> bool:
        """Whether programs run in jobs of a batch system."""
        return self.scheduler != "local"

    @property
    def submits_jobs(self) -> bool:
        """Whether jobs are submitted, and wait: programs run in jobs, and the nodes are not allocated yet."""
        return self.has_queue and self.allocation is None

    @property
    def given(self) -> dict[str, str]:
        """Where its values were given, in words, by their keys: `walltime in sites.toml:12`, `partition of --job`."""
        return {key: f"{key} {'in' if ':' in origin else 'of'} {origin}" for key, origin in self.origin.items()}

    @property
    def all_cores(self) -> int:
        """The cores of all its nodes."""
        return self.nodes * self.cores

    @property
    def all_gpus(self) -> int:
        """The GPUs of all its nodes."""
        return self.nodes * self.gpus


@dataclass(frozen=True)
class Link:
    """What lies between two sites.

    Attributes:
        between: the names of the two sites, in the order of the file; a link has no direction.
        latency_s: one way [s].
        bandwidth: bytes per second.
        streams: TCP streams of a path over it; `None`: as many as turn out to be best.
        methods: how messages can go over it: `tcp` (instances reach each other), `relay`.
        encrypt: whether paths over it are encrypted.
        assumed: nobody gave this link; its figures are guesses.
    """

    between: tuple[str, str]
    latency_s: float = ASSUMED_LATENCY_S
    bandwidth: float = ASSUMED_BANDWIDTH
    streams: int | None = None
    methods: tuple[str, ...] = ("relay",)
    encrypt: bool = True
    assumed: bool = False

    def other(self, site: str) -> str:
        """Return the other end."""
        return self.between[1] if self.between[0] == site else self.between[0]


@dataclass(frozen=True)
class SiteCatalogue:
    """The sites by name, in the order of the file, and the links between them.

    Attributes:
        path: the file it was read from; empty: it was not read.
    """

    sites: Mapping[str, Site]
    links: tuple[Link, ...] = ()
    path: str = ""

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    @cached_property
    def _by_pair(self) -> Mapping[frozenset[str], Link]:
        return {frozenset(link.between): link for link in self.links}

    @cached_property
    def _clusters(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for site in self.sites:
            top = site
            while (parent := self.sites[top].like) is not None:
                top = parent
            found[site] = top
        return found

    def cluster(self, name: str) -> str:
        """Return the first of the sites that share login node, files and relay with a site: follow `like` upwards."""
        return self._clusters[name]

    def link(self, one: str, other: str) -> Link:
        """Return what lies between two different sites.

        Without a link in the file: the link between the clusters they are parts of; within one cluster a fast direct
        one; else a guess (`assumed`).
        """
        given = self._by_pair.get(frozenset((one, other)))
        if given is not None:
            return given
        ends = self.cluster(one), self.cluster(other)
        if ends[0] == ends[1]:
            return Link(
                (one, other), WITHIN_LATENCY_S, WITHIN_BANDWIDTH, methods=("tcp", "relay"), encrypt=False, assumed=True
            )
        of_clusters = self._by_pair.get(frozenset(ends)) if ends != (one, other) else None
        return of_clusters or Link((one, other), assumed=True)

    @cached_property
    def _linked(self) -> frozenset[str]:
        return frozenset(site for link in self.links for site in link.between)

    def is_plain_part(self, name: str) -> bool:
        """Whether a site is a part of a cluster that has no link of its own: where the others of its cluster that have
        none can send, it can, and as fast."""
        return self.sites[name].like is not None and name not in self._linked

    def only(self, names: Iterable[str]) -> SiteCatalogue:
        """Return the part of the catalogue with these sites and those they are `like`, and the links between them."""
        kept = set(names)
        for name in list(kept):
            while (parent := self.sites[name].like) is not None and parent not in kept:
                kept.add(parent)
                name = parent
        return SiteCatalogue(
            {name: site for name, site in self.sites.items() if name in kept},
            tuple(link for link in self.links if kept.issuperset(link.between)),
            self.path,
        )


def cores_of_this_machine() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def local_catalogue() -> SiteCatalogue:
    """Return the catalogue that holds without a `sites.toml`: this machine, as the site `here`."""
    return SiteCatalogue({HERE: Site(HERE, cores=cores_of_this_machine(), python=sys.executable)})
