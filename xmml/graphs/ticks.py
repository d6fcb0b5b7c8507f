"""Ticks of logarithmic axes of time and space, at round values that people know: 1 ms, 1 min, 1 day."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from xmml.graphs.quantity_text import number_text, value_text
from xmml.units import Dimension

#: As many ticks as an axis may have.
MOST_TICKS = 8

_MIN, _HR, _DAY, _YR = 60.0, 3600.0, 86_400.0, 31_536_000.0
#: Times from a second to a thousand years, from dense to sparse.
_HUMAN: tuple[Sequence[float], ...] = (
    (
        *(1, 2, 5, 10, 20, 30, _MIN, 2 * _MIN, 5 * _MIN, 10 * _MIN, 20 * _MIN, 30 * _MIN, _HR, 2 * _HR, 6 * _HR),
        *(12 * _HR, _DAY, 2 * _DAY, 5 * _DAY, 10 * _DAY, 30 * _DAY, 60 * _DAY, 182.5 * _DAY, _YR, 2 * _YR, 5 * _YR),
        *(10 * _YR, 20 * _YR, 50 * _YR, 100 * _YR, 200 * _YR, 500 * _YR),
    ),
    (1, 10, _MIN, 10 * _MIN, _HR, 6 * _HR, _DAY, 10 * _DAY, 100 * _DAY, _YR, 10 * _YR, 100 * _YR),
    (1, _MIN, _HR, _DAY, 30 * _DAY, _YR, 10 * _YR, 100 * _YR),
    (1, _MIN, _HR, _DAY, _YR, 100 * _YR),
    (1, _HR, _YR),
    (1, _YR),
)
#: Steps of the powers of ten beside them, for each of those densities.
_DECADES = (0, 1, 3, 3, 3, 6, 12, 24, 48, 96, 192)

Tick = tuple[float, str]


def ticks(low: float, high: float, dimension: Dimension) -> list[Tick]:
    """Return the ticks between two decimal logarithms: where they are, as logarithms, and what to write there.

    The densest set of round values of which at most `MOST_TICKS` are in the range.
    """
    kind: Literal["time", "other"] = "time" if dimension is Dimension.TIME else "other"
    found: list[float] = []
    for density in range(len(_DECADES)):
        found = [place for place in _places(density, low, high, kind) if low - 1e-9 <= place <= high + 1e-9]
        if len(found) <= MOST_TICKS:
            break
    return [(place, _text(place, dimension)) for place in found]


def _places(density: int, low: float, high: float, kind: Literal["time", "other"]) -> list[float]:
    step = _DECADES[density]
    if kind == "other":
        return _powers(step, low, high)
    human = [math.log10(value) for value in _HUMAN[min(density, len(_HUMAN) - 1)]]
    years = math.log10(_YR)
    below = [place for place in _powers(step, low, high) if place < -1e-9]
    above = [place + years for place in _powers(step, low - years, high - years) if place > human[-1] - years + 1e-9]
    return [*below, *human, *above]


def _powers(step: int, low: float, high: float) -> list[float]:
    """Return the logarithms of every `step`-th power of ten; of 1, 2 and 5 times each power if the step is 0."""
    every = max(step, 1)
    exponents = range(math.floor(low / every) * every, math.ceil(high) + 1, every)
    if step:
        return [float(exponent) for exponent in exponents]
    return [exponent + math.log10(factor) for exponent in exponents for factor in (1, 2, 5)]


def _text(place: float, dimension: Dimension) -> str:
    if abs(place) > 300:
        return f"1e{place:.0f} {dimension.symbol}".rstrip()
    value = float(f"{10.0**place:.6g}")
    if dimension is Dimension.TIME and value >= 1000 * _YR:
        return _years(value / _YR)
    if dimension is Dimension.NONE:
        return number_text(value)
    return value_text(value, dimension)


def _years(years: float) -> str:
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if years >= factor * 0.9995:
            return f"{number_text(round(years / factor, 6))} {prefix}yr"
    return f"{number_text(years)} yr"
