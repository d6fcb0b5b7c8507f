"""The scale separation map as a picture."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import small_models
from lxml import etree

from xmml.check import check
from xmml.graphs.chips import Chip, placed
from xmml.graphs.dot import dot_text
from xmml.graphs.scale_map_view import scale_drawing, scale_figure, scale_graph
from xmml.graphs.ticks import MOST_TICKS, ticks
from xmml.graphs.views import picture
from xmml.units import Dimension

DOCUMENTS = Path(__file__).parents[3] / "data" / "documents"
TWO = """
macro 10 delta=1hr total=10hr space=1mm/1m
micro 5 delta=1ms total=5ms space=1um/1mm
macro.Oi -> micro.finit
micro.Of -> macro.S
"""
RANGES = [(-0.5, 0.5), (-15.0, 10.0), (0.0, 1.3), (3.6, 7.2), (-300.0, 300.0), (8.0, 16.0)]


def words_in(svg: bytes) -> list[str]:
    tree = etree.parse(io.BytesIO(svg))
    return ["".join(text.itertext()).strip() for text in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_has_the_names_the_ticks_and_the_templates() -> None:
    words = words_in(picture(small_models.model(TWO), "scales", "svg"))
    assert {"macro", "micro", "time", "space", "call", "release", "1 hr", "1 mm"} <= set(words)


def test_a_name_is_no_formula(tmp_path: Path) -> None:
    document = (DOCUMENTS / "restenosis.xml").read_text(encoding="utf-8")
    named = document.replace("<model ", r'<model name="$\frac{a}{$ costs" ', 1)
    (tmp_path / "model.xmml").write_text(named, encoding="utf-8")
    words = words_in(picture(check(tmp_path / "model.xmml").model_or_raise(), "scales", "svg"))
    assert r"$\frac{a}{$ costs" in words


def test_what_cannot_be_drawn_is_named() -> None:
    words = words_in(picture(check(DOCUMENTS / "restenosis.xml").model_or_raise(), "scales", "svg"))
    assert "not drawn, for want of a scale: START" in words


def test_a_model_without_scales_says_so() -> None:
    words = words_in(picture(small_models.model("a 1"), "scales", "svg"))
    assert any("nothing to draw" in word for word in words)


@pytest.mark.parametrize(
    "boxes",
    [
        "a 1 delta=1s total=1s space=1m/1m",
        "a 2 delta=1s total=2s space=1m/1m\nb 2 delta=1s total=2s space=1m/1m",
        "a 1 delta=1e-30s total=1e30s space=1e-30m/1e30m",
        "\n".join(f"a{number} 1 delta=1s total=1s space=1m/1m" for number in range(100)),
    ],
)
def test_points_equal_boxes_and_extremes_are_drawn(boxes: str) -> None:
    assert picture(small_models.model(boxes), "scales", "png").startswith(b"\x89PNG")


def test_the_axes_show_at_least_a_decade() -> None:
    low, high = scale_figure(small_models.model("a 1 delta=1s total=1s space=1m/1m")).axes[0].get_xlim()
    assert high - low >= 1


def test_the_graph_has_a_node_for_each_submodel_and_an_edge_for_each_template() -> None:
    graph = scale_graph(small_models.model(TWO))
    assert graph.nodes["micro"]["time.low"] == pytest.approx(-3)
    assert [given["template"] for _, _, given in graph.edges(data=True)] == ["call", "release"]


def test_dot_has_the_boxes_at_their_places() -> None:
    text = dot_text(scale_drawing(small_models.model(TWO)))
    assert '"micro"[pos="-190.84,-324.00!", width="0.699", height="3.000"' in text


def test_names_never_lie_on_each_other() -> None:
    boxes = [(10.0, 10.0, 200.0, 100.0)] * 12 + [(50.0, 50.0, 52.0, 52.0)] * 12
    chips = placed(boxes, [(60.0, 18.0)] * len(boxes), (0.0, 0.0, 300.0, 200.0))
    assert not any(one.overlaps(other) for one in chips for other in chips if one is not other)


def test_a_name_stands_in_the_upper_left_corner_of_its_box_if_there_is_room() -> None:
    [chip] = placed([(0.0, 0.0, 200.0, 100.0)], [(40.0, 20.0)], (0.0, 0.0, 300.0, 200.0))
    assert chip == Chip(26.0, 84.0, 40.0, 20.0)


@pytest.mark.parametrize("dimension", [Dimension.TIME, Dimension.SPACE, Dimension.NONE])
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_there_are_a_few_different_ticks_in_the_range(dimension: Dimension, low: float, high: float) -> None:
    found = ticks(low, high, dimension)
    assert 1 <= len(found) <= MOST_TICKS
    assert all(low - 1e-6 <= place <= high + 1e-6 for place, _ in found)
    assert len({text for _, text in found}) == len(found)


def test_times_are_written_in_units_that_people_use() -> None:
    assert [text for _, text in ticks(0.0, 8.0, Dimension.TIME)] == [
        "1 s", "1 min", "1 hr", "1 day", "30 day", "1 yr"
    ]  # fmt: skip
    assert [text for _, text in ticks(-9.0, 0.0, Dimension.TIME)] == ["1 ns", "1 µs", "1 ms", "1 s"]


def test_lengths_are_written_with_prefixes() -> None:
    assert [text for _, text in ticks(-9.0, 3.0, Dimension.SPACE)] == ["1 nm", "1 µm", "1 mm", "1 m", "1 km"]
