"""The scale separation map: every submodel as a box, from grain to extent in time and space (Hoekstra et al., 2007)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from xmml.analysis.scale_relations import Relation, relation
from xmml.analysis.templates import Template, ways
from xmml.late_dataclass import dataclass
from xmml.model import Instance, Model
from xmml.scales import Range, Scale
from xmml.units import Quantity

#: The regions of the map that two submodels can have to each other: `0` overlap in both; `1` separated in time only;
#: `2` in space only; `3.1` one is smaller and faster; `3.2` one is small and slow, the other large and fast.
Region = Literal["0", "1", "2", "3.1", "3.2"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of an axis, as decimal logarithms of the value in SI units; of width 0 if only one end is known."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """How many decades it covers."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Box:
    """A submodel on the map.

    Attributes:
        submodel: id of the submodel.
        instances: ids of its instances; the scales are those of the first.
        time: from delta to total, in seconds.
        space: from delta to total of the spatial scale (else another scale) with the most steps.
        space_scale: the id of that scale.
    """

    submodel: str
    instances: tuple[str, ...]
    time: Interval
    space: Interval
    space_scale: str


@dataclass(frozen=True, slots=True)
class Link:
    """Couplings between two boxes, over mappers or not: places in `ScaleMap.boxes` and the templates that occur."""

    sender: int
    receiver: int
    templates: tuple[Template, ...]


@dataclass(frozen=True)
class ScaleMap:
    """The boxes of a model and what is coupled.

    Attributes:
        time, space: what the axes must show: the union of the boxes, at least a decade; `None` without boxes.
        omitted: ids of submodels that cannot be drawn, since their time scale or every other scale is unknown.
    """

    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    time: Interval | None
    space: Interval | None
    omitted: tuple[str, ...]


def scale_map(model: Model) -> ScaleMap:
    """Return the scale separation map of a model."""
    instances: dict[str, list[Instance]] = {}
    for instance in model.instances.values():
        if instance.kind == "submodel":
            instances.setdefault(instance.definition.id, []).append(instance)
    boxes: list[Box] = []
    omitted = []
    place: dict[str, int] = {}
    for submodel, own in instances.items():
        box = _box(submodel, own)
        if box is None:
            omitted.append(submodel)
            continue
        place.update((instance.id, len(boxes)) for instance in own)
        boxes.append(box)
    links: dict[tuple[int, int], set[Template]] = {}
    for way in ways(model):
        ends = place.get(way.sender.instance), place.get(way.receiver.instance)
        if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
            links.setdefault((ends[0], ends[1]), set()).add(way.template)
    return ScaleMap(
        tuple(boxes),
        tuple(Link(*ends, tuple(sorted(found))) for ends, found in links.items()),
        _bounds([box.time for box in boxes]),
        _bounds([box.space for box in boxes]),
        tuple(omitted),
    )


def region(one: Instance, other: Instance) -> Region | None:
    """Return which region of the map two submodels are in to each other; `None` if their scales do not tell."""
    first, second = map_scale(one), map_scale(other)
    times = relation(one.timescale, other.timescale)
    spaces = relation(first, second)
    if times is None or spaces is None:
        return None
    if not is_apart(times) and not is_apart(spaces):
        return "0"
    if not is_apart(spaces):
        return "1"
    if not is_apart(times):
        return "2"
    faster = _mean(one.timescale, "total") < _mean(other.timescale, "total")
    smaller = _mean(first, "total") < _mean(second, "total")
    return "3.1" if faster == smaller else "3.2"


def is_apart(lie: Relation) -> bool:
    """Whether scales do not share a part: separated, or contiguous."""
    return lie != "overlapping"


def map_scale(instance: Instance) -> Scale | None:
    """Return the scale on the second axis: of the spatial ones that with the most steps, else of the others."""
    for kind in (instance.spacescales, instance.otherscales):
        known = [scale for scale in kind if _interval(scale) is not None]
        if known:
            return max(known, key=_extent)
    return None


def _extent(scale: Scale) -> tuple[float, float]:
    """Return by what a scale is chosen: decades covered, then the coarser grain."""
    interval = _interval(scale)
    return (interval.width, interval.low) if interval else (0.0, 0.0)


def _box(submodel: str, instances: Sequence[Instance]) -> Box | None:
    first = instances[0]
    scale = map_scale(first)
    time = _interval(first.timescale) if first.timescale else None
    space = _interval(scale) if scale else None
    if time is None or space is None or scale is None:
        return None
    return Box(submodel, tuple(instance.id for instance in instances), time, space, scale.id)


def _interval(scale: Scale) -> Interval | None:
    ends = [_logarithm(scale.delta), _logarithm(scale.total)]
    known = [end for end in ends if end is not None]
    return Interval(min(known), max(known)) if known else None


def _logarithm(range_: Range | None) -> float | None:
    mean: Quantity | None = None if range_ is None else range_.mean
    return None if mean is None or mean.value <= 0 else mean.log10()


def _mean(scale: Scale | None, end: Literal["delta", "total"]) -> float:
    range_ = getattr(scale, end, None)
    mean = None if range_ is None else range_.mean
    return math.inf if mean is None else mean.log10()


def _bounds(intervals: Sequence[Interval]) -> Interval | None:
    """Return the union of the intervals, widened to a decade if it is narrower."""
    if not intervals:
        return None
    low, high = min(each.low for each in intervals), max(each.high for each in intervals)
    missing = max(0.0, 1.0 - (high - low)) / 2
    return Interval(low - missing, high + missing)
