"""Graphs in files that other programs read."""

from __future__ import annotations

import io
import json
from pathlib import Path

import networkx
import pytest

from xmml.check import check
from xmml.graphs.graphml import graphml
from xmml.graphs.node_link import node_link
from xmml.graphs.views import graph
from xmml.model import Model

ROOT = Path(__file__).parents[4]
MODELS = {
    "canal": ROOT / "workflows" / "canal" / "model.xmml",
    "restenosis": ROOT / "tests" / "data" / "documents" / "restenosis.xml",
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    return check(MODELS[request.param]).model_or_raise()


def read_graphml(text: str) -> networkx.MultiDiGraph:
    return networkx.read_graphml(io.BytesIO(text.encode()), force_multigraph=True, edge_key_type=int)


def test_graphml_reads_back_equal(model: Model) -> None:
    written = graph(model)
    read = read_graphml(graphml(written))
    assert dict(read.nodes(data=True)) == dict(written.nodes(data=True))
    assert {edge[:3]: edge[3] for edge in read.edges(keys=True, data=True)} == {
        edge[:3]: edge[3] for edge in written.edges(keys=True, data=True)
    }


def test_json_reads_back_equal(model: Model) -> None:
    written = graph(model)
    read = networkx.node_link_graph(json.loads(node_link(written)), edges="edges")
    assert networkx.utils.graphs_equal(read, written)
    assert read.graph == written.graph


def test_every_attribute_has_one_type_in_graphml() -> None:
    mixed = networkx.DiGraph()
    mixed.add_node("a", number=1, text=3, flag=True)
    mixed.add_node("b", number=0.5, text="dynamic", flag="no")
    text = graphml(mixed)
    assert text.count("<key ") == 3
    read = networkx.read_graphml(io.BytesIO(text.encode()))
    assert read.nodes["a"] == {"number": 1.0, "text": "3", "flag": "true"}


def test_domain_tree_reads_back_equal(model: Model) -> None:
    written = graph(model, "domain")
    read = networkx.node_link_graph(json.loads(node_link(written)), edges="edges")
    assert networkx.utils.graphs_equal(read, written)
