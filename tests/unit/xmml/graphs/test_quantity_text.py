"""Quantities as short text."""

from __future__ import annotations

import pytest

from xmml.graphs.quantity_text import quantity_text, range_text, value_text, wrapped
from xmml.scales import Range
from xmml.units import Dimension, parse


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("1 hr", "1 hr"),
        ("2500 s", "2500 s"),
        ("200 ms", "200 ms"),
        ("0.1 us", "0.1 µs"),
        ("1e7 s", "115.7 day"),
        ("1.2e-5 m", "12 µm"),
        ("3 wk", "3 wk"),
        ("10 MB", "10 MB"),
        ("8 bit", "8 bit"),
        ("0 s", "0 s"),
        ("12", "12"),
        ("1e-40 s", "1e-40 s"),
    ],
)
def test_quantities_keep_their_unit_unless_the_number_is_unwieldy(written: str, text: str) -> None:
    assert quantity_text(parse(written)) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1e-9, "1 ns"), (0.2, "200 ms"), (59.0, "59 s"), (90.0, "1.5 min"), (4e7, "1.268 yr")]
)
def test_times_have_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert value_text(seconds, Dimension.TIME) == text


def test_ranges_are_written_with_both_bounds() -> None:
    assert range_text(Range(parse("1 s"), parse("1 min"))) == "1 s..1 min"
    assert range_text(Range(None, parse("1 min"))) == "1 min"
    assert range_text(None) == "?"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("step > 3", ["step > 3"]),
        ("name = 't' and step % 6 = 0", ["name = 't'", "and step %", "6 = 0"]),
        ("name = 't' and step % 6 = 0 and member in (1, 2)", ["name = 't'", "and step %", "6 = 0 and …"]),
        ("a = 1 or b = 2", ["a = 1", "or b = 2"]),
        ("temperature_of_air = 1", ["tempera…r", "= 1"]),
    ],
)
def test_a_text_in_lines_is_cut_between_words(text: str, lines: list[str]) -> None:
    assert wrapped(text, 10, 3) == lines
