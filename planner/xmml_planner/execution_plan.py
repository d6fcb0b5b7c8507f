"""The execution plan: everything needed to carry a model out, without the model.

A plan is an immutable value. As JSON (`plan.json`) it holds, for each instance, what the coordinator tells it when it
joins (the fields of the native `InstanceSpec`) and what the executor needs to start it: command, environment, cores,
folder, files.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from xmml.garbage import no_collection
from xmml.late_dataclass import dataclass
from xmml.model import pool_noun
from xmml_planner.plain_values import PlanFormatError, plain_value, read
from xmml_planner.sites.catalogue import Link, Site

#: The version of the JSON form; a reader refuses others.
PLAN_VERSION = 1
#: Conduits that handles make while a model runs have numbers from here on; those of the plan have smaller ones.
FIRST_OPENED = 1 << 30


#: Of a field that the JSON form leaves out where it has its default: a plan may hold a hundred thousand conduits and
#: ports, and nearly all of them are plain.
_LEFT_OUT = {"left_out": True}


@dataclass(frozen=True)
class FilterSpec:
    """A built-in filter with its arguments."""

    name: str
    factor: float | None = None
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """A dimension of arrays that is cut into parts, one for each rank."""

    dimension: int
    parts: int


@dataclass(frozen=True)
class PortSpec:
    """A declared port.

    Attributes:
        copies: number of copies at the other end, if that is a multiplied instance, else 0.
        decomposition: how its arrays are spread over ranks; empty: rank 0 has all of them.
        shape: extents of the whole array in its first dimensions, as far as the scales give them.
        open: it is coupled by handles while the model runs.
    """

    name: str
    direction: str
    operator: str | None
    copies: int = field(default=0, metadata=_LEFT_OUT)
    decomposition: tuple[Cut, ...] = field(default=(), metadata=_LEFT_OUT)
    shape: tuple[int, ...] = field(default=(), metadata=_LEFT_OUT)
    open: bool = field(default=False, metadata=_LEFT_OUT)


@dataclass(frozen=True)
class PartsSpec:
    """Between which ranks a conduit carries parts of arrays; a side without cuts is one rank with the whole array."""

    sender: tuple[Cut, ...]
    sender_rank: int
    receiver: tuple[Cut, ...]
    receiver_rank: int


@dataclass(frozen=True)
class PoolSpec:
    """Which objects of a pool a reader chooses.

    Attributes:
        attributes: declarations of the attributes of the objects.
        select: the selector; empty: it chooses all.
        variables: what the names behind a `$` in the selector stand for.
        is_queue: the copies of the reader share the objects: each goes to one of them.
        may_lose: the writer does not wait for the reader: of what waits, the oldest is lost.
        is_tap: the reader is a tap, which the model does not know.
        reader_may_die: the run goes on if the reader dies: others get what it has not dealt with.
        writer_may_die: the run goes on if the writer dies: the conduit then ends behind what it has put.
        is_latest: the reader sees the newest object only.
    """

    attributes: str
    select: str = field(default="", metadata=_LEFT_OUT)
    variables: Mapping[str, str] = field(default_factory=dict)
    is_queue: bool = field(default=False, metadata=_LEFT_OUT)
    may_lose: bool = field(default=False, metadata=_LEFT_OUT)
    is_tap: bool = field(default=False, metadata=_LEFT_OUT)
    reader_may_die: bool = field(default=False, metadata=_LEFT_OUT)
    writer_may_die: bool = field(default=False, metadata=_LEFT_OUT)
    is_latest: bool = field(default=False, metadata=_LEFT_OUT)

    @property
    def noun(self) -> str:
        """What it is, for people."""
        return pool_noun(self.is_queue, self.may_lose, self.is_latest)


@dataclass(frozen=True)
class ScaleSpec:
    """How finely an instance resolves one dimension and how much of it it covers, in base units; 0: not given.

    `kind`: `time`, `space` or `other`.
    """

    name: str
    kind: str
    delta: float
    total: float
    steps: int


@dataclass(frozen=True)
class ConduitSpec:
    """A coupling at run time: one sender, one receiver, one queue.

    Attributes:
        sender_copy, receiver_copy: by which index the other end addresses a copy of a multiplied instance.
        traffic_class: what it is for (`run:class`); conduits of different classes never share a connection.
        protect: whether its bytes are encrypted and authenticated (`run:protect`); `None`: where they leave the host.
        is_state: it brings an instance the state of its own previous run, so the first does without.
        parts: between which ranks it carries parts of arrays; `None`: it carries whole messages.
        pool: which objects it carries; `None`: it carries messages.
    """

    id: int
    name: str
    sender: str
    sender_port: str
    receiver: str
    receiver_port: str
    capacity: int
    byte_budget: int
    sender_copy: int | None = field(default=None, metadata=_LEFT_OUT)
    receiver_copy: int | None = field(default=None, metadata=_LEFT_OUT)
    methods: tuple[str, ...] = field(default=(), metadata=_LEFT_OUT)
    sender_filters: tuple[FilterSpec, ...] = field(default=(), metadata=_LEFT_OUT)
    receiver_filters: tuple[FilterSpec, ...] = field(default=(), metadata=_LEFT_OUT)
    is_state: bool = field(default=False, metadata=_LEFT_OUT)
    parts: PartsSpec | None = field(default=None, metadata=_LEFT_OUT)
    traffic_class: str | None = field(default=None, metadata=_LEFT_OUT)
    protect: bool | None = field(default=None, metadata=_LEFT_OUT)
    pool: PoolSpec | None = field(default=None, metadata=_LEFT_OUT)


@dataclass(frozen=True)
class Build:
    """A command that makes a program, run once (at its site) before anything starts.

    Attributes:
        site: where; empty: at the only site there is.
    """

    command: str
    folder: str
    instances: tuple[str, ...]
    position: str
    site: str = field(default="", metadata=_LEFT_OUT)


@dataclass(frozen=True)
class NodeShare:
    """What an instance has of one node of its job.

    Attributes:
        node: counted from 0.
        ranks: how many ranks of an MPI program run there; 1 for every other program.
        cores: which of the cores that the job has there, counted from 0, one rank's after the other's; none: it only
            hands messages on.
        gpus: which of the GPUs, likewise.
        memory_bytes: 0: not known.
        takes_turns: the cores are also those of others, which wait while this one computes.
    """

    node: int
    ranks: int = field(default=1, metadata=_LEFT_OUT)
    cores: tuple[int, ...] = field(default=(), metadata=_LEFT_OUT)
    gpus: tuple[int, ...] = field(default=(), metadata=_LEFT_OUT)
    memory_bytes: int = field(default=0, metadata=_LEFT_OUT)
    takes_turns: bool = field(default=False, metadata=_LEFT_OUT)


@dataclass(frozen=True)
class PlannedInstance:
    """One instance to be: who it is in the model, and how it is started.

    Attributes:
        element: id in the model (`c` for the copy `c[3]`); of a filter that runs by itself, the filter's id.
        kind: `submodel`, `mapper` or `terminal`.
        command: program and arguments; the program is an absolute path.
        env: variables added to the environment.
        folder: its folder, relative to that of the run; it works in `work` below.
        host: the host it must run on, or `own` if it must not share a process.
        process: the process that it shares with the other instances of the same; `None`: it has its own.
        rank_of: the instance that this is a further rank of, started with it; `None`: it is started itself.
        program: the file that must be there before the start, as the model names it; `None` for what the runtime hosts.
        position: where the model says what to run, `file:line:column`.
        stage_in: files and globs, relative to the model's folder, copied to its working folder.
        stage_exclude: patterns, as in `.gitignore`, of files that it does not need at a site.
        stage_out: globs in its working folder that are results.
        image: the image of Apptainer or Singularity that it runs in, a word of its command; `None`: it runs in none.
        shares: what it has of each node of its job; none: everything runs on this machine.
        bind: what it is bound to: `none`, `core`, `numa`, or a list of CPUs; empty: to cores of its own, if any.
    """

    name: str
    element: str
    kind: str
    index: int
    count: int
    check_order: bool
    steps: int
    until: bool
    delta_s: float
    total_s: float
    params: Mapping[str, str]
    ports: tuple[PortSpec, ...]
    command: tuple[str, ...]
    env: Mapping[str, str]
    cores: int
    folder: str
    site: str
    host: str | None = None
    process: str | None = None
    rank_of: str | None = None
    program: str | None = None
    position: str = ""
    stage_in: tuple[str, ...] = ()
    stage_exclude: tuple[str, ...] = field(default=(), metadata=_LEFT_OUT)
    stage_out: tuple[str, ...] = ()
    scales: tuple[ScaleSpec, ...] = ()
    image: str | None = field(default=None, metadata=_LEFT_OUT)
    shares: tuple[NodeShare, ...] = field(default=(), metadata=_LEFT_OUT)
    bind: str = field(default="", metadata=_LEFT_OUT)

    @property
    def node(self) -> int:
        """The node of its job on which it is started."""
        return self.shares[0].node if self.shares else 0

    @property
    def ranks(self) -> int:
        """How many ranks it has at its site; 1 if it is no MPI program."""
        return sum(share.ranks for share in self.shares) or 1


@dataclass(frozen=True)
class Job:
    """Instances that start together at one site.

    Everything but the first three is given in a plan over sites only. Times count from the moment at which the run is
    launched.

    Attributes:
        nodes: how many it asks for.
        cores_per_node, memory_per_node_bytes, gpus_per_node: what it asks for on each of them; memory 0: not known.
        walltime_s: for how long it asks, without the time in which it waits for the jobs that it is got together
            with; 0: for as long as its queue gives by default.
        starts_s, ends_s: when it is expected to run.
        group: jobs of one group have to run at the same time.
        after: jobs whose instances end before those of this one begin.
        cost: what it is expected to cost.
    """

    name: str
    site: str
    instances: tuple[str, ...]
    nodes: int = field(default=0, metadata=_LEFT_OUT)
    cores_per_node: int = field(default=0, metadata=_LEFT_OUT)
    memory_per_node_bytes: int = field(default=0, metadata=_LEFT_OUT)
    gpus_per_node: int = field(default=0, metadata=_LEFT_OUT)
    walltime_s: float = field(default=0.0, metadata=_LEFT_OUT)
    starts_s: float = field(default=0.0, metadata=_LEFT_OUT)
    ends_s: float = field(default=0.0, metadata=_LEFT_OUT)
    group: str = field(default="", metadata=_LEFT_OUT)
    after: tuple[str, ...] = field(default=(), metadata=_LEFT_OUT)
    cost: float = field(default=0.0, metadata=_LEFT_OUT)

    @property
    def cores(self) -> int:
        """The cores of all its nodes; 0: not known."""
        return self.nodes * self.cores_per_node


@dataclass(frozen=True)
class PlannedRelay:
    """A relay that the run needs.

    Attributes:
        site: where it serves; the site that the run is launched from has one, too, if others are reached over ssh.
        host: where it runs, as the compute nodes name it; `None`: the ssh destination (or this machine).
        port: that it listens on for its site; 0: any free one.
        listen: where relays of other sites can dial in; `None`: nowhere.
        through_ssh: it can be reached through the ssh connection to its site.
    """

    site: str
    host: str | None
    port: int
    listen: str | None
    through_ssh: bool


@dataclass(frozen=True)
class PlannedPath:
    """A path between two relays.

    Attributes:
        between: the site whose relay dials, and the one that is dialled.
        address: what is dialled; `None`: the ssh connection to the second site is gone through.
        streams: `None`: as many as turn out to be best.
        latency_s: one way [s].
        bandwidth: bytes per second.
        buffer_bytes: what is on the way when the path is full (twice the latency times the bandwidth).
    """

    between: tuple[str, str]
    address: str | None
    streams: int | None
    encrypt: bool
    latency_s: float
    bandwidth: float
    buffer_bytes: int


@dataclass(frozen=True)
class Route:
    """How the messages of a conduit between two sites go.

    Attributes:
        sites: from the sender's to the receiver's, over those whose relays forward.
        method: `tcp` (straight from one instance to the other) or `relay`.
        latency_s, bandwidth: of the whole way [s, bytes per second].
        messages, bytes: expected in all; `None`: not known.
    """

    conduit: int
    sites: tuple[str, ...]
    method: str
    latency_s: float
    bandwidth: float
    messages: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class StagedFile:
    """What a site needs of the model's folder.

    Attributes:
        path: file, folder or glob, relative to the model's folder.
        instances: what needs it.
        exclude: patterns, as in `.gitignore`, of files in it that none of them needs.
    """

    site: str
    path: str
    instances: tuple[str, ...]
    exclude: tuple[str, ...] = field(default=(), metadata=_LEFT_OUT)


@dataclass(frozen=True)
class InstanceTimes:
    """When an instance is expected to begin and end, from the launch, and for how long it computes [s]."""

    begins_s: float
    ends_s: float
    busy_s: float


@dataclass(frozen=True)
class Expectation:
    """What a plan over sites is expected to take.

    Attributes:
        makespan_s: from the launch, waiting in queues included, to the end of the last instance.
        at_least_s: no placement that satisfies sites and wishes is faster; equal to `makespan_s`: this one is best.
        is_complete: the prediction went to the end of the model; else the times are those of its beginning.
        cost: of all jobs.
        unknown: instances whose run time nobody has given; it counts as none.
        guessed: pairs of sites of whose link nothing is known.
    """

    makespan_s: float
    at_least_s: float
    is_complete: bool
    cost: float
    instances: Mapping[str, InstanceTimes]
    unknown: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Where, how and wired how a model runs.

    Attributes:
        model: id of the model.
        model_path: the document, absolute.
        model_folder: folder that programs and files are relative to, absolute. At a site that is reached by ssh, words
            of commands that begin with it name what is staged there.
        sites, links: what the plan uses of the catalogue of sites; none: everything runs on this machine.
        relays, paths, routes: how messages go between sites.
        stage: what is put where before the start.
        expected: times and cost of a plan over sites.
    """

    model: str
    model_path: str
    model_folder: str
    jobs: tuple[Job, ...]
    builds: tuple[Build, ...]
    instances: tuple[PlannedInstance, ...]
    conduits: tuple[ConduitSpec, ...]
    model_version: str | None = None
    version: int = PLAN_VERSION
    sites: tuple[Site, ...] = field(default=(), metadata=_LEFT_OUT)
    links: tuple[Link, ...] = field(default=(), metadata=_LEFT_OUT)
    relays: tuple[PlannedRelay, ...] = field(default=(), metadata=_LEFT_OUT)
    paths: tuple[PlannedPath, ...] = field(default=(), metadata=_LEFT_OUT)
    routes: tuple[Route, ...] = field(default=(), metadata=_LEFT_OUT)
    stage: tuple[StagedFile, ...] = field(default=(), metadata=_LEFT_OUT)
    expected: Expectation | None = field(default=None, metadata=_LEFT_OUT)

    @cached_property
    def by_name(self) -> Mapping[str, PlannedInstance]:
        """The instances by name."""
        return {instance.name: instance for instance in self.instances}

    @cached_property
    def by_conduit(self) -> Mapping[int, ConduitSpec]:
        """The conduits by id."""
        return {conduit.id: conduit for conduit in self.conduits}

    @cached_property
    def may_die(self) -> frozenset[str]:
        """The instances without which the run goes on if they die (`run:on-death`)."""
        return frozenset(each.receiver for each in self.conduits if each.pool is not None and each.pool.reader_may_die)

    @cached_property
    def _conduits_of(self) -> Mapping[str, list[ConduitSpec]]:
        found: dict[str, list[ConduitSpec]] = {instance.name: [] for instance in self.instances}
        for conduit in self.conduits:
            found[conduit.sender].append(conduit)
            if conduit.receiver != conduit.sender:
                found[conduit.receiver].append(conduit)
        return found

    def with_opened(self, conduits: Iterable[ConduitSpec]) -> Plan:
        """Return the plan with the conduits that handles and taps have made while the model ran."""
        opened = tuple(conduits)
        return dataclasses.replace(self, conduits=self.conduits + opened) if opened else self

    def spec(self, name: str) -> dict[str, Any]:
        """Return what the coordinator tells an instance about itself: the native `InstanceSpec` as plain values."""
        instance = self.by_name[name]
        spec = {key: getattr(instance, key) for key in _SPEC_FIELDS}
        spec["params"] = dict(instance.params)
        spec["scales"] = [plain_value(scale) for scale in instance.scales]
        spec["ports"] = [plain_value(port) for port in instance.ports]
        spec["conduits"] = [plain_value(conduit) for conduit in self._conduits_of[name]]
        return spec

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        plain: dict[str, Any] = plain_value(self)
        return plain

    @cached_property
    def text(self) -> str:
        """What `plan.json` holds of it in the folder of a run: the text that it was read from, or `to_text`."""
        return self.to_text()

    def let_go_of_text(self) -> None:
        """Forget `text`, which of a plan with very many conduits is large; it is made again if somebody asks."""
        vars(self).pop("text", None)

    def to_text(self) -> str:
        """Return the plan as the text of `plan.json`, with a line for each instance and each conduit; the same plan
        always gives the same text."""
        encode = json.JSONEncoder(ensure_ascii=False).encode

        def text(value: Any) -> str:
            if isinstance(value, list) and value:
                return "[\n" + ",\n".join(f"  {encode(each)}" for each in value) + "\n ]"
            return encode(value)

        return "{\n" + ",\n".join(f" {encode(key)}: {text(value)}" for key, value in self.as_json().items()) + "\n}\n"


