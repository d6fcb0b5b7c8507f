"""Ticks of a linear axis of time, at round values: 0, 30 s, 1 min, 1.5 min."""

from __future__ import annotations

import math

from xmml.graphs.quantity_text import value_text
from xmml.units import Dimension

_NS = 1_000_000_000
_MIN, _HR, _DAY = 60, 3600, 86_400
#: Round steps from a second on [s].
_HUMAN = (
    *(1, 2, 5, 10, 15, 30, _MIN, 2 * _MIN, 5 * _MIN, 10 * _MIN, 15 * _MIN, 30 * _MIN),
    *(_HR, 2 * _HR, 3 * _HR, 6 * _HR, 12 * _HR, _DAY, 2 * _DAY, 5 * _DAY),
)


def linear_ticks(begin_ns: int, end_ns: int, most: int, plain: bool = False) -> list[tuple[int, str]]:
    """Return at most about `most` ticks between two times [ns], and what to write there.

    Args:
        plain: the times are plain numbers.
    """
    span = max(end_ns - begin_ns, 1)
    step = _plain_step(span / most) if plain or span < most * _NS else _human_step(span / most / _NS) * _NS
    first = -(-begin_ns // step) * step
    places = list(range(first, end_ns + 1, step)) or [begin_ns]
    if plain:
        return [(place, f"{place:,}") for place in places]
    as_clock = any(_is_odd_part_of_hours(place) for place in places)
    texts = [_time_text(place, step, as_clock) for place in places]
    return [
        (place, _without_day(text, before)) for place, text, before in zip(places, texts, ["", *texts], strict=False)
    ]


def _without_day(text: str, before: str) -> str:
    """Return `04:30` of `208 day 04:30`, with the day in a second line where it is another than before."""
    day, word, clock = text.rpartition(" day ")
    if not word:
        return text
    return clock if before.startswith(day + word) else f"{clock}\n{day} day"


def _plain_step(least: float) -> int:
    power: int = 10 ** max(0, math.floor(math.log10(max(least, 1))))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _human_step(least_s: float) -> int:
    for step in _HUMAN:
        if step >= least_s:
            return step
    return _plain_step(least_s / _DAY) * _DAY


def _is_odd_part_of_hours(time_ns: int) -> bool:
    """Whether 03:10 is easier to read than 3.167 hr."""
    return time_ns >= _HR * _NS and bool(time_ns * 100 % (_HR * _NS))


def _time_text(time_ns: int, step_ns: int, as_clock: bool) -> str:
    """Return a time exactly enough to tell it from the next tick: `208 day 04:30` where that takes many digits."""
    if time_ns == 0:
        return "0"
    if time_ns < _NS or (step_ns * 500 > time_ns and not (as_clock and time_ns >= _HR * _NS)):
        return value_text(time_ns / _NS, Dimension.TIME)
    days, rest = divmod(time_ns, _DAY * _NS)
    hours, rest = divmod(rest, _HR * _NS)
    minutes, rest = divmod(rest, _MIN * _NS)
    clock = f"{hours:02}:{minutes:02}"
    if step_ns % (_MIN * _NS):
        clock += f":{rest // _NS:02}"
    if step_ns % _NS:
        clock += f"{rest % _NS / _NS:.9f}".removeprefix("0").rstrip("0").rstrip(".")
    return f"{days:,} day {clock}" if days else clock
