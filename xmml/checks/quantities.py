"""Quantities: E15 for what cannot be read, or measures the wrong thing; W07 for numbers without a unit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from xmml.checks.index import Index
from xmml.definitions import positive_integer
from xmml.problems import Problem, did_you_mean
from xmml.tree import Element
from xmml.units import UNITS, Dimension, Quantity, UnitError, parse

_TIME, _SPACE, _DATA = Dimension.TIME, Dimension.SPACE, Dimension.DATA

#: The attributes that hold quantities, by element, and what they must measure (`None`: anything).
ATTRIBUTES: Mapping[str, Mapping[str, Dimension | None]] = {
    "timescale": {"delta": _TIME, "total": _TIME, "characteristic": _TIME},
    "spacescale": {"delta": _SPACE, "total": _SPACE, "characteristic": _SPACE},
    "otherscale": {"delta": None, "total": None, "characteristic": None},
    "implementation": {"size": _DATA, "runtime": _TIME, "memory": _DATA},
    "coupling": {"size": _DATA},
}
_EXAMPLES = {_TIME: '"10 min"', _SPACE: '"1 mm"', _DATA: '"2 MB"'}

#: Units that people write and xMML does not know, with what they mean.
_MEANT = {
    "h": '"hr"',
    "H": '"hr"',
    "d": '"day"',
    "mon": '"month"',
    "a": '"yr"',
    "b": '"B" for bytes or "bit" for bits',
    "KiB": '"kB"',
    "MiB": '"MB"',
    "GiB": '"GB"',
    "TiB": '"TB"',
}


def units(index: Index) -> Iterator[Problem]:
    """Every quantity can be read and measures what it should."""
    for element in _elements(index):
        for attribute, dimension in ATTRIBUTES[element.name].items():
            yield from _check(element, attribute, dimension)
        if element.name.endswith("scale"):
            own = ATTRIBUTES[element.name]["delta"]
            for child in element.named("delta", "total"):
                yield from _check(child, "min", own)
                yield from _check(child, "max", own)
            yield from _one_dimension(element)
        else:
            yield from _cores(element)


def without_unit(index: Index) -> Iterator[Problem]:
    """A time, length or size has a unit: a bare number is read in seconds, metres or bytes, which is easily wrong."""
    for element in _elements(index):
        if element.name == "otherscale":
            continue
        bare = [place for place in _places(element) if _is_bare(*place)]
        if bare:
            first, attribute, dimension = bare[0]
            what = " and ".join(dict.fromkeys(name if at is element else at.name for at, name, _ in bare))
            have, are = ("have", "they are") if " and " in what else ("has", "it is")
            unit = {_TIME: "seconds", _SPACE: "metres", _DATA: "bytes"}[dimension]
            help = f'add the unit, such as {attribute}="{(first.get(attribute) or "").strip()} {dimension.symbol}"'
            yield first.problem("W07", f"{what} {have} no unit; {are} read in {unit}", help, attribute)


def _places(element: Element) -> Iterator[tuple[Element, str, Dimension]]:
    """Yield the attributes of an element, and of its ranges, that measure something known."""
    for attribute, dimension in ATTRIBUTES[element.name].items():
        if dimension is not None:
            yield element, attribute, dimension
    own = ATTRIBUTES[element.name].get("delta")
    if own is not None:
        for child in element.named("delta", "total"):
            yield child, "min", own
            yield child, "max", own


def _is_bare(element: Element, attribute: str, _: Dimension) -> bool:
    text = element.get(attribute)
    try:
        return text is not None and (found := parse(text)).dimension is Dimension.NONE and found.value != 0
    except UnitError:
        return False


def _cores(element: Element) -> Iterator[Problem]:
    text = element.get("cores")
    if text is not None and positive_integer(text) is None:
        yield element.problem("E15", f'cores="{text}" is not possible', "write a positive whole number", "cores")


def _elements(index: Index) -> Iterator[Element]:
    owners = [*index.definition_elements, *index.filter_elements, *index.instance_elements]
    for owner in owners:
        yield from owner.named("timescale", "spacescale", "otherscale", "implementation")
    yield from (coupling for coupling in index.couplings if coupling.get("size") is not None)


def _check(element: Element, attribute: str, dimension: Dimension | None) -> Iterator[Problem]:
    text = element.get(attribute)
    if text is None:
        return
    try:
        found = parse(text)
    except UnitError as error:
        yield element.problem("E15", f"{attribute}: {error}", _help(text, dimension), attribute)
        return
    try:
        if dimension is not None:
            found.as_dimension(dimension)
    except UnitError:
        wanted = dimension or _TIME
        message = f'{attribute} must be a quantity of {wanted.value}, but "{text}" is one of {found.dimension.value}'
        help = f"write for example {_EXAMPLES[wanted]}"
        if wanted is _TIME and text.strip().endswith("m") and found.factor == 1:
            help = f'did you mean "{text.strip()}in"? m is the metre'
        yield element.problem("E15", message, help, attribute)
        return
    if found.value < 0 and element.name in ("implementation", "coupling"):
        yield element.problem("E15", f'{attribute} cannot be negative: "{text}"', "leave out the minus", attribute)


def _help(text: str, dimension: Dimension | None) -> str:
    comma = re.search(r"[0-9],[0-9]", text)
    if comma:
        return f'write the number with a point: "{text.strip().replace(",", ".")}"'
    word = text.strip().split(" ")[-1].lstrip("0123456789.-+")
    if word in _MEANT:
        return f"did you mean {_MEANT[word]}?"
    common = [unit for unit, (_, kind) in UNITS.items() if dimension in (None, kind) and len(unit) <= 8]
    suggestion = did_you_mean(word, common) if word.isalpha() else ""
    return suggestion or f"write for example {_EXAMPLES[dimension or _TIME]}"


def _one_dimension(scale: Element) -> Iterator[Problem]:
    """Delta and total of one scale measure the same thing."""
    first: tuple[str, Quantity] | None = None
    places = [(scale, name, name) for name in ("delta", "total")]
    places += [
        (child, bound, f"{child.name} {bound}") for child in scale.named("delta", "total") for bound in ("min", "max")
    ]
    if scale.name != "otherscale":
        return  # their one dimension is known, and checked above
    for element, attribute, what in places:
        text = element.get(attribute)
        try:
            found = parse(text) if text is not None else None
        except UnitError:
            continue
        if found is None:
            continue
        if first is None:
            first = (what, found)
        elif first[1].dimension is not found.dimension:
            message = f"{first[0]} is a quantity of {first[1].dimension.value}, {what} one of {found.dimension.value}"
            yield element.problem("E15", message, "give both the same kind of unit", attribute)
            return
