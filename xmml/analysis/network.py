"""The model as a Kahn process network: processes that walk their loops, and first-in-first-out channels between them.

A multiplied instance becomes as many processes as it has copies, a coupling as many channels as it has pairs of copies.
What the network does is determinate: the k-th message received is the k-th sent, whoever happens to be faster (Kahn,
"The semantics of a simple language for parallel programming", 1974).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from xmml.analysis.filter_counts import NO_FILTERS, FilterCounts, filter_counts
from xmml.model import Coupling, Instance, Kind, Model, Operator

#: Iterations that stand for a loop whose length only the program knows, where some number must be taken.
UNKNOWN_STEPS = 2


@dataclass(frozen=True, slots=True)
class Channel:
    """A way of messages from one process to another.

    Attributes:
        index: its place in `Network.channels`.
        coupling: the place of its coupling in `Model.couplings`.
        name: `a.o -> b.i`; copies with their index, `c[3].o -> m.i`.
        sender, receiver: places of the processes in `Network.processes`.
        sender_port, receiver_port: ids of the ports.
        sender_operator, receiver_operator: `None` at a mapper or terminal.
        filters: how many messages come out of its filters.
        size_bytes: size of a message as it is sent, if known.
        capacity: messages it may hold, if the model fixes that.
        is_state: it carries the state of an instance from one run to its next (a coupling Of to finit of an instance
            with itself between ports of type `state`), so the first run does without it.
    """

    index: int
    coupling: int
    name: str
    sender: int
    receiver: int
    sender_port: str
    receiver_port: str
    sender_operator: Operator | None
    receiver_operator: Operator | None
    filters: FilterCounts
    size_bytes: float | None
    capacity: int | None
    is_state: bool


@dataclass(frozen=True, slots=True)
class Process:
    """One copy of an instance: what it does in a run, in this order, with which channels.

    A submodel receives from `finit`, then for every iteration sends to `Oi` and receives from `S` and `B`, then sends
    to `Of`. A mapper or terminal receives from all of `finit`, then sends to all of `Of`, and has no iterations: a
    firing is a run.

    Attributes:
        index: its place in `Network.processes`.
        name: id of the instance, with the index of the copy if there are several.
        instance: id of the instance.
        steps: iterations per run, at least 1; for a program that decides by itself (`until`) the most.
        until: the program decides when to stop.
        has_bound: whether `steps` is a bound, not just a stand-in for an unknown number.
        init: whether it is marked to start if the start is ambiguous.
        stateful: whether its state survives from run to run.
        finit, oi, s, b, of: channels by operator; those of a mapper or terminal are in `finit` and `of`.
        fires: messages a source terminal sends in all; `None` for one that sends as many as are asked for.
        runtime_ns: how long one run takes, without waiting; 0 if not known.
        cores: how many cores it occupies.
    """

    index: int
    name: str
    instance: str
    kind: Kind
    steps: int
    until: bool
    has_bound: bool
    init: bool
    stateful: bool
    finit: tuple[int, ...]
    oi: tuple[int, ...]
    s: tuple[int, ...]
    b: tuple[int, ...]
    of: tuple[int, ...]
    fires: int | None
    runtime_ns: int
    cores: int

    @property
    def is_submodel(self) -> bool:
        """Whether it has operators."""
        return self.kind == "submodel"

    @property
    def is_source(self) -> bool:
        """Whether it is a terminal (or mapper) that nothing is sent to."""
        return self.kind != "submodel" and not self.finit

    @property
    def inputs(self) -> tuple[int, ...]:
        """All channels that lead to it."""
        return self.finit + self.s + self.b

    @property
    def outputs(self) -> tuple[int, ...]:
        """All channels that leave it."""
        return self.oi + self.of


@dataclass(frozen=True, slots=True)
class Network:
    """The processes and channels of a model.

    Attributes:
        by_instance: the processes of each instance, in the order of the copies.
        by_coupling: the channels of each coupling of the model.
    """

    model: Model
    processes: tuple[Process, ...]
    channels: tuple[Channel, ...]
    by_instance: Mapping[str, tuple[int, ...]]
    by_coupling: tuple[tuple[int, ...], ...]


def network(model: Model, fires: Mapping[str, int | None] | None = None) -> Network:
    """Return the network of a model. Linear in instances and channels.

    Args:
        model: the effective model, without errors.
        fires: by instance of a source terminal, how many messages its data holds (`None`: as many as are asked for);
            a source not named here sends one, or as many as are asked for if it has `repeat="yes"`.

    A dynamic multiplicity counts as one copy.

    Raises:
        FilterCountError: a built-in filter does not exist or cannot have its arguments.
    """
    by_instance: dict[str, tuple[int, ...]] = {}
    names: list[str] = []
    for instance in model.instances.values():
        own = copy_names(instance)
        by_instance[instance.id] = tuple(range(len(names), len(names) + len(own)))
        names += own
    operators: list[dict[str, list[int]]] = [{} for _ in names]
    channels: list[Channel] = []
    by_coupling: list[tuple[int, ...]] = []
    for number, coupling in enumerate(model.couplings):
        made = _channels(model, number, coupling, len(channels), by_instance, names)
        for channel in made:
            operators[channel.sender].setdefault(channel.sender_operator or "Of", []).append(channel.index)
            operators[channel.receiver].setdefault(channel.receiver_operator or "finit", []).append(channel.index)
        channels += made
        by_coupling.append(tuple(channel.index for channel in made))
    processes = tuple(
        _process(index, names[index], instance, operators[index], fires or {})
        for instance in model.instances.values()
        for index in by_instance[instance.id]
    )
    return Network(model, processes, tuple(channels), MappingProxyType(by_instance), tuple(by_coupling))


def copy_names(instance: Instance) -> list[str]:
    """Return the names of the copies of an instance; one that is not multiplied keeps its id.

    A dynamic multiplicity is one symbolic copy, `c[*]`.
    """
    if instance.multiplicity == 1:
        return [instance.id]
    if instance.multiplicity == "dynamic":
        return [f"{instance.id}[*]"]
    return [f"{instance.id}[{index}]" for index in range(instance.multiplicity)]


def _channels(
    model: Model,
    number: int,
    coupling: Coupling,
    first: int,
    by_instance: Mapping[str, tuple[int, ...]],
    names: list[str],
) -> list[Channel]:
    sender, receiver = model.port(coupling.sender), model.port(coupling.receiver)
    from_submodel = model.instances[coupling.sender.instance].kind == "submodel"
    to_submodel = model.instances[coupling.receiver.instance].kind == "submodel"
    counts = NO_FILTERS
    if coupling.filters:
        ends = (model.instances[end.instance].timescale for end in (coupling.sender, coupling.receiver))
        time_scales = [scale.id for scale in ends if scale is not None]
        instance = model.instances[coupling.sender.instance]
        per_run = _steps(instance) if sender.operator == "Oi" and from_submodel else 1
        counts = filter_counts(coupling.filters, time_scales, per_run)
    is_state = model.carries_state(coupling)
    pairs = [
        (one, other)
        for one in by_instance[coupling.sender.instance]
        for other in by_instance[coupling.receiver.instance]
    ]
    return [
        Channel(
            index=first + place,
            coupling=number,
            name=f"{names[one]}.{coupling.sender.port} -> {names[other]}.{coupling.receiver.port}",
            sender=one,
            receiver=other,
            sender_port=coupling.sender.port,
            receiver_port=coupling.receiver.port,
            sender_operator=sender.operator if from_submodel else None,
            receiver_operator=receiver.operator if to_submodel else None,
            filters=counts,
            size_bytes=coupling.size_bytes,
            capacity=coupling.capacity,
            is_state=is_state,
        )
        for place, (one, other) in enumerate(pairs)
    ]


def _process(
    index: int, name: str, instance: Instance, operators: Mapping[str, list[int]], fires: Mapping[str, int | None]
) -> Process:
    implementation = instance.definition.implementation
    runtime_s = implementation.runtime_s if implementation and implementation.runtime_s else 0.0
    runtime_ns = round(Fraction(runtime_s) * 1_000_000_000)  # exact also where a float would be infinite
    sends_once: int | None = None if instance.params.get("repeat", "").lower() in ("yes", "true", "1") else 1
    return Process(
        index=index,
        name=name,
        instance=instance.id,
        kind=instance.kind,
        steps=_steps(instance),
        until=instance.until,
        has_bound=not instance.until or instance.steps > 0,
        init=instance.init,
        stateful=instance.stateful in ("yes", "optional"),
        finit=tuple(operators.get("finit", ())),
        oi=tuple(operators.get("Oi", ())),
        s=tuple(operators.get("S", ())),
        b=tuple(operators.get("B", ())),
        of=tuple(operators.get("Of", ())),
        fires=fires.get(instance.id, sends_once) if instance.kind == "terminal" else 1,
        runtime_ns=runtime_ns,
        cores=_cores(instance),
    )


def _steps(instance: Instance) -> int:
    if instance.until and instance.steps == 0:
        return UNKNOWN_STEPS
    return max(1, instance.steps)


def _cores(instance: Instance) -> int:
    """Return the cores an instance occupies: MPI ranks times threads, or what the model states if neither is given."""
    implementation = instance.definition.implementation
    if implementation is None:
        return 1
    run = implementation.run
    if run.mpi is not None or run.threads is not None:
        return (run.mpi or 1) * (run.threads or 1)
    return implementation.cores or 1
