"""Scales: the grain (delta) and extent (total) of a submodel in time, space or another dimension."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from xmml.late_dataclass import dataclass
from xmml.units import Quantity

ScaleKind = Literal["time", "space", "other"]


@dataclass(frozen=True)
class Range:
    """The values that delta or total may take; `min` equal to `max` for a regular value.

    Attributes:
        fixed: the value does not vary at run time, and every instance that uses it must give it.
    """

    min: Quantity | None
    max: Quantity | None
    fixed: bool = False

    @classmethod
    def of(cls, quantity: Quantity) -> Range:
        """Return the range that holds one value."""
        return cls(quantity, quantity)

    @property
    def is_regular(self) -> bool:
        """Whether there is exactly one value."""
        return self.min is not None and self.min == self.max

    @property
    def is_definite(self) -> bool:
        """Whether both bounds are known."""
        return self.min is not None and self.max is not None

    @property
    def mean(self) -> Quantity | None:
        """The middle of the range, or its single bound, or `None` if it has none."""
        if self.min is None or self.max is None:
            return self.max if self.min is None else self.min
        if self.min is self.max:  # nearly always, and arithmetic with fractions takes its time
            return self.min
        return (self.min + self.max) / 2


@dataclass(frozen=True)
class Scale:
    """One dimension of a submodel: how fine it resolves it, and how much of it it covers."""

    id: str
    kind: ScaleKind
    delta: Range | None = None
    total: Range | None = None
    characteristic: Quantity | None = None
    dimensions: int | None = None
    type: str | None = None

    @property
    def steps(self) -> int | None:
        """How often delta fits into total, rounded half up; `None` if either is not definite.

        The result may be 0; a submodel makes at least one iteration all the same.
        """
        ratio = self._ratio()
        return None if ratio is None else math.floor(ratio + Fraction(1, 2))

    @property
    def exact_steps(self) -> int | None:
        """How often delta fits into total, if that is a whole number; else `None`."""
        ratio = self._ratio()
        return int(ratio) if ratio is not None and ratio.denominator == 1 else None

    def in_base_units(self) -> dict[str, str | float | int]:
        """Return what a program is told: name, kind, delta and total in base units (of a range the middle), and steps.

        0 stands for what is not given.
        """

        def value(end: Range | None) -> float:
            mean = end.mean if end is not None else None
            return 0.0 if mean is None else float(mean)

        return {
            "name": self.id,
            "kind": self.kind,
            "delta": value(self.delta),
            "total": value(self.total),
            "steps": self.steps or 0,
        }

    def _ratio(self) -> Fraction | None:
        if self.delta is None or self.total is None or not (self.delta.is_definite and self.total.is_definite):
            return None
        delta, total = self.delta.mean, self.total.mean
        if delta is None or total is None or delta.value <= 0 or delta.dimension is not total.dimension:
            return None
        return total / delta


#: The ids that unnamed scales take, in this order, as far as they are free.
_FREE_IDS = {"time": "t", "space": "xyzuvw", "other": "abcdef"}


def name_unnamed(kind: ScaleKind, given: list[str | None], taken: set[str]) -> list[str]:
    """Return an id for every scale of one kind: its own, else the next free one.

    Those are t for time, x y z u v w for space, a b c d e f for others; after them s7, s8, ...
    """
    used = taken | {name for name in given if name}
    candidates = [name for name in _FREE_IDS[kind] if name not in used]
    number = 7
    names = []
    for name in given:
        if not name and candidates:
            name = candidates.pop(0)
        while not name:
            if f"s{number}" not in used:
                name = f"s{number}"
            number += 1
        names.append(name)
    return names


def dimension_names(scales: Iterable[Scale]) -> dict[str, Scale]:
    """Return scales by what formulas and filters may call them.

    That is the id; a scale of several dimensions stands also for the free ids after its own: x with two of them for y.
    """
    names = {scale.id: scale for scale in scales}
    for scale in list(names.values()):
        order = _FREE_IDS[scale.kind]
        start = order.index(scale.id) + 1 if len(scale.id) == 1 and scale.id in order else 0
        free = [name for name in order[start:] if name not in names]
        names.update(dict.fromkeys(free[: max(0, (scale.dimensions or 1) - 1)], scale))
    return names


def merge(definition: Scale, override: Scale) -> Scale:
    """Return the definition's scale with every field that the instance's scale gives."""
    return Scale(
        id=definition.id,
        kind=definition.kind,
        delta=override.delta or definition.delta,
        total=override.total or definition.total,
        characteristic=override.characteristic or definition.characteristic,
        dimensions=override.dimensions if override.dimensions is not None else definition.dimensions,
        type=override.type if override.type is not None else definition.type,
    )
