"""The effective model: what a document says once defaults, inheritance, parameters and formulas are worked out.

Every value is immutable; the mappings are read-only views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar

from xmml.builtins import FILTERS
from xmml.late_dataclass import dataclass
from xmml.positions import Position
from xmml.run_options import Decomposition, RunOptions
from xmml.scales import Scale

if TYPE_CHECKING:
    import networkx

    from xmml.analysis.analysis import Analysis
    from xmml.check import CheckResult
    from xmml.document import Document
    from xmml.graphs.views import ViewName
    from xmml.problems import Problem

#: What may wait for a reader of a pool, unless `run:limit` says otherwise.
DEFAULT_LIMIT_BYTES = 64_000_000

Kind = Literal["submodel", "mapper", "terminal"]
Direction = Literal["in", "out"]
Operator = Literal["finit", "Oi", "S", "B", "Of"]
Optional3 = Literal["yes", "no", "optional"]

#: The operators in the order of the submodel execution loop, with the direction of their ports.
OPERATORS: Mapping[str, Direction] = MappingProxyType({"finit": "in", "Oi": "out", "S": "in", "B": "in", "Of": "out"})

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def read_only(mapping: Mapping[_Key, _Value]) -> Mapping[_Key, _Value]:
    """Return a read-only view of a copy of the mapping."""
    return MappingProxyType(dict(mapping))


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Datatype:
    """A type of message, or of the payload of an object.

    Attributes:
        size_estimate: a formula (in bits) in the scales and parameters of who sends it.
        attributes: declarations of the attributes of objects (`run:attributes`), besides those of what it extends.
    """

    id: str
    class_: str | None = None
    version: str | None = None
    size_estimate: str | None = None
    extends: str | None = None
    attributes: str | None = None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Port:
    """A place where messages leave or reach a submodel, mapper or terminal.

    Attributes:
        decomposition: how its arrays are spread over the ranks of an MPI program; empty: rank 0 has all of them.
        open: it is coupled by handles while the model runs, not in the model.
    """

    id: str
    direction: Direction
    operator: Operator | None = None
    datatype: str | None = None
    type: Literal["state", "normal"] = "normal"
    decomposition: Decomposition = ()
    open: bool = False
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Interpreter:
    """The program that a script is started with."""

    name: str | None = None
    path: str | None = None
    version: str | None = None
    flags: str | None = None


@dataclass(frozen=True)
class Platform:
    """An operating system that the implementation runs on."""

    os: str
    arch: str | None = None
    preferred: bool = False


@dataclass(frozen=True)
class Library:
    """A library that the implementation needs."""

    name: str
    path: str | None = None


@dataclass(frozen=True)
class Code:
    """Source code written in the model.

    Attributes:
        part: where it belongs: `header` or an operator.
        position: that of its first character.
    """

    language: str
    text: str
    part: str | None = None
    version: str | None = None
    compiler: str | None = None
    compilerflags: str | None = None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Implementation:
    """The program behind a definition."""

    path: str | None = None
    language: str | None = None
    cores: int | None = None
    memory_bytes: float | None = None
    runtime_s: float | None = None
    size_bytes: float | None = None
    interpreters: tuple[Interpreter, ...] = ()
    platforms: tuple[Platform, ...] = ()
    libraries: tuple[Library, ...] = ()
    codes: tuple[Code, ...] = ()
    run: RunOptions = field(default_factory=RunOptions)
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Definition:
    """A submodel, mapper or terminal that instances are made of."""

    id: str
    kind: Kind
    class_: str | None = None
    type: str | None = None
    name: str | None = None
    version: str | None = None
    description: str = ""
    init: bool = False
    stateful: Optional3 = "no"
    interactive: Optional3 = "no"
    timescale: Scale | None = None
    spacescales: tuple[Scale, ...] = ()
    otherscales: tuple[Scale, ...] = ()
    ports: Mapping[str, Port] = field(default_factory=lambda: MappingProxyType({}))
    params: Mapping[str, str] = field(default_factory=_nothing)
    implementation: Implementation | None = None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Filter:
    """A change of the messages of a coupling, one after the other."""

    id: str
    type: Literal["interpolation", "reduction", "converter"]
    class_: str | None = None
    version: str | None = None
    datatype_in: str | None = None
    datatype_out: str | None = None
    dimension: str | None = None
    factor: str | None = None
    params: Mapping[str, str] = field(default_factory=_nothing)
    implementation: Implementation | None = None
    description: str = ""
    position: Position | None = field(default=None, compare=False)

    @property
    def builtin(self) -> str | None:
        """The name in the list of built-in filters, that of the class or else of the filter itself.

        `None` for a program's own (`module:function`, `a.b.C`), and for one that says nothing of what it does.
        """
        if self.class_ is None and self.id not in FILTERS:
            return None
        name = self.class_ if self.class_ is not None else self.id
        own = ":" in name or "." in name or (self.implementation is not None and self.implementation.path is not None)
        return None if own else name


@dataclass(frozen=True)
class AppliedFilter:
    """A filter as one coupling applies it: with the value of its factor and its effective parameters."""

    definition: Filter
    factor: float | None = None
    params: Mapping[str, str] = field(default_factory=_nothing)
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Endpoint:
    """A port of an instance."""

    instance: str
    port: str

    def __str__(self) -> str:
        return f"{self.instance}.{self.port}"


@dataclass(frozen=True)
class Coupling:
    """A way from an out port to an in port.

    Attributes:
        size_bytes: size of one message, if the coupling gives it or the datatype's estimate can be worked out.
        capacity: messages that may wait, if the model fixes it (`run:capacity`).
        methods: how messages may travel, in this order (`run:methods`); empty: any.
        compress: how messages are compressed on the way, "lz4" or "zstd:<level>" (`run:compress`).
        traffic_class: `bulk` or `control` (`run:class`).
        protect: whether messages are encrypted and authenticated on their way (`run:protect`); `None`: where they leave
            the host.
    """

    name: str | None
    sender: Endpoint
    receiver: Endpoint
    size_bytes: float | None = None
    interactive: Optional3 = "no"
    filters: tuple[AppliedFilter, ...] = ()
    capacity: int | None = None
    methods: tuple[str, ...] = ()
    compress: str | None = None
    traffic_class: Literal["bulk", "control"] | None = None
    protect: bool | None = None
    position: Position | None = field(default=None, compare=False)

    @property
    def has_run_options(self) -> bool:
        """Whether it has attributes of the run extension."""
        given = (self.capacity, self.methods or None, self.compress, self.traffic_class, self.protect)
        return any(each is not None for each in given)

    def __str__(self) -> str:
        return f"{self.sender} -> {self.receiver}"


def pool_noun(is_queue: bool, may_lose: bool, is_latest: bool) -> str:
    """Return what a pool of this kind is called."""
    if is_latest:
        return "latest"
    return ("queue" if is_queue else "pool") + (" that may lose objects" if may_lose else "")


@dataclass(frozen=True)
class PoolCoupling:
    """A way for objects from an out port to an in port, whose instance chooses among them (`run:kind="pool"`), or sees
    the newest of them only (`run:kind="latest"`).

    Every copy of the sender is coupled to every copy of the receiver. The analyses do not count what passes.

    Attributes:
        attributes: declarations of the attributes of the objects, those of extended datatypes first.
        select: which objects are chosen (`run:select`); empty: all.
        is_queue: an object that is chosen goes to one copy of the receiver (`run:share`); else to each.
        may_lose: the sender does not wait for a receiver that is slow; what waited longest is lost (`run:loss`).
        is_latest: a copy of the receiver gets the newest object that it has not had; the sender does not wait for it.
        limit_bytes: how much may wait for one copy of the receiver, or for all that share, from one copy of the sender
            (`run:limit`).
        size_bytes, methods, protect: as of `Coupling`, of one object.
    """

    name: str | None
    sender: Endpoint
    receiver: Endpoint
    attributes: str = ""
    select: str = ""
    is_queue: bool = False
    may_lose: bool = False
    is_latest: bool = False
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    size_bytes: float | None = None
    methods: tuple[str, ...] = ()
    protect: bool | None = None
    position: Position | None = field(default=None, compare=False)

    @property
    def noun(self) -> str:
        """What it is, for people: "pool", "queue", "pool that may lose objects", "latest"."""
        return pool_noun(self.is_queue, self.may_lose, self.is_latest)

    def __str__(self) -> str:
        return f"{self.sender} -> {self.receiver}"


@dataclass(frozen=True)
class Instance:
    """One part of the running model (or several equal ones, if it has a multiplicity).

    Attributes:
        params: the parameters of every copy, as text.
        copy_params: what single copies have instead, by index.
        init: starts at initialisation if the start is ambiguous.
        domain: dotted path of the domain it computes, or `None`.
        steps: iterations per run, at least 1; with `until` the upper bound, 0 for none.
        until: the program decides when to stop.
        check_order: whether its calls must follow the order of the operators.
        may_die: the run goes on if one of its copies dies (`run:on-death`).
        host: the host it must run on, or `own`: it must not share a process.
        bind: what it is bound to: `none`, `core`, `numa`, or a list of CPUs; `None`: as the machine has room.
    """

    id: str
    kind: Kind
    definition: Definition
    timescale: Scale | None = None
    spacescales: tuple[Scale, ...] = ()
    otherscales: tuple[Scale, ...] = ()
    params: Mapping[str, str] = field(default_factory=_nothing)
    copy_params: Mapping[int, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    init: bool = False
    stateful: Optional3 = "no"
    interactive: Optional3 = "no"
    domain: str | None = None
    multiplicity: int | Literal["dynamic"] = 1
    steps: int = 1
    delta_s: float | None = None
    total_s: float | None = None
    until: bool = False
    check_order: bool = True
    may_die: bool = False
    host: str | None = None
    bind: str | None = None
    position: Position | None = field(default=None, compare=False)

    @property
    def ports(self) -> Mapping[str, Port]:
        """The ports of its definition."""
        return self.definition.ports

    @property
    def is_multiplied(self) -> bool:
        """Whether it has, or may have, several copies."""
        return self.multiplicity != 1

    @property
    def scales(self) -> tuple[Scale, ...]:
        """All its scales: time, space, others."""
        time = (self.timescale,) if self.timescale else ()
        return time + self.spacescales + self.otherscales


@dataclass(frozen=True)
class Model:
    """A whole model, ready to be analysed and planned.

    Attributes:
        path: the document it was read from; programs and files are named relative to its folder.
        couplings: those that carry messages.
        pools: those that carry objects.
        document: the document as written, for writing the model back.
        found: what the check found when the model was loaded (`xmml.load`).
    """

    id: str
    path: str
    name: str | None = None
    version: str | None = None
    xmml_version: str | None = None
    description: str = ""
    datatypes: Mapping[str, Datatype] = field(default_factory=lambda: MappingProxyType({}))
    filters: Mapping[str, Filter] = field(default_factory=lambda: MappingProxyType({}))
    definitions: Mapping[str, Definition] = field(default_factory=lambda: MappingProxyType({}))
    instances: Mapping[str, Instance] = field(default_factory=lambda: MappingProxyType({}))
    couplings: tuple[Coupling, ...] = ()
    pools: tuple[PoolCoupling, ...] = ()
    document: Document | None = field(default=None, compare=False, repr=False)
    found: tuple[Problem, ...] | None = field(default=None, compare=False, repr=False)

    def check(self) -> CheckResult:
        """Return the errors and warnings of this model, as `xmml check` shows them."""
        from xmml.notebook import check_loaded

        return check_loaded(self)

    def analyse(self, *, task_graph: bool = False) -> Analysis:
        """Return what this model will do; see `xmml.analysis.analyse.analyse`, which has more options."""
        from xmml.analysis.analyse import analyse

        return analyse(self, task_graph=task_graph)

    def graph(self, view: ViewName = "coupling") -> networkx.Graph:
        """Return a view of this model, with every attribute: `coupling` (a MultiDiGraph), `task`, `domain`, `scales`.

        Raises:
            ValueError: there is no such view.
        """
        from xmml.graphs.views import VIEWS, graph

        if view not in VIEWS:
            raise ValueError(f'there is no view "{view}"; there are {", ".join(VIEWS)}')
        return graph(self, view)

    def __repr__(self) -> str:
        from xmml.notebook import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from xmml.notebook import model_html

        return model_html(self)

    def port(self, end: Endpoint) -> Port:
        """Return the port that one end of a coupling names."""
        return self.instances[end.instance].ports[end.port]

    def carries_state(self, coupling: Coupling) -> bool:
        """Return whether a coupling brings an instance the state of its own previous run.

        That is one from Of to finit of the same instance, between ports of type `state`. The first run does without,
        and it has no part in how many runs there are.
        """
        if coupling.sender.instance != coupling.receiver.instance:
            return False
        sender, receiver = self.port(coupling.sender), self.port(coupling.receiver)
        return (sender.operator, receiver.operator) == ("Of", "finit") and sender.type == receiver.type == "state"
