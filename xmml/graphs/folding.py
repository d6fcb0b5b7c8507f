"""What of a coupling topology is drawn: boxes and lines, fewer than instances and couplings where there are many.

From a few dozen instances on, those of one definition in one domain that are coupled alike become one box; from a few
hundred on, all of one definition in one domain. Couplings between the same operators of the same boxes are one line.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from xmml.analysis.templates import Template, templates
from xmml.graphs.coupling_graph import operators
from xmml.late_dataclass import dataclass
from xmml.model import Coupling, Instance, Model, PoolCoupling

#: Up to so many couplings, each is a line of its own.
MOST_SINGLE_LINES = 60
#: Beyond so many instances, at least so many that are coupled alike become one box.
MOST_SINGLE_BOXES = 40
LEAST_ALIKE = 4
#: Beyond so many boxes or lines, all instances of one definition in one domain become one box.
MOST_BOXES = 300
MOST_LINES = 1200
#: Of so many boxes with the same only neighbour, the rank is staggered.
LEAST_STAGGERED = 8

_ALIKE = "Instances of one definition that are coupled alike are drawn as one box."
_ALL = "Instances of one definition in one domain are drawn as one box."


@dataclass(frozen=True)
class Box:
    """What is drawn as one node: an instance, or several of one definition in one domain."""

    name: str
    instances: tuple[Instance, ...]

    @property
    def instance(self) -> Instance:
        """The instance, or the first one."""
        return self.instances[0]


@dataclass(frozen=True)
class Line:
    """What is drawn as one edge: couplings between the same operators of the same boxes.

    Attributes:
        template: `None` if there are several, or one end is no submodel.
        carries_state: they bring instances the state of their own previous runs.
        is_pool: they carry objects that the receivers choose; operators have no part in that.
    """

    tail: str
    head: str
    operators: tuple[str | None, str | None]
    template: Template | None
    couplings: tuple[Coupling | PoolCoupling, ...]
    carries_state: bool = False
    is_pool: bool = False

    @property
    def is_latest(self) -> bool:
        """Whether the receivers see the newest objects only."""
        return self.is_pool and all(isinstance(each, PoolCoupling) and each.is_latest for each in self.couplings)


@dataclass(frozen=True)
class Topology:
    """What is drawn.

    Attributes:
        note: how instances were folded, in words; empty if they were not.
    """

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    note: str = ""


def topology(model: Model, fold: bool = True) -> Topology:
    """Return what is drawn of a model's couplings. Linear in instances and couplings.

    Args:
        fold: whether several instances may become one box.
    """
    instances = tuple(model.instances.values())
    boxes = tuple(Box(instance.id, (instance,)) for instance in instances)
    lines = _lines(model, boxes)
    note = ""
    if fold and len(boxes) > MOST_SINGLE_BOXES:
        around = _surroundings(lines)
        folded = _folded(instances, lambda instance: (_part(instance), around.get(instance.id)), LEAST_ALIKE)
        if len(folded) < len(boxes):
            boxes, lines, note = folded, _lines(model, folded), _ALIKE
    if fold and (len(boxes) > MOST_BOXES or len(lines) > MOST_LINES):
        boxes = _folded(instances, _part, 2)
        lines, note = _lines(model, boxes), _ALL
    if len(model.couplings) + len(model.pools) <= MOST_SINGLE_LINES:
        lines = tuple(replace(line, couplings=(one,)) for line in lines for one in line.couplings)
    return Topology(boxes, lines, note)


def in_order(shown: Topology, starting: Collection[str]) -> list[Box]:
    """Return the boxes in the order of the flow: first those with instances that start, then whom they send to.

    Graphviz breaks cycles in the order in which it reads nodes, so that pictures begin where the model does.
    """
    followers: dict[str, dict[str, None]] = {}
    for line in shown.lines:
        followers.setdefault(line.tail, {})[line.head] = None
    first = [box.name for box in shown.boxes if any(instance.id in starting for instance in box.instances)]
    order = dict.fromkeys(first)
    waiting = deque(first)
    while waiting:
        for name in followers.get(waiting.popleft(), ()):
            if name not in order:
                order[name] = None
                waiting.append(name)
    order.update(dict.fromkeys(box.name for box in shown.boxes))
    by_name = {box.name: box for box in shown.boxes}
    return [by_name[name] for name in order]


def rank_distances(lines: Sequence[Line]) -> Mapping[tuple[str, str], int]:
    """Return how many ranks apart the two ends of lines are drawn, if it is more than one.

    Of many boxes whose only neighbour is the same, one would make a strip as long as they are many; they are set in
    several ranks instead.
    """
    neighbours: dict[str, dict[str, None]] = {}
    for line in lines:
        neighbours.setdefault(line.tail, {})[line.head] = None
        neighbours.setdefault(line.head, {})[line.tail] = None
    crowds: dict[str, list[str]] = {}
    for name, others in neighbours.items():
        if len(others) == 1:
            crowds.setdefault(next(iter(others)), []).append(name)
    distances: dict[tuple[str, str], int] = {}
    for hub, crowd in crowds.items():
        if len(crowd) < LEAST_STAGGERED:
            continue
        ranks = math.ceil(math.sqrt(len(crowd) / 2))
        for place, name in enumerate(crowd):
            distances[hub, name] = distances[name, hub] = 1 + place % ranks
    return distances


def _lines(model: Model, boxes: Iterable[Box]) -> tuple[Line, ...]:
    box_of = {instance.id: box.name for box in boxes for instance in box.instances}
    found: dict[tuple[str, str, tuple[str | None, str | None], Template | None, bool], list[Coupling]] = {}
    for coupling, possible in zip(model.couplings, templates(model), strict=True):
        between = (box_of[coupling.sender.instance], box_of[coupling.receiver.instance])
        carries_state = model.carries_state(coupling)
        template = next(iter(possible)) if len(possible) == 1 and not carries_state else None
        found.setdefault((*between, operators(model, coupling), template, carries_state), []).append(coupling)
    pools: dict[tuple[str, str, bool], list[PoolCoupling]] = {}
    for pool in model.pools:
        between = (box_of[pool.sender.instance], box_of[pool.receiver.instance])
        pools.setdefault((*between, pool.is_latest), []).append(pool)
    of_messages = (
        Line(tail, head, at_ends, template, tuple(couplings), carries_state)
        for (tail, head, at_ends, template, carries_state), couplings in found.items()
    )
    return (
        *of_messages,
        *(Line(tail, head, (None, None), None, tuple(each), is_pool=True) for (tail, head, _), each in pools.items()),
    )


def _part(instance: Instance) -> tuple[str, ...]:
    return instance.domain or "", instance.kind, instance.definition.id


def _surroundings(lines: Iterable[Line]) -> dict[str, frozenset[Hashable]]:
    """Return for each instance what it is coupled to, and by which operators."""
    found: dict[str, set[Hashable]] = {}
    for line in lines:
        found.setdefault(line.tail, set()).add(("to", line.head, line.operators))
        found.setdefault(line.head, set()).add(("from", line.tail, line.operators))
    return {name: frozenset(around) for name, around in found.items()}


def _folded(instances: Iterable[Instance], key: Callable[[Instance], Hashable], least: int) -> tuple[Box, ...]:
    """Return one box for all instances of one key if they are at least so many, else one for each."""
    groups: dict[Hashable, list[Instance]] = {}
    for instance in instances:
        groups.setdefault(key(instance), []).append(instance)
    boxes: list[Box] = []
    for group in groups.values():
        parts = [tuple(group)] if len(group) >= least else [(instance,) for instance in group]
        boxes += [Box(part[0].id, part) for part in parts]
    return tuple(boxes)