_SPEC_FIELDS = ("name", "kind", "index", "count", "check_order", "steps", "until", "delta_s", "total_s")


def plan_from_text(text: str) -> Plan:
    """Return the plan that a `plan.json` holds.

    Raises:
        PlanFormatError: it is not JSON, of another version, lacks a field, or leads out of the folder of a run.
    """
    with no_collection():
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanFormatError(f"the plan is not JSON: {error}") from None
        if not isinstance(plain, dict) or plain.get("version") != PLAN_VERSION:
            found = plain.get("version") if isinstance(plain, dict) else None
            raise PlanFormatError(
                f"the plan has version {found}; this program reads version {PLAN_VERSION}: make it again with xmml plan"
            )
        made = read(Plan, plain, "plan")
        del plain
    _check_paths(made)
    vars(made)["text"] = text
    return made


def opened_conduit(plain: object) -> ConduitSpec:
    """Return a conduit that a handle or a tap has made while the model ran, as the events of the run tell it.

    Raises:
        PlanFormatError: a field is missing, unknown, or of another type.
    """
    return read(ConduitSpec, plain, "conduit")


def _check_paths(plan: Plan) -> None:
    """Check that what names files and folders of a run stays below its folder.

    Raises:
        PlanFormatError: it leads elsewhere.
    """
    paths = [*(site.name for site in plan.sites), *(job.name for job in plan.jobs)]
    for instance in plan.instances:
        paths += (instance.name, instance.folder, instance.process or "", *instance.stage_out)
    for path in paths:
        if path.startswith("/") or (".." in path and ".." in path.split("/")):
            raise PlanFormatError(f"the plan names {path!a}, which leads out of the folder of a run")
