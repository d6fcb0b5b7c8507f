"""Scales: E14 duplicates, E16 impossible values, E17 fixed ranges left open, W09 values given twice, W16 rounded
numbers of steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from xmml.checks.index import Index
from xmml.definitions import SCALE_DIMENSIONS, read_range
from xmml.model import Definition
from xmml.problems import Problem
from xmml.run_options import settings_of
from xmml.scales import Range, Scale
from xmml.tree import Element
from xmml.units import Quantity

_TOO_SHORT = "delta is one step, total the whole: swap them, or look at their units"
_SCALES = ("timescale", "spacescale", "otherscale")


def duplicate_scales(index: Index) -> Iterator[Problem]:
    """The scales of a submodel, and those of an instance, have different ids."""
    for owner in [*index.definition_elements, *index.instance_elements]:
        seen: set[str] = set()
        for scale in owner.named(*_SCALES):
            name = scale.get("id")
            if name is not None and name in seen:
                yield scale.problem("E14", f'there are two scales "{name}" here', "give one of them another id", "id")
            elif name is not None:
                seen.add(name)


def given_twice(index: Index) -> Iterator[Problem]:
    """Delta or total as an attribute and as an element: the attribute counts."""
    for scale in _scale_elements(index):
        for child in scale.named("delta", "total"):
            if scale.get(child.name) is not None:
                message = f"{child.name} is given as an attribute and as an element; the attribute counts"
                yield child.problem("W09", message, "remove one of them")


def possible_values(index: Index) -> Iterator[Problem]:
    """Delta is positive, total not less than delta, and no range ends before it begins."""
    for scale in _scale_elements(index):
        delta, total = _ranges(scale)
        yield from _impossible_range(scale, "delta", delta)
        yield from _impossible_range(scale, "total", total)
        if _too_short(delta, total):
            at = "total" if scale.get("total") is not None else None
            yield scale.problem("E16", "total is less than delta", _TOO_SHORT, at)


def whole_steps(index: Index) -> Iterator[Problem]:
    """The total of a time scale is a whole number of deltas: else the number of steps is rounded."""
    for owner in [*index.definition_elements, *index.instance_elements]:
        if settings_of(owner).get("steps") == "until":
            continue  # the program decides; total is a bound
        for element in owner.named("timescale"):
            yield from _rounded(element, *_ranges(element))


def _rounded(element: Element, delta: Range | None, total: Range | None) -> Iterator[Problem]:
    steps = rounded_steps(delta, total)
    if steps is not None and delta is not None and delta.mean is not None:
        whole = _in_words(delta.mean * steps)
        message = f"total is no whole number of deltas: there will be {steps} step{'' if steps == 1 else 's'}"
        at = next((name for name in ("total", "delta") if element.get(name) is not None), None)
        yield element.problem("W16", message, f'a total of "{whole}" would be exactly that many', at)


def rounded_steps(delta: Range | None, total: Range | None) -> int | None:
    """Return the number of steps if total is not a whole number of deltas; `None` if it is, or is not known."""
    if delta is None or total is None or not (delta.is_regular and total.is_regular):
        return None
    step, length = delta.mean, total.mean
    if step is None or length is None or step.value <= 0 or step.dimension is not length.dimension:
        return None
    ratio = length / step
    steps = math.floor(ratio + Fraction(1, 2))
    return None if ratio == steps or ratio < 1 else steps


def _in_words(quantity: Quantity) -> str:
    """Return a quantity as a person would write it."""
    seconds = quantity.value
    for factor, unit in ((86400, "days"), (3600, "hr"), (60, "min"), (1, "s")):
        value = seconds / factor
        if value >= 1 and value.denominator == 1:
            return f"{value.numerator} {unit}"
    return f"{float(seconds):.12g} s"


def scale_problems(instance: Element, definition: Definition, effective: Sequence[Scale]) -> Iterator[Problem]:
    """Yield what is wrong with the scales of an instance after merging, beyond what shows in the text alone."""
    own = {scale.id: scale for scale in _definition_scales(definition)}
    name = instance.get("id") or definition.id
    for scale in effective:
        before = own.get(scale.id)
        for what, range_ in (("delta", scale.delta), ("total", scale.total)):
            if range_ is not None and range_.fixed and not range_.is_regular:
                message = (
                    f'{what} of the scale "{scale.id}" is fixed, and the instance "{name}" does not give it a value'
                )
                help = f'add <{scale.kind}scale id="{scale.id}" {what}="..."/> to the instance'
                yield instance.problem("E17", message, help)
        changed = before is None or (before.delta, before.total) != (scale.delta, scale.total)
        inherits = before is not None and (scale.delta is before.delta or scale.total is before.total)
        if changed and inherits and _too_short(scale.delta, scale.total):
            message = f'the scale "{scale.id}" of "{name}" has a total that is less than its delta'
            help = "what the instance does not give is that of its definition"
            yield instance.problem("E16", message, help)
        elif changed and inherits and scale.kind == "time":
            own_element = next(iter(instance.named("timescale")), instance)
            yield from _rounded(own_element, scale.delta, scale.total)


def _definition_scales(definition: Definition) -> tuple[Scale, ...]:
    time = (definition.timescale,) if definition.timescale else ()
    return time + definition.spacescales + definition.otherscales


def _scale_elements(index: Index) -> Iterator[Element]:
    for owner in [*index.definition_elements, *index.instance_elements]:
        yield from owner.named(*_SCALES)


def _ranges(scale: Element) -> tuple[Range | None, Range | None]:
    dimension = SCALE_DIMENSIONS[scale.name.removesuffix("scale")]
    return read_range(scale, "delta", dimension), read_range(scale, "total", dimension)


def _impossible_range(scale: Element, name: str, range_: Range | None) -> Iterator[Problem]:
    if range_ is None:
        return
    element, low, high = scale, name, name
    if scale.get(name) is None:
        element, low, high = scale.named(name)[0], "min", "max"
    if range_.min is not None and range_.min.value <= 0:
        yield element.problem("E16", f"{name} must be positive", "write a quantity above zero", low)
    elif range_.max is not None and range_.max.value <= 0:
        yield element.problem("E16", f"{name} must be positive", "write a quantity above zero", high)
    elif range_.min is not None and range_.max is not None and range_.max < range_.min:
        yield element.problem("E16", f"the range of {name} ends before it begins", "swap min and max", "min")


def _too_short(delta: Range | None, total: Range | None) -> bool:
    """Say whether total is less than delta, whatever values of their ranges they take."""
    if delta is None or total is None or delta.min is None or total.max is None:
        return False
    if delta.min.value <= 0 or total.max.value <= 0 or delta.min.dimension is not total.max.dimension:
        return False
    return total.max < delta.min
