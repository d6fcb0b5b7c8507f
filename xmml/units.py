"""Quantities: a number with a unit of time, space or data, read exactly and compared only with its like."""

from __future__ import annotations

import math
import re
from dataclasses import field
from enum import Enum
from fractions import Fraction
from typing import overload

from xmml.late_dataclass import dataclass


class Dimension(Enum):
    """What a quantity measures."""

    NONE = "none"
    TIME = "time"
    SPACE = "space"
    DATA = "data"

    @property
    def symbol(self) -> str:
        """The base unit: seconds, metres, bytes."""
        return {"none": "", "time": "s", "space": "m", "data": "B"}[self.value]


class UnitError(ValueError):
    """A text that is no quantity, or an operation on quantities that do not go together."""


_TIME_WORDS: tuple[tuple[int, str], ...] = (
    (60, "minutes minute min"),
    (3600, "hours hour hrs hr"),
    (86400, "days day"),
    (604_800, "weeks week wks wk"),
    (2_628_000, "months month"),
    (31_536_000, "years year yrs yr"),
)
_PREFIXES: tuple[tuple[int, str], ...] = (
    (1, "deca da"),
    (2, "hecto h"),
    (3, "kilo K k"),
    (6, "mega M"),
    (9, "giga G"),
    (12, "tera T"),
    (15, "peta P"),
    (18, "exa E"),
    (21, "zetta Z"),
    (24, "yotta Y"),
    (-1, "deci d"),
    (-2, "centi c"),
    (-3, "milli m"),
    (-6, "micro u \N{MICRO SIGN} \N{GREEK SMALL LETTER MU}"),
    (-9, "nano n"),
    (-12, "pico p"),
    (-15, "femto f"),
    (-18, "atto a"),
    (-21, "zepto z"),
    (-24, "yocto y"),
)
_BASES: tuple[tuple[Fraction, Dimension, str], ...] = (
    (Fraction(1), Dimension.TIME, "seconds second sec s"),
    (Fraction(1), Dimension.SPACE, "meters meter metres metre m"),
    (Fraction(1), Dimension.DATA, "bytes byte B"),
    (Fraction(1, 8), Dimension.DATA, "bits bit"),
)


def _unit_table() -> dict[str, tuple[Fraction, Dimension]]:
    table: dict[str, tuple[Fraction, Dimension]] = {}
    for factor, dimension, words in _BASES:
        for word in words.split():
            for exponent, prefixes in _PREFIXES:
                for prefix in prefixes.split():
                    table[prefix + word] = (factor * Fraction(10) ** exponent, dimension)
            table[word] = (factor, dimension)
    for seconds, words in _TIME_WORDS:
        for word in words.split():
            table[word] = (Fraction(seconds), Dimension.TIME)
    return table


#: Every unit word: its factor to the base unit, and its dimension.
UNITS = _unit_table()

_QUANTITY = re.compile(r"(-?)([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,9}))?[ \t\r\n]*([^\W\d_]*)")
_LONGEST_TEXT = 1000
_LARGEST_EXPONENT = 300
_SMALLEST, _LARGEST = Fraction(10) ** -_LARGEST_EXPONENT, Fraction(10) ** _LARGEST_EXPONENT


