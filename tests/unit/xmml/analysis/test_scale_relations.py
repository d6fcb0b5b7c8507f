"""How scales lie to each other, and what couplings fit that."""

from __future__ import annotations

import pytest
from small_models import model

from xmml.analysis.scale_relations import fitting_templates, is_same, is_slower, relation, spatial_relations
from xmml.scales import Range, Scale
from xmml.units import parse

Text = str | tuple[str | None, str | None] | None


def scale(delta: Text, total: Text) -> Scale:
    return Scale("t", "time", range_of(delta), range_of(total))


def range_of(text: Text) -> Range | None:
    if text is None:
        return None
    low, high = (text, text) if isinstance(text, str) else text
    return Range(parse(low) if low else None, parse(high) if high else None)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("1 ms", "3 ms"), ("1 s", "3 s"), "separated"),
        (("1 ms", "1 s"), ("1 s", "3 s"), "contiguous"),
        (("100 ms", "2 s"), ("1 s", "3 s"), "overlapping"),
        (("1 s", "3 s"), ("1 s", "3 s"), "overlapping"),
        (("1 s", "1 s"), ("1 s", "1 s"), "contiguous"),
        (("1 min", "1 hr"), ("1 s", "2 min"), "overlapping"),
        # ranges: from the least to the most
        (("1 ms", ("1 ms", "900 ms")), ("1 s", "3 s"), "separated"),
        (("1 ms", ("1 ms", "1 s")), ("1 s", "3 s"), "contiguous"),
        (("1 ms", ("500 ms", "1 s")), (("700 ms", "2 s"), "3 s"), "contiguous"),
        (("1 ms", ("1 ms", "2 s")), ("1 s", "3 s"), None),
        ((("1 ms", "2 s"), "3 s"), ("1 s", "3 s"), "overlapping"),
        (("1 ms", ("1 ms", None)), ("1 s", "3 s"), None),
        (("1 ms", (None, "900 ms")), ("1 s", "3 s"), "separated"),
        (("1 ms", None), ("1 s", "3 s"), None),
        ((None, None), (None, None), None),
    ],
)
def test_the_relation_follows_from_grain_and_extent(
    one: tuple[Text, Text], other: tuple[Text, Text], expected: str | None
) -> None:
    assert relation(scale(*one), scale(*other)) == expected
    assert relation(scale(*other), scale(*one)) == expected


def test_a_missing_scale_has_no_relation() -> None:
    assert relation(None, scale("1 s", "3 s")) is None


def test_a_length_and_a_time_have_no_relation() -> None:
    assert relation(scale("1 mm", "3 mm"), scale("1 s", "3 s")) is None


@pytest.mark.parametrize(
    ("sender", "receiver", "expected"),
    [
        (("1 s", "3 s"), ("1 ms", "3 ms"), {"call", "dispatch"}),
        (("1 ms", "3 ms"), ("1 s", "3 s"), {"release", "dispatch"}),
        (("1 s", "3 s"), ("1 ms", "1 s"), {"call", "dispatch"}),
        (("1 s", "3 s"), ("100 ms", "2 s"), {"interact", "dispatch"}),
        (("1 s", "1 s"), ("1 s", "1 s"), {"call", "dispatch", "interact"}),
    ],
)
def test_the_slow_one_calls_and_equals_interact(
    sender: tuple[str, str], receiver: tuple[str, str], expected: set[str]
) -> None:
    assert fitting_templates(scale(*sender), scale(*receiver)) == expected


def test_any_template_fits_scales_that_are_not_known() -> None:
    assert fitting_templates(None, scale("1 s", "3 s")) is None
    assert fitting_templates(scale("1 s", None), scale("1 s", "3 s")) is None


def test_slower_is_who_goes_on_for_longer() -> None:
    assert is_slower(scale("1 s", "3 s"), scale("1 ms", "3 ms")) is True
    assert is_slower(scale("1 ms", "3 ms"), scale("1 s", "3 s")) is False
    assert is_slower(scale("1 ms", None), scale("1 s", "3 s")) is None


def test_unknown_scales_are_not_the_same() -> None:
    assert not is_same(scale("1 s", None), scale("1 s", None))
    assert is_same(scale("1 s", "1 min"), scale("1000 ms", "60 s"))


def test_spatial_scales_are_compared_by_id() -> None:
    one = model("a 1 space=1mm/1cm\nb 1 space=1um/100um\nc 1")
    a, b, c = one.instances.values()
    assert spatial_relations(a, b) == {"x": "separated"}
    assert spatial_relations(a, c) == {}
