"""Coupling templates, also through mappers."""

from __future__ import annotations

import pytest
from small_models import model

from xmml.analysis.templates import template, templates, ways


@pytest.mark.parametrize(
    ("coupling", "expected"),
    [
        ("a.Oi -> b.S", "interact"),
        ("a.Oi -> b.B", "interact"),
        ("a.Oi -> b.finit", "call"),
        ("a.Of -> b.S", "release"),
        ("a.Of -> b.B", "release"),
        ("a.Of -> b.finit", "dispatch"),
    ],
)
def test_the_operators_at_the_ends_make_the_template(coupling: str, expected: str) -> None:
    one = model(f"a 2\nb 2\n{coupling}")
    assert template(one, one.couplings[0]) == expected
    assert templates(one) == (frozenset({expected}),)


def test_mappers_are_looked_through() -> None:
    one = model("a 2\nb 2\nm mapper\nn mapper\na.Oi -> m\nm -> n\nn -> b.finit")
    assert [template(one, coupling) for coupling in one.couplings] == ["call"] * 3


def test_a_coupling_that_is_part_of_different_ways_has_several_templates() -> None:
    one = model("a 2\nb 2\nc 2\nm mapper\na.Oi -> m\nm -> b.finit\nm -> c.S")
    assert templates(one) == (frozenset({"call", "interact"}), frozenset({"call"}), frozenset({"interact"}))
    assert [template(one, coupling) for coupling in one.couplings] == [None, "call", "interact"]


def test_a_way_from_a_source_or_to_a_sink_has_no_template() -> None:
    one = model("s source\nb 2\nt sink\nm mapper\ns -> b.S\nb.Oi -> m\nm -> t")
    assert templates(one) == (frozenset(),) * 3


def test_mappers_in_a_circle_are_no_endless_way() -> None:
    one = model("a 2\nb 2\nm mapper\nn mapper\na.Oi -> m.x\nn -> m.y\nm -> n\nm -> b.S")
    assert [(str(way.sender), str(way.receiver), way.couplings) for way in ways(one)] == [("a.Oi", "b.S", (0, 3))]
    assert templates(one)[0] == {"interact"}


def test_every_pair_of_ends_is_a_way() -> None:
    one = model("a 2\nb 2\nc 2\nd 2\nm mapper\na.Oi -> m.x\nb.Of -> m.y\nm -> c.S\nm -> d.finit")
    found = {(way.sender.instance, way.receiver.instance): way.template for way in ways(one)}
    assert found == {("a", "c"): "interact", ("a", "d"): "call", ("b", "c"): "release", ("b", "d"): "dispatch"}


def test_the_ways_through_a_huge_mapper_are_limited() -> None:
    text = "m mapper\n" + "".join(f"a{number} 2\nb{number} 2\n" for number in range(40))
    text += "".join(f"a{number}.Oi -> m.x{number}\nm.y{number} -> b{number}.S\n" for number in range(40))
    one = model(text)
    assert len(list(ways(one))) == 1600
    assert len(list(ways(one, limit=100))) == 100
