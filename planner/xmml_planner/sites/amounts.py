"""Quantities of a `sites.toml`: times, sizes and rates, read by the units of xMML, with binary sizes besides."""

from __future__ import annotations

import re
from fractions import Fraction

from xmml.units import UNITS, Dimension, Quantity, UnitError, parse

#: Sizes in powers of two, in which memory is sold; xMML itself knows powers of ten only.
BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}

#: Words that people write and what they mean here.
_MEANT = {
    "h": "hr",
    "H": "hr",
    "d": "day",
    "b": "bit",
    "KB": "kB",
    "G": "GB",
    "M": "MB",
    "T": "TB",
    "Gbps": "Gbit/s",
    "Mbps": "Mbit/s",
    "gbps": "Gbit/s",
    "mbps": "Mbit/s",
    "Gb": "Gbit",
    "Mb": "Mbit",
}
#: Every part takes what it can and gives nothing back, so that a text is read once whatever stands in it.
_NUMBER_AND_WORD = re.compile(r"(?>([-+0-9.eE]*[0-9.]))\s*+([^\d\s]*+)")
_CLOCK = re.compile(r"\s*(?:(\d{1,6})-)?(\d{1,6}):(\d{2})(?::(\d{2}))?\s*")


def time_s(text: str) -> float:
    """Read a time such as `2 h`, `90 min` or, as schedulers write it, `1-12:00:00` [s]."""
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        if clock.group(4) is None and clock.group(1) is None:
            raise UnitError(f'"{text}" can be read in two ways: write hours:minutes:seconds, or "2 hr"')
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    return float(_quantity(text, Dimension.TIME, '"10 min"').value)


def size_bytes(text: str) -> int:
    """Read a size such as `16 GiB` or `2 GB` [bytes]."""
    return int(_quantity(text, Dimension.DATA, '"16 GiB"').value)


def rate(text: str) -> float:
    """Read a rate such as `1 Gbit/s` or `100 MB/s` [bytes per second]."""
    amount, slash, time = text.rpartition("/")
    if not slash or time.strip() not in ("s", "sec", "second"):
        meant = _meant(text)
        raise UnitError(
            f'"{text}" is not a rate: write {meant}'
            if meant
            else f'"{text}" is not a rate: expected an amount of data per second, such as "1 Gbit/s" or "100 MB/s"'
        )
    return float(_quantity(amount, Dimension.DATA, '"1 Gbit/s"').value)


def _quantity(text: str, dimension: Dimension, example: str) -> Quantity:
    match = _NUMBER_AND_WORD.fullmatch(text.strip())
    if match is not None:
        number, word = match.groups()
        if word in BINARY and dimension is Dimension.DATA:
            return parse(number, Dimension.DATA) * Fraction(BINARY[word])
        if word == "h" and dimension is Dimension.TIME:  # what schedulers and people write; in models it stays out
            return parse(f"{number} hr", Dimension.TIME)
        if not word:
            raise UnitError(f'"{text}" has no unit: write, for example, {example}')
        if word not in UNITS:
            meant = _meant(text)
            raise UnitError(
                f'"{word}" in "{text}" is not a unit: write {meant}'
                if meant
                else f'"{word}" in "{text}" is not a unit; write, for example, {example}'
            )
    quantity = parse(text)
    if quantity.dimension is not dimension:
        raise UnitError(f'"{text}" is a quantity of {quantity.dimension.value}; here goes one like {example}')
    return quantity


def _meant(text: str) -> str | None:
    """Return, quoted, what a text was probably meant to be."""
    match = _NUMBER_AND_WORD.fullmatch(text.strip())
    meant = _MEANT.get(match.group(2)) if match else None
    return f'"{match.group(1)} {meant}"' if match and meant else None
