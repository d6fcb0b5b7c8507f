"""Fewer boxes and lines than instances and couplings."""

from __future__ import annotations

import dataclasses

import small_models

from xmml.graphs.folding import LEAST_STAGGERED, Line, in_order, rank_distances, topology
from xmml.model import Coupling, Endpoint, Model


def crowd(size: int) -> Model:
    """A macro model that calls many instances of one definition."""
    model = small_models.model("m 2 init\nc 1\nm.Oi.o -> c.finit.i\nc.Of.e -> m.S.s")
    copies = {f"c{number}": dataclasses.replace(model.instances["c"], id=f"c{number}") for number in range(size)}
    couplings = [
        coupling
        for name in copies
        for coupling in (
            Coupling(None, Endpoint("m", "o"), Endpoint(name, "i")),
            Coupling(None, Endpoint(name, "e"), Endpoint("m", "s")),
        )
    ]
    instances = {"m": model.instances["m"], **copies}
    return dataclasses.replace(model, instances=instances, couplings=tuple(couplings))


def test_a_small_model_is_drawn_as_it_is() -> None:
    shown = topology(crowd(10))
    assert len(shown.boxes) == 11
    assert len(shown.lines) == 20
    assert shown.note == ""


def test_instances_that_are_coupled_alike_become_one_box_in_a_large_model() -> None:
    shown = topology(crowd(100))
    assert [len(box.instances) for box in shown.boxes] == [1, 100]
    assert [len(line.couplings) for line in shown.lines] == [100, 100]
    assert "coupled alike" in shown.note


def test_nothing_is_folded_where_that_is_not_wanted() -> None:
    assert len(topology(crowd(100), fold=False).boxes) == 101


def test_boxes_begin_with_those_that_start_and_go_on_with_whom_they_send_to() -> None:
    model = small_models.model("c 1\nb 1\na 1\na.Of -> b.finit\nb.Of -> c.finit")
    assert [box.name for box in in_order(topology(model), {"a"})] == ["a", "b", "c"]


def test_many_boxes_around_one_stand_in_several_ranks() -> None:
    lines = [Line("hub", f"c{number}", ("Oi", "finit"), "call", ()) for number in range(LEAST_STAGGERED)]
    assert set(rank_distances(lines).values()) == {1, 2}
    assert rank_distances(lines[:3]) == {}
