"""The scale separation map: boxes, bounds, links, regions."""

from __future__ import annotations

import pytest
from small_models import model

from xmml.analysis.scale_map import Interval, map_scale, region, scale_map

CELLS = """
tissue 3 delta=1000s total=1e7s space=10um/1mm
flow 10 delta=1e-7s total=1s space=10um/1mm
clock 5
sink sink
m mapper
tissue.Oi -> m
m -> flow.finit
flow.Of -> tissue.S
clock.Oi -> sink
"""


def test_a_box_reaches_from_grain_to_extent_in_decades() -> None:
    box = scale_map(model(CELLS)).boxes[0]
    assert (box.submodel, box.instances, box.space_scale) == ("tissue", ("tissue",), "x")
    assert box.time == Interval(3.0, 7.0)
    assert box.space == Interval(-5.0, -3.0)


def test_what_has_no_place_on_an_axis_is_omitted() -> None:
    assert scale_map(model(CELLS)).omitted == ("clock",)


def test_couplings_are_links_between_boxes_through_mappers() -> None:
    links = scale_map(model(CELLS)).links
    assert [(link.sender, link.receiver, link.templates) for link in links] == [(0, 1, ("call",)), (1, 0, ("release",))]


def test_the_bounds_hold_all_boxes() -> None:
    found = scale_map(model(CELLS))
    assert found.time == Interval(-7.0, 7.0)
    assert found.space == Interval(-5.0, -3.0)


def test_bounds_are_at_least_a_decade() -> None:
    found = scale_map(model("a 2 delta=1s total=2s space=1m/1m"))
    assert found.space == Interval(-0.5, 0.5)
    assert found.time is not None
    assert found.time.width == pytest.approx(1.0)


def test_a_model_without_boxes_has_no_bounds() -> None:
    found = scale_map(model("a 2"))
    assert (found.boxes, found.time, found.space) == ((), None, None)


def test_the_scale_of_the_second_axis_is_in_space() -> None:
    a = model("a 2 space=1mm/10cm").instances["a"]
    assert map_scale(a) is a.spacescales[0]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("delta=1s total=10s space=1mm/10mm", "delta=1s total=10s space=1mm/10mm", "0"),
        ("delta=1s total=10s space=1mm/10mm", "delta=1ms total=10ms space=1mm/10mm", "1"),
        ("delta=1s total=10s space=1mm/10mm", "delta=1s total=10s space=1m/10m", "2"),
        ("delta=1s total=10s space=1m/10m", "delta=1ms total=10ms space=1mm/10mm", "3.1"),
        ("delta=1s total=10s space=1mm/10mm", "delta=1ms total=10ms space=1m/10m", "3.2"),
        ("delta=1s total=10s", "delta=1ms total=10ms space=1m/10m", None),
    ],
)
def test_two_submodels_lie_in_a_region_to_each_other(one: str, other: str, expected: str | None) -> None:
    a, b = model(f"a 2 {one}\nb 2 {other}").instances.values()
    assert region(a, b) == expected
    assert region(b, a) == expected
