"""From couplings to conduits: one per pair of copies, cut in two wherever a filter runs in a process of its own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from xmml.analysis.capacity import Capacities
from xmml.late_dataclass import dataclass
from xmml.model import AppliedFilter, Coupling, Model
from xmml.problems import Problem
from xmml.selectors import values_of
from xmml_planner.copies import copy_names
from xmml_planner.execution_plan import ConduitSpec, FilterSpec, PoolSpec, PortSpec
from xmml_planner.filter_placement import WIRE, cut, wire_of
from xmml_planner.problems import problem_at
from xmml_planner.ranks import cuts, pairs, parts, rank_name

#: The built-in filter that lets a message go when a run of the sender ends.
END_OF_RUN = "last"

#: The capacity of a pool, by which its readers know how often to acknowledge; its limit is that of its bytes.
POOL_CAPACITY = 64

#: The capacity of a conduit that shows the newest object only, and its bytes: one object always fits.
LATEST_CAPACITY, LATEST_BYTES = 1, 0

#: The ports of a filter that runs by itself.
FILTER_PORTS = (PortSpec("in", "in", None), PortSpec("out", "out", None))


@dataclass(frozen=True)
class FilterCost:
    """What a built-in filter makes of its input: bytes out per byte in, and the most messages one input can lead to."""

    size_ratio: float
    most_per_input: int


class FilterRefused(Exception):
    """A built-in filter that does not exist, or cannot have these arguments; the text says why."""


#: Returns the cost of a built-in filter, or raises `FilterRefused`.
FilterTable = Callable[[FilterSpec], FilterCost]


@dataclass(frozen=True)
class OwnFilter:
    """A filter that runs as an instance of its own, between two conduits."""

    name: str
    applied: AppliedFilter


@dataclass(frozen=True)
class _End:
    """One end of a conduit; `copy` is the index by which the partner addresses it, also through filters between the
    two."""

    instance: str
    port: str
    copy: int | None = None

    def at_rank(self, rank: int) -> _End:
        return dataclasses.replace(self, instance=rank_name(self.instance, rank)) if rank else self

    def __str__(self) -> str:
        return f"{self.instance}.{self.port}"


def wire(
    model: Model, filter_cost: FilterTable, room: Capacities
) -> tuple[tuple[ConduitSpec, ...], tuple[OwnFilter, ...]]:
    """Return the conduits of a model, and the filters between them that run by themselves.

    Args:
        room: what every channel of the model's network may hold; there is one for each pair of copies.
    """
    conduits: list[ConduitSpec] = []
    own_filters: list[OwnFilter] = []
    taken = {name for instance in model.instances.values() for name in copy_names(instance)}
    rooms = (_Room(*each) for each in zip(room.chosen, room.byte_budget, strict=True))
    for coupling in model.couplings:
        spread = cuts(model.instances[coupling.sender.instance], model.port(coupling.sender))
        wanted = cuts(model.instances[coupling.receiver.instance], model.port(coupling.receiver))
        ranks = pairs(spread, wanted)
        for sender, receiver in _pairs(model, coupling):
            holds = next(rooms)
            segments, between = _segments(coupling.filters)
            ends = [sender]
            for number, applied in enumerate(between):
                name = _free_name(f"{sender}-{applied.definition.id}-{receiver}", taken)
                own_filters.append(OwnFilter(name, applied))
                first, last = number == 0, number == len(between) - 1
                ends += [
                    _End(name, "in", receiver.copy if first else None),
                    _End(name, "out", sender.copy if last else None),
                ]
            ends.append(receiver)
            carries_state = model.carries_state(coupling)
            for number, filters in enumerate(segments):
                reaches_receiver = number == len(between)
                for pair in ranks:
                    sends, receives = ends[2 * number].at_rank(pair[0]), ends[2 * number + 1].at_rank(pair[1])
                    conduit = _conduit(len(conduits), sends, receives, coupling, filters, filter_cost, holds)
                    conduits.append(
                        dataclasses.replace(
                            conduit, is_state=carries_state and reaches_receiver, parts=parts(spread, wanted, pair)
                        )
                    )
    conduits += _pool_conduits(model, first=len(conduits))
    return tuple(conduits), tuple(own_filters)


def _pool_conduits(model: Model, first: int) -> Iterator[ConduitSpec]:
    """Yield a conduit for each writer and each reader of each pool, numbered from `first`; between ranks that arrays
    are spread over, for each pair that can have elements in common."""
    number = first
    for pool in model.pools:
        writer, reader = model.instances[pool.sender.instance], model.instances[pool.receiver.instance]
        copies = copy_names(reader)
        spread, wanted = cuts(writer, model.port(pool.sender)), cuts(reader, model.port(pool.receiver))
        select = [
            PoolSpec(
                pool.attributes,
                pool.select,
                values_of(pool.select, reader, at),
                is_queue=pool.is_queue,
                may_lose=pool.may_lose,
                reader_may_die=reader.may_die,
                writer_may_die=writer.may_die,
                is_latest=pool.is_latest,
            )
            for at in range(len(copies))
        ]
        for sender in copy_names(writer):
            for receiver, spec in zip(copies, select, strict=True):
                for pair in pairs(spread, wanted):
                    writes, reads = rank_name(sender, pair[0]), rank_name(receiver, pair[1])
                    yield ConduitSpec(
                        id=number,
                        name=f"{writes}.{pool.sender.port} -> {reads}.{pool.receiver.port}",
                        sender=writes,
                        sender_port=pool.sender.port,
                        receiver=reads,
                        receiver_port=pool.receiver.port,
                        capacity=LATEST_CAPACITY if pool.is_latest else POOL_CAPACITY,
                        byte_budget=LATEST_BYTES if pool.is_latest else pool.limit_bytes,
                        methods=pool.methods,
                        protect=pool.protect,
                        pool=spec,
                        parts=parts(spread, wanted, pair),
                    )
                    number += 1


def check_filters(model: Model, filter_cost: FilterTable) -> list[Problem]:
    """Return a problem for each applied built-in filter that does not exist, cannot have its arguments, or cannot know
    when a run ends where it stands."""
    problems = []
    for coupling in model.couplings:
        own: AppliedFilter | None = None
        for applied in coupling.filters:
            if applied.definition.builtin is None:
                own = applied
                continue
            if applied.definition.builtin == END_OF_RUN and own is not None:
                problems.append(
                    problem_at(
                        applied.position or coupling.position,
                        f'{coupling}: the filter "{applied.definition.id}" stands behind "{own.definition.id}", which '
                        f"runs by itself, and so cannot know when a run of {coupling.sender.instance} ends",
                        f'apply "{applied.definition.id}" first',
                    )
                )
            try:
                filter_cost(_spec(applied, applied.definition.builtin))
            except FilterRefused as error:
                problems.append(problem_at(applied.position or coupling.position, f"{coupling}: {error}"))
    return problems


def _spec(applied: AppliedFilter, builtin: str) -> FilterSpec:
    return FilterSpec(builtin, applied.factor, dict(applied.params))


def _pairs(model: Model, coupling: Coupling) -> list[tuple[_End, _End]]:
    """Return the ends of the conduits of a coupling: several where one end is a multiplied instance."""

    def ends(instance: str, port: str) -> list[_End]:
        names = copy_names(model.instances[instance])
        if not model.instances[instance].is_multiplied:
            return [_End(names[0], port)]
        return [_End(name, port, index) for index, name in enumerate(names)]

    return [
        (sender, receiver)
        for sender in ends(coupling.sender.instance, coupling.sender.port)
        for receiver in ends(coupling.receiver.instance, coupling.receiver.port)
    ]


def _segments(filters: Sequence[AppliedFilter]) -> tuple[list[list[FilterSpec]], list[AppliedFilter]]:
    """Split a chain at the filters that run by themselves: n of them leave n + 1 runs of built-in ones."""
    segments: list[list[FilterSpec]] = [[]]
    between = []
    for applied in filters:
        builtin = applied.definition.builtin
        if builtin is None:
            between.append(applied)
            segments.append([])
        else:
            segments[-1].append(_spec(applied, builtin))
    return segments, between


@dataclass(frozen=True)
class _Room:
    """Messages and bytes that a conduit may hold."""

    messages: int
    bytes: int


def _conduit(
    number: int,
    sender: _End,
    receiver: _End,
    coupling: Coupling,
    filters: Sequence[FilterSpec],
    filter_cost: FilterTable,
    room: _Room,
) -> ConduitSpec:
    wire = wire_of(filters, coupling.compress)
    filters = [each for each in filters if each.name not in WIRE]
    costs = [filter_cost(each) for each in filters]
    # Only the sender knows when its run ends.
    needs_sender = max((place for place, each in enumerate(filters, 1) if each.name == END_OF_RUN), default=0)
    at_sender = max(cut([cost.size_ratio for cost in costs]), needs_sender)
    burst = math.prod(max(1, cost.most_per_input) for cost in costs[:at_sender])
    return ConduitSpec(
        id=number,
        name=f"{sender} -> {receiver}",
        sender=sender.instance,
        sender_port=sender.port,
        receiver=receiver.instance,
        receiver_port=receiver.port,
        sender_copy=sender.copy,
        receiver_copy=receiver.copy,
        capacity=coupling.capacity or max(room.messages, burst),
        byte_budget=room.bytes,
        methods=coupling.methods,
        traffic_class=coupling.traffic_class,
        protect=coupling.protect,
        sender_filters=(*filters[:at_sender], *wire.sender),
        receiver_filters=(*wire.receiver, *filters[at_sender:]),
    )


def _free_name(name: str, taken: set[str]) -> str:
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}-{number}", number + 1
    taken.add(candidate)
    return candidate


def with_copies(
    ports: Sequence[PortSpec], instance: str, copies: Mapping[tuple[str, str], int]
) -> tuple[PortSpec, ...]:
    """Return the ports with the number of copies at their other ends filled in."""
    return tuple(dataclasses.replace(port, copies=copies.get((instance, port.name), 0)) for port in ports)