@dataclass(frozen=True)
class Quantity:
    """An exact number in its base unit, with a dimension and the unit it was written in.

    Two quantities are equal if they measure the same amount of the same thing, whatever unit they are written in.
    """

    value: Fraction
    dimension: Dimension = Dimension.NONE
    factor: Fraction = field(default=Fraction(1), compare=False)

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        """The quantity as `mantissa e exponent symbol`, the exponent being that of the unit: `1 hour` is `3.6e3 s`."""
        exponent = _decimal_exponent(self.factor)
        mantissa = _decimal_text(self.value / Fraction(10) ** exponent)
        power = f"e{exponent}" if exponent else ""
        return f"{mantissa}{power} {self.dimension.symbol}".rstrip()

    def as_dimension(self, dimension: Dimension) -> Quantity:
        """Return the quantity read as `dimension`: a bare number takes the base unit of its context.

        Raises:
            UnitError: it has another dimension.
        """
        if self.dimension is dimension:
            return self
        if self.dimension is Dimension.NONE:
            return Quantity(self.value, dimension, self.factor)
        raise UnitError(f"{self} is a quantity of {self.dimension.value}, not of {dimension.value}")

    def __add__(self, other: Quantity) -> Quantity:
        self._like(other, "add")
        return Quantity(self.value + other.value, self.dimension, self.factor)

    def __sub__(self, other: Quantity) -> Quantity:
        self._like(other, "subtract")
        return Quantity(self.value - other.value, self.dimension, self.factor)

    def __neg__(self) -> Quantity:
        return Quantity(-self.value, self.dimension, self.factor)

    def __mul__(self, other: int | Fraction | Quantity) -> Quantity:
        """Multiply by a number; two quantities can be multiplied only if one of them is a bare number."""
        if isinstance(other, Quantity):
            if Dimension.NONE not in (self.dimension, other.dimension):
                raise UnitError(f"cannot multiply {self} by {other}: xMML has no compound units")
            like = other if self.dimension is Dimension.NONE else self
            return Quantity(self.value * other.value, like.dimension, like.factor)
        return Quantity(self.value * other, self.dimension, self.factor)

    __rmul__ = __mul__

    @overload
    def __truediv__(self, other: Quantity) -> Fraction: ...
    @overload
    def __truediv__(self, other: int | Fraction) -> Quantity: ...
    def __truediv__(self, other: Quantity | int | Fraction) -> Fraction | Quantity:
        """Divide by a quantity of the same dimension (a plain ratio) or by a number."""
        divisor = other.value if isinstance(other, Quantity) else other
        if isinstance(other, Quantity):
            self._like(other, "divide")
        if divisor == 0:
            raise UnitError(f"cannot divide {self} by zero")
        if isinstance(other, Quantity):
            return self.value / other.value
        return Quantity(self.value / divisor, self.dimension, self.factor)

    def __lt__(self, other: Quantity) -> bool:
        self._like(other, "compare")
        return self.value < other.value

    def __le__(self, other: Quantity) -> bool:
        self._like(other, "compare")
        return self.value <= other.value

    def __gt__(self, other: Quantity) -> bool:
        return other < self

    def __ge__(self, other: Quantity) -> bool:
        return other <= self

    def log10(self) -> float:
        """Return the decimal logarithm of the value in its base unit.

        Raises:
            UnitError: the value is not positive.
        """
        if self.value <= 0:
            raise UnitError(f"{self} has no logarithm")
        return math.log10(self.value.numerator) - math.log10(self.value.denominator)

    def _like(self, other: Quantity, verb: str) -> None:
        if self.dimension is not other.dimension:
            raise UnitError(
                f"cannot {verb} {self} and {other}: "
                f"one is a quantity of {self.dimension.value}, the other of {other.dimension.value}"
            )


def parse(text: str, dimension: Dimension | None = None) -> Quantity:
    """Read a quantity such as `10 min`, `1e-3 m` or `2 MB`.

    With a dimension given, a bare number is taken in that dimension's base unit and any other dimension is refused.

    Raises:
        UnitError: the text is no quantity; the message says why.
    """
    match = _QUANTITY.fullmatch(text.strip(" \t\r\n")) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise UnitError(
            f'"{_short(text)}" is not a quantity: expected a number and a unit, such as "10 min", "1e-3 m" or "2 MB"'
        )
    sign, number, power, unit = match.groups()
    if unit and unit not in UNITS:
        raise UnitError(f'"{_short(unit)}" in "{_short(text)}" is not a unit that xMML knows')
    factor, found = UNITS[unit] if unit else (Fraction(1), Dimension.NONE)
    exponent = int(power or 0)
    digits = Fraction(number)
    if digits and abs(exponent) > 2 * _LARGEST_EXPONENT:
        raise UnitError(f'"{_short(text)}" is out of range')
    value = digits * factor
    if value and exponent:
        value *= Fraction(10) ** exponent
    if value and not _SMALLEST <= value <= _LARGEST:
        raise UnitError(f'"{_short(text)}" is out of range')
    if not unit:
        factor = Fraction(10) ** _decimal_exponent(value) if power and value else Fraction(1)
    quantity = Quantity(-value if sign else value, found, factor)
    return quantity if dimension is None else quantity.as_dimension(dimension)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _decimal_exponent(value: Fraction) -> int:
    """Return floor(log10(value)) of a positive number, exactly."""
    exponent = len(str(value.numerator)) - len(str(value.denominator))
    if Fraction(10) ** exponent > value:
        exponent -= 1
    return exponent


def _decimal_text(value: Fraction) -> str:
    """Return the number in decimal digits, exactly where that is possible, with at least one digit after the point."""
    twos, fives, rest = 0, 0, value.denominator
    while rest % 2 == 0:
        rest //= 2
        twos += 1
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    if rest != 1:
        return f"{float(value)!r}"
    places = max(twos, fives, 1)
    scaled = abs(value.numerator) * 10**places // value.denominator
    digits = str(scaled).rjust(places + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"
