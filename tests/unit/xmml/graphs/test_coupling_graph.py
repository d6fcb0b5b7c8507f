"""The coupling topology as a networkx graph."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import small_models

from xmml.check import check
from xmml.graphs.coupling_graph import coupling_graph, ends, starts
from xmml.model import Coupling, Instance, Model

DOCUMENTS = Path(__file__).parents[3] / "data" / "documents"


def restenosis() -> Model:
    return check(DOCUMENTS / "restenosis.xml").model_or_raise()


def test_every_instance_is_a_node_and_every_coupling_an_edge() -> None:
    model = restenosis()
    graph = coupling_graph(model)
    assert list(graph) == list(model.instances)
    assert sorted(key for _, _, key in graph.edges(keys=True)) == list(range(len(model.couplings)))


def test_couplings_between_the_same_instances_are_edges_of_their_own() -> None:
    graph = coupling_graph(small_models.model("a 2\nb 2\na.Oi -> b.S\na.Oi -> b.B\na.Of -> b.S"))
    assert graph.number_of_edges("a", "b") == 3


def test_nodes_carry_every_field_of_instance_and_definition() -> None:
    model = restenosis()
    names = {name.split(".")[0] for _, given in coupling_graph(model).nodes(data=True) for name in given}
    shown_otherwise = {"id", "position", "copy_params", "host", "bind"}  # the last two are not given there
    assert {field.name for field in dataclasses.fields(Instance)} - shown_otherwise <= names
    smc = coupling_graph(model).nodes["smc"]
    assert smc["definition"] == "CELLS"
    assert smc["definition.implementation.path"] == "bin/cells"
    assert smc["definition.implementation.libraries.0.name"] == "openmp"
    assert smc["ports.stress.operator"] == "S"
    assert smc["domain"] == "artery.tissue"
    assert smc["params.n"] == "1000"


def test_scales_are_numbers_in_si_units() -> None:
    graph = coupling_graph(restenosis())
    assert graph.nodes["bf"]["timescale.delta"] == 1e-7
    assert graph.nodes["bf"]["spacescales.x.total"] == 1e-3
    assert graph.nodes["bf"]["spacescales.x.dimensions"] == 2


def test_edges_carry_every_field_of_the_coupling() -> None:
    graph = coupling_graph(restenosis())
    given = graph.edges["dd", "smc", 5]
    shown_otherwise = {
        "position",
        "name",
        "capacity",
        "methods",
        "traffic_class",
        "compress",
        "protect",
    }  # not given there
    assert {field.name for field in dataclasses.fields(Coupling)} - shown_otherwise <= {
        name.split(".")[0] for name in given
    }
    assert given["filters.0.definition.id"] == "coarsen"
    assert given["filters.0.factor"] == 6.0
    assert (given["sender.operator"], given["receiver.operator"]) == ("Of", "S")
    assert given["template"] == "release"
    assert graph.edges["START", "smc", 0]["name"] == "init"


def test_what_is_not_given_is_left_out() -> None:
    graph = coupling_graph(small_models.model("a 2"))
    assert "domain" not in graph.nodes["a"]
    assert None not in graph.nodes["a"].values()


def test_couplings_within_a_part_of_a_domain_are_single_domain() -> None:
    graph = coupling_graph(
        small_models.model("a 1 domain=x\nb 1 domain=x.y\nc 1 domain=xy\na.Of -> b.finit\na.Of -> c.finit")
    )
    assert graph.edges["a", "b", 0]["single_domain"] is True
    assert graph.edges["a", "c", 1]["single_domain"] is False


def test_an_instance_starts_if_no_finit_port_is_coupled() -> None:
    assert starts(small_models.model("a 2\nu 1\na.Oi -> u.finit\nu.Of -> a.S")) == {"a"}


def test_a_state_coupling_with_itself_keeps_nobody_from_starting_or_ending() -> None:
    model = small_models.model("u 1\nu.Of.saved -> u.finit.kept state")
    assert starts(model) == ends(model) == {"u"}


def test_an_instance_ends_the_model_if_no_Of_port_is_coupled() -> None:
    assert ends(small_models.model("a 2\nu 1\nm mapper\na.Oi -> u.finit\nu.Of -> m\nm -> a.S")) == {"a"}


def test_templates_are_found_through_mappers() -> None:
    graph = coupling_graph(small_models.model("a 2\nm mapper\nb 1\na.Oi -> m\nm -> b.finit\nb.Of -> a.S"))
    assert [given["template"] for _, _, given in graph.edges(data=True)] == ["call", "call", "release"]
