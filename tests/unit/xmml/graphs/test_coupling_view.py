"""The coupling topology as a drawing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import small_models

from xmml.check import check
from xmml.graphs.coupling_view import coupling_view
from xmml.graphs.dot import dot_text

GOLDEN = Path(__file__).parents[3] / "data" / "golden"
DOCUMENTS = Path(__file__).parents[3] / "data" / "documents"


def text_of(sketch: str) -> str:
    return dot_text(coupling_view(small_models.model(sketch)))


def line_with(text: str, start: str) -> str:
    return next(line.strip() for line in text.splitlines() if line.strip().startswith(start))


def test_the_drawing_of_a_small_model_is_as_it_was() -> None:
    assert text_of("a 2 init domain=x\nu 1 x4\nm mapper\na.Oi.o -> m\nm -> u.finit.i\nu.Of -> m\nm -> a.S") == (
        (GOLDEN / "coupling.dot").read_text(encoding="utf-8")
    )


@pytest.mark.parametrize(
    ("coupling", "tail", "head"),
    [
        ("a.Oi -> b.S", "dot", "odot"),
        ("a.Oi -> b.finit", "dot", "odiamond"),
        ("a.Of -> b.B", "diamond", "onormal"),
        ("a.Of -> m", "diamond", "vee"),
        ("m -> b.S", "none", "odot"),
    ],
)
def test_operators_are_symbols_at_the_ends(coupling: str, tail: str, head: str) -> None:
    edge = next(line for line in text_of(f"a 1\nb 1\nm mapper\n{coupling}").splitlines() if "arrowtail" in line)
    assert f'arrowtail="{tail}", arrowhead="{head}"' in edge


def test_each_kind_of_instance_has_its_shape() -> None:
    text = text_of("a 1\nm mapper\ns source\ns -> m\nm -> a.finit")
    assert [re.search(r'shape="(\w+)"', line_with(text, f'"{name}"[')).group(1) for name in "ams"] == [  # type: ignore[union-attr]
        "box",
        "hexagon",
        "cds",
    ]


def test_domains_are_nested_clusters_named_by_their_full_paths() -> None:
    text = dot_text(coupling_view(check(DOCUMENTS / "restenosis.xml").model_or_raise()))
    assert re.findall(r'subgraph "([^"]+)"', text) == [
        "cluster_artery",
        "cluster_artery.tissue",
        "cluster_artery.blood",
    ]


def test_an_edge_stands_in_the_innermost_cluster_of_both_its_ends() -> None:
    text = dot_text(coupling_view(check(DOCUMENTS / "restenosis.xml").model_or_raise()))
    tissue = text[text.index("cluster_artery.tissue") : text.index("cluster_artery.blood")]
    assert '"dd"->"smc"' in tissue
    assert '"bf"->"smc"' not in tissue


def test_names_ports_filters_and_copies_are_written() -> None:
    text = text_of("a 2\nu 1 x8\nm mapper\na.Oi.heat -> m.in | drop 3\nm -> u.finit")
    assert "heat → in" in text
    assert "drop 3" in text
    assert "×8" in text
    assert 'peripheries="2"' in line_with(text, '"u"[')


def test_ports_of_the_same_name_are_written_once() -> None:
    assert ">flow<" not in text_of("a 1\nb 1\na.Of.flow -> b.finit.flow")
    assert "label=<flow>" in text_of("a 1\nb 1\na.Of.flow -> b.finit.flow")


def test_scales_that_are_alike_share_a_line() -> None:
    text = dot_text(coupling_view(check(DOCUMENTS / "restenosis.xml").model_or_raise()))
    assert "x, y: 30 µm … 3 mm" in text
    assert "t: 0.1 µs … 1 s" in text


def test_the_end_with_its_edges_comes_before_the_start_with_its_own() -> None:
    lines = [line.strip() for line in text_of("a 1\nb 1\na.Of -> b.finit").splitlines()]
    order = [line for line in lines if '":' in line]
    assert [line.partition("[")[0] for line in order] == ['":end"', '"b"->":end"', '":start"', '":start"->"a"']


def test_instances_called_start_and_end_do_not_become_the_marks() -> None:
    text = text_of("start 1\nend 1\nstart.Of -> end.finit")
    assert {'"start"', '"end"', '":start"', '":end"'} <= {line.strip().partition("[")[0] for line in text.splitlines()}


@pytest.mark.parametrize(
    ("name", "style", "word", "label"),
    [("capacity", "dashed", "┅ pool", False), ("latest", "dotted", "┈ latest", True)],
)
def test_pools_are_dashed_and_latest_couplings_dotted(name: str, style: str, word: str, label: bool) -> None:
    model = check(DOCUMENTS / "checks" / "E33" / f"right-{name}.xmml").model_or_raise()
    text = dot_text(coupling_view(model))
    edge = next(line for line in text.splitlines() if "arrowtail" in line)
    assert f'style="{style}"' in edge
    assert word in line_with(text, "graph[")
    assert ("<I>latest</I>" in edge) == label


def test_an_archive_is_named_as_such() -> None:
    model = check(DOCUMENTS / "checks" / "E33" / "right-archive.xmml").model_or_raise()
    node = line_with(dot_text(coupling_view(model)), '"record"[')
    assert ">archive</FONT>" in node


def test_a_long_selector_is_written_in_lines_that_end_between_words() -> None:
    import dataclasses

    model = check(DOCUMENTS / "checks" / "E33" / "right-capacity.xmml").model_or_raise()
    select = "levtype = 'sfc' and step % 6 = 0 and param in (130, 131, 132)"
    pools = tuple(dataclasses.replace(each, select=select) for each in model.pools)
    text = dot_text(coupling_view(dataclasses.replace(model, pools=pools)))
    edge = next(line for line in text.splitlines() if "arrowtail" in line)
    assert "<I>levtype = 'sfc' and step % 6 = 0</I></FONT><BR/>" in edge
    assert "<I>and param in (130, 131, 132)</I>" in edge


def test_the_legend_tells_only_what_occurs() -> None:
    text = text_of("a 2\nb 2\na.Oi -> b.S")
    legend = line_with(text, "graph[")
    assert "O_i" in legend
    assert "interact" in legend
    assert "O_f" not in legend
    assert "dispatch" not in legend


def test_text_of_the_model_cannot_break_the_drawing() -> None:
    model = check(DOCUMENTS / "restenosis.xml").model_or_raise()
    import dataclasses

    named = dataclasses.replace(model, name='<b> & "x" \\N')
    assert "&lt;b&gt; &amp; &quot;x&quot; &#92;N" in dot_text(coupling_view(named))


def test_many_couplings_between_two_operators_become_one_line() -> None:
    many = "\n".join(f"a.Oi.o{number} -> b.S.s{number}" for number in range(100))
    text = text_of(f"a 2\nb 2\n{many}")
    assert text.count('"a"->"b"') == 1
    assert "100 couplings" in text


def test_a_large_model_is_folded_by_definition_and_domain() -> None:
    lines = [f"c{number} 1 domain=d{number % 2}" for number in range(400)]
    text = text_of("\n".join(lines))
    assert "cluster_d1" in text
    model = check(DOCUMENTS / "restenosis.xml").model_or_raise()
    import dataclasses

    smc = model.instances["smc"]
    crowd = {f"smc{number}": dataclasses.replace(smc, id=f"smc{number}") for number in range(400)}
    folded = dot_text(coupling_view(dataclasses.replace(model, instances=crowd, couplings=())))
    assert "400 × CELLS" in folded
    assert "Instances of one definition" in folded


def test_long_names_lose_their_middle_but_not_in_tooltips() -> None:
    name = "a" * 100 + "b" * 100
    text = text_of(f"{name} 1")
    assert f"<B>{name}</B>" not in text
    assert "aaa…bbb" in text
    assert f'tooltip="submodel {name} of' in text


def test_state_for_the_next_run_is_a_dashed_line() -> None:
    text = text_of("a 1\nu 1\na.Oi -> u.finit\nu.Of.saved -> u.finit.kept state")
    assert 'style="dashed"' in line_with(text, '"u"->"u"')
    assert 'style="dashed"' not in line_with(text, '"a"->"u"')
    assert "┅ state" in text
