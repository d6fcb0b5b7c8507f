"""The tree of domains."""

from __future__ import annotations

import small_models

from xmml.graphs.domain_graph import DEEPEST, ROOT, domain_graph, domain_view
from xmml.graphs.dot import dot_text

ARTERY = "a 1 domain=artery.tissue\nb 1 domain=artery.blood\nc 1\na.Of -> b.finit\nb.Of -> c.finit"


def test_every_path_and_all_that_it_is_part_of_are_nodes() -> None:
    graph = domain_graph(small_models.model(ARTERY))
    assert set(graph) == {ROOT, "artery", "artery.tissue", "artery.blood"}
    assert set(graph.edges) == {(ROOT, "artery"), ("artery", "artery.tissue"), ("artery", "artery.blood")}


def test_nodes_are_labelled_with_the_last_part_and_hold_their_instances() -> None:
    graph = domain_graph(small_models.model(ARTERY))
    assert graph.nodes["artery.tissue"]["label"] == "tissue"
    assert graph.nodes["artery.tissue"]["instances"] == "a"
    assert graph.nodes[ROOT]["label"] == "None"
    assert graph.nodes[ROOT]["instances"] == "c"


def test_domains_with_the_same_last_part_are_told_apart() -> None:
    graph = domain_graph(small_models.model("a 1 domain=x.wall\nb 1 domain=y.wall"))
    assert {"x.wall", "y.wall"} < set(graph)


def test_couplings_within_a_domain_are_counted() -> None:
    graph = domain_graph(
        small_models.model("a 1 domain=x\nb 1 domain=x\nc 1 domain=x.y\na.Of -> b.finit\nb.Of -> c.finit")
    )
    assert graph.nodes["x"]["couplings"] == 1
    assert graph.nodes["x.y"]["couplings"] == 0


def test_a_path_of_a_hundred_thousand_parts_is_drawn() -> None:
    model = small_models.model(f"a 1 domain={'.'.join('x' * 100_000)}")
    assert len(domain_graph(model)) == DEEPEST + 2
    assert dot_text(domain_view(model)).count("->") == DEEPEST + 1


def test_thin_lines_count_the_couplings_between_domains() -> None:
    assert 'label="1 coupling"' in dot_text(domain_view(small_models.model(ARTERY)))
