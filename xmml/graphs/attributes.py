"""Every attribute of the parts of a model as flat names and plain values, for graphs that other programs read."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

from xmml.scales import Range
from xmml.units import Quantity

Plain = str | int | float | bool

#: Where something stands in a document is nothing that a graph needs.
_LEFT_OUT = frozenset({"position", "document"})


def flat(value: object, prefix: str = "", without: Collection[str] = ()) -> dict[str, Plain]:
    """Return the fields of a dataclass, and of those in it, by dotted name; what is not given is left out.

    Lists of things with an id go by their ids (`spacescales.x.delta`), others by number; quantities are numbers in
    their base units (seconds, metres, bytes). A scale's range with one value is that value, else `min` and `max`.

    Args:
        prefix: put before every name, with a dot.
        without: fields of the outermost value to leave out.
    """
    return dict(_flat(value, prefix, frozenset(without) | _LEFT_OUT))


def _flat(value: object, name: str, without: Collection[str] = _LEFT_OUT) -> Iterator[tuple[str, Plain]]:
    if value is None:
        return
    if isinstance(value, float) and not math.isfinite(value):
        yield name, str(value)  # JSON has no such numbers
    elif isinstance(value, str | bool | int | float):
        yield name, value
    elif isinstance(value, Quantity | Fraction):
        yield name, float(value)
    elif isinstance(value, Range) and value.is_regular:
        yield from _flat(value.min, name)
    elif is_dataclass(value):
        for one in fields(value):
            if one.name not in without:
                yield from _flat(getattr(value, one.name), _joined(name, one.name.rstrip("_")))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, _joined(name, str(key)))
    elif isinstance(value, tuple):
        yield from _flat_list(value, name)


def _flat_list(values: tuple[Any, ...], name: str) -> Iterator[tuple[str, Plain]]:
    if all(isinstance(value, str) for value in values):
        if values:
            yield name, " ".join(values)
        return
    for number, value in enumerate(values):
        yield from _flat(value, _joined(name, str(getattr(value, "id", number))))


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
