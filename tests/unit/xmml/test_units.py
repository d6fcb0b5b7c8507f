"""Quantities: reading, arithmetic, comparison, text."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmml.units import UNITS, Dimension, Quantity, UnitError, parse

NONE, TIME, SPACE, DATA = Dimension.NONE, Dimension.TIME, Dimension.SPACE, Dimension.DATA


@pytest.mark.parametrize(
    ("text", "value", "dimension"),
    [
        ("1", "1", NONE),
        ("1E-64", "1e-64", NONE),
        ("1e+2", "100", NONE),
        ("1 sec", "1", TIME),
        ("1 min", "60", TIME),
        ("1 hr", "3600", TIME),
        ("1 hour", "3600", TIME),
        ("2 days", "172800", TIME),
        ("1 wk", "604800", TIME),
        ("1 week", "604800", TIME),
        ("1 month", "2628000", TIME),
        ("1 yr", "31536000", TIME),
        ("1 year", "31536000", TIME),
        ("1 km", "1000", SPACE),
        ("1 dam", "10", SPACE),
        ("1 um", "1e-6", SPACE),
        ("1 µm", "1e-6", SPACE),
        ("1 μm", "1e-6", SPACE),
        ("1 ms", "0.001", TIME),
        ("1 Ks", "1000", TIME),
        ("1 ks", "1000", TIME),
        ("8 bit", "1", DATA),
        ("1 kbit", "125", DATA),
        ("1 Mbit", "125000", DATA),
        ("2 MB", "2e6", DATA),
        ("1 megabyte", "1e6", DATA),
        ("1e3 ms", "1", TIME),
        ("1E5min", "6e6", TIME),
        ("1.5E2 min", "9000", TIME),
        ("-5 s", "-5", TIME),
        ("1 kilometer", "1000", SPACE),
        ("1 millimeter", "0.001", SPACE),
        ("1 decameter", "10", SPACE),
        ("1 meter", "1", SPACE),
        ("3 metres", "3", SPACE),
        ("1 micrometer", "1e-6", SPACE),
        ("1 microsecond", "1e-6", TIME),
        ("1 fs", "1e-15", TIME),
        ("1 femtosecond", "1e-15", TIME),
        (".5 s", "0.5", TIME),
        ("  3   s ", "3", TIME),
    ],
)
def test_a_quantity_has_its_value_in_the_base_unit(text: str, value: str, dimension: Dimension) -> None:
    assert parse(text) == Quantity(Fraction(value), dimension)


@pytest.mark.parametrize(
    "text",
    [
        *("1 h", "1 d", "1 mon", "1 b", "1 k", "1 M", "1 KiB", "1 kg", "1 Hz", "1 milli seconds", "1 m/s", "1 m s"),
        *("10 %", "5 m^2", "abc 5 s", "kilometer", "", " ", "-", ".", "1.2.3", "1,5 s", "+5 s", "1/2 s", "1 e5", "5."),
        *("0x10", "1e", "1e+", "--1", "1e99999", "1e-99999 s", "1e301 m", "١ s", "1 s\x00", "nan", "inf s"),
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse(text)


def test_a_bare_number_takes_the_base_unit_of_its_context() -> None:
    assert parse("5", TIME) == parse("5 s")
    assert parse("1.2e-5", SPACE) == parse("12 um")


def test_a_quantity_of_another_dimension_is_refused() -> None:
    with pytest.raises(UnitError, match="space, not of time"):
        parse("5 m", TIME)


def test_quantities_compare_by_what_they_measure() -> None:
    assert parse("1 s") < parse("1 min")
    assert parse("1 s") != parse("1 min")
    assert parse("60 s") == parse("1 min")
    assert parse("8 bit") == parse("1 byte")
    assert parse("1 s") != parse("1 m")


def test_comparing_different_dimensions_is_refused() -> None:
    with pytest.raises(UnitError, match="cannot compare"):
        _ = parse("1 s") < parse("1 m")
    with pytest.raises(UnitError, match="cannot add"):
        _ = parse("1 s") + parse("1")


def test_arithmetic_converts_units() -> None:
    assert parse("1 min") / parse("1 s") == 60
    assert parse("1 min") / 2 == parse("30 s")
    assert parse("1 min") + parse("1 s") == parse("61 s")
    assert parse("1 min") - parse("1 s") == parse("59 s")
    assert 3 * parse("1 min") == parse("180 s")
    assert parse("2") * parse("3 m") == parse("6 m")
    assert -parse("1 s") == parse("-1 s")


def test_there_are_no_compound_units_and_no_division_by_zero() -> None:
    with pytest.raises(UnitError, match="compound"):
        _ = parse("1 min") * parse("2 s")
    with pytest.raises(UnitError, match="zero"):
        _ = parse("1 min") / parse("0 s")
    with pytest.raises(UnitError, match="zero"):
        _ = parse("1 min") / 0


def test_the_logarithm_is_that_of_the_base_unit() -> None:
    assert parse("1 ms").log10() == pytest.approx(-3)
    with pytest.raises(UnitError, match="logarithm"):
        parse("0 s").log10()


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1 ms", "1.0e-3 s"),
        ("1 hour", "3.6e3 s"),
        ("1E-64", "1.0e-64"),
        ("10 min", "60.0e1 s"),
        ("2 MB", "2.0e6 B"),
        ("0", "0.0"),
    ],
)
def test_text_has_the_exponent_of_the_unit(text: str, printed: str) -> None:
    assert str(parse(text)) == printed


def test_exact_decimals_do_not_round() -> None:
    assert parse("0.35 s") / parse("0.1 s") == Fraction(7, 2)


numbers = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=6).map(str),
    st.tuples(st.integers(-999, 999), st.integers(-200, 200)).map(lambda pair: f"{pair[0]}e{pair[1]}"),
)


@given(numbers, st.sampled_from(["", *sorted(UNITS)]))
def test_printing_and_reading_gives_the_same_quantity(number: str, unit: str) -> None:
    quantity = parse(f"{number} {unit}")
    assert parse(str(quantity)) == quantity


@given(st.text(max_size=60) | st.text("0123456789.eE+- smMBbitkµ", max_size=12))
def test_any_text_is_a_quantity_or_refused_with_our_own_error(text: str) -> None:
    try:
        quantity = parse(text)
    except UnitError:
        return
    assert math.isfinite(float(quantity))
    assert parse(str(quantity)) == quantity


@given(st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS)))
def test_units_of_one_dimension_convert_there_and_back(left: str, right: str) -> None:
    a, b = parse(f"1 {left}"), parse(f"1 {right}")
    if a.dimension is b.dimension:
        assert (a / b) * (b / a) == 1
    else:
        with pytest.raises(UnitError):
            _ = a / b
