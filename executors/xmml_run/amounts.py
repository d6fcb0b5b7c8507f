"""Amounts as people read them: durations, bytes, counts."""

from __future__ import annotations

_TIMES = ((365 * 86400, "yr"), (86400, "d"), (3600, "h"), (60, "min"))
_SHORT_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_BYTES = ((10**15, "PB"), (10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def duration(seconds: float) -> str:
    """Return a duration in the largest unit that fits, and the next smaller one where that says more.

    >>> duration(0.0123), duration(75), duration(7200), duration(2.5e7)
    ('12.3 ms', '1 min 15 s', '2 h', '289 d 8 h')
    """
    if seconds == 0:
        return "0 s"
    if seconds < 60:
        size, unit = next(((size, unit) for size, unit in _SHORT_TIMES if seconds >= size), _SHORT_TIMES[-1])
        return f"{seconds / size:.3g} {unit}"
    place = next(place for place, (size, _) in enumerate(_TIMES) if seconds >= size)
    size, unit = _TIMES[place]
    finer, finer_unit = _TIMES[place + 1] if place + 1 < len(_TIMES) else (1, "s")
    whole, rest = divmod(round(seconds / finer), size // finer)
    return f"{whole:,} {unit}" + (f" {rest} {finer_unit}" if rest and whole < 1000 else "")


def size(number: int) -> str:
    """Return bytes in decimal units.

    >>> size(80), size(1500), size(40_000_000_000)
    ('80 B', '1.5 kB', '40 GB')
    """
    for factor, unit in _BYTES:
        if number >= factor:
            return f"{number / factor:.3g} {unit}" if number < 1000 * factor else f"{number / factor:,.0f} {unit}"
    return f"{number} B"


def number(value: float) -> str:
    """Return a number with three digits and thousands apart.

    >>> number(5_120_000.0), number(0.01234), number(3.0)
    ('5,120,000', '0.0123', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def counted(value: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "run"), counted(12000, "run")
    ('1 run', '12,000 runs')
    """
    return f"{value:,} {noun}{'' if value == 1 else 's'}"
