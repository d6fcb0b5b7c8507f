"""Short texts for labels and axes: quantities as `1 hr`, `30 µm`, `5 MB`, and names that are not too long."""

from __future__ import annotations

import re

from xmml.scales import Range, Scale
from xmml.units import Dimension, Quantity

_PREFIXES = {
    -24: "y", -21: "z", -18: "a", -15: "f", -12: "p", -9: "n", -6: "µ", -3: "m", -2: "c", -1: "d",
    0: "", 1: "da", 2: "h", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E", 21: "Z", 24: "Y",
}  # fmt: skip
_TIME_WORDS = ((31_536_000, "yr"), (2_628_000, "month"), (604_800, "wk"), (86_400, "day"), (3_600, "hr"), (60, "min"))
#: Units that are used only where the model does.
_UNEVEN = ("month", "wk")


def quantity_text(quantity: Quantity) -> str:
    """Return a quantity in the unit it was written in, or in a fitting one if its number would be unwieldy there."""
    unit = _unit(float(quantity.factor), quantity.dimension)
    number = float(quantity.value / quantity.factor) if quantity.factor else 0.0
    if unit is not None and (number == 0 or 0.01 <= abs(number) < 10_000):
        return f"{number_text(number)} {unit}".rstrip()
    return value_text(float(quantity.value), quantity.dimension)


def value_text(value: float, dimension: Dimension) -> str:
    """Return a number in base units with the largest unit of which it is at least one."""
    if dimension is Dimension.NONE or value == 0:
        return f"{number_text(value)} {dimension.symbol}".rstrip()
    if dimension is Dimension.TIME and abs(value) >= 60:
        factor, word = next(pair for pair in _TIME_WORDS if abs(value) >= pair[0] and pair[1] not in _UNEVEN)
        return f"{number_text(value / factor)} {word}"
    for exponent in range(24, -25, -3):
        if abs(value) >= 10.0**exponent * 0.9995:
            return f"{number_text(value / 10.0**exponent)} {_PREFIXES[exponent]}{dimension.symbol}"
    return f"{number_text(value)} {dimension.symbol}"


def number_text(number: float) -> str:
    """Return a number with at most four significant digits, without an exponent where that is short."""
    if number == int(number) and abs(number) < 1e6:
        return str(int(number))
    return f"{number:.4g}"


def range_text(range_: Range | None) -> str:
    """Return the value of a scale's range, `a..b` if it has two bounds, or `?`."""
    if range_ is None or (range_.min is None and range_.max is None):
        return "?"
    if range_.min is not None and range_.max is not None and not range_.is_regular:
        return f"{quantity_text(range_.min)}..{quantity_text(range_.max)}"
    only = range_.min if range_.min is not None else range_.max
    return quantity_text(only) if only is not None else "?"


def scale_text(scale: Scale) -> str:
    """Return a scale as `1 s … 1 hr`: grain, then extent."""
    return f"{range_text(scale.delta)} … {range_text(scale.total)}"


def shortened(text: str, most: int = 36) -> str:
    """Return a text with its middle left out if it is longer than `most` characters."""
    half = most // 2
    return text if len(text) <= most else f"{text[: half + 2]}…{text[-half + 4 :]}"


def wrapped(text: str, most: int, lines: int) -> list[str]:
    """Return a text in lines that end between words, before `and` and `or` where such a part fits into a line.

    Args:
        most: characters of a line. A longer word has its middle left out.
        lines: the last one ends with `…` if there are more words than these lines hold.
    """
    shown: list[str] = []
    for part in re.split(r"(?<!\s)\s+(?=(?:and|or)\b)", text.strip()):
        pieces = [part] if len(part) <= most else [shortened(word, most) for word in part.split()]
        for piece in filter(None, pieces):
            if shown and len(shown[-1]) + 1 + len(piece) <= most:
                shown[-1] += f" {piece}"
            else:
                shown.append(piece)
    return shown if len(shown) <= lines else [*shown[: lines - 1], f"{shown[lines - 1]} …"]


def _unit(factor: float, dimension: Dimension) -> str | None:
    if dimension is Dimension.NONE:
        return "" if factor == 1 else None
    if dimension is Dimension.TIME:
        for seconds, word in _TIME_WORDS:
            if factor == seconds:
                return word
    for exponent, prefix in _PREFIXES.items():
        if abs(factor / 10.0**exponent - 1) < 1e-9:
            return prefix + dimension.symbol
    return "bit" if dimension is Dimension.DATA and factor == 0.125 else None
