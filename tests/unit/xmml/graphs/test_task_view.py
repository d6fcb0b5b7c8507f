"""The task graph as a graph, a drawing and a time line."""

from __future__ import annotations

import io
import json
import re
from itertools import pairwise
from pathlib import Path

import networkx
import pytest
import small_models
from bounds import bounded_time
from lxml import etree

import xmml
from xmml.analysis.outcome import outcome
from xmml.analysis.unrolling import Unrolling
from xmml.graphs.dot import dot_text
from xmml.graphs.graphml import graphml
from xmml.graphs.linear_ticks import linear_ticks
from xmml.graphs.node_link import node_link
from xmml.graphs.task_times import task_times
from xmml.graphs.task_view import task_drawing, task_graph, unrolled
from xmml.graphs.time_line import MOST_BARS, MOST_ROWS, TimeLine, time_line
from xmml.graphs.views import ViewOptions, picture

CALL = "m 3 init runtime=3\nu 1 stateful runtime=2\nm.Oi -> u.finit\nu.Of -> m.S"
LONG = "m 5000 runtime=5000\nu 1 runtime=2\nm.Oi -> u.finit\nu.Of -> m.S"
STUCK = "a 2\nb 3\na.Oi -> b.S\nb.Oi -> a.S"
S = 1_000_000_000
ARTERY = Path(__file__).parents[4] / "docs/examples/artery/model.xmml"
DAY = 86_400 * S


def unrolled_text(sketch: str, **options: object) -> Unrolling:
    return unrolled(small_models.model(sketch), **options)  # type: ignore[arg-type]


def line_of(unrolling: Unrolling) -> TimeLine:
    graph = unrolling.task_graph
    blocked = () if unrolling.truncated else outcome(graph.network, unrolling.final).blocked
    return time_line(unrolling, task_times(graph), blocked)


def words_in(svg: bytes) -> list[str]:
    tree = etree.parse(io.BytesIO(svg))
    return ["".join(text.itertext()).strip() for text in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_dot_has_messages_solid_and_steps_and_states_dashed() -> None:
    text = dot_text(task_drawing(unrolled_text(CALL)))
    assert '"m(0,finit-Oi)"->"u";' in text
    assert '"m(0,finit-Oi)"->"m(0-1,S-Oi)"[label="step", style="dashed"];' in text
    assert '"u"->"u[1]"[label="state", style="dashed"];' in text


def test_dot_marks_start_end_and_kinds() -> None:
    text = dot_text(task_drawing(unrolled_text("a 1 init\nm mapper\na.Of -> m")))
    assert re.search(r'":start"\[.*shape="Mdiamond"', text)
    assert re.search(r'":end"\[.*shape="Msquare"', text)
    assert re.search(r'"m"\[shape="hexagon"', text)
    assert '":start"->"a"' in text
    assert '"m"->":end"' in text


def test_dot_shows_what_is_blocked_as_red_octagons() -> None:
    text = dot_text(task_drawing(unrolled_text(STUCK)))
    assert '"Deadlock[b(2,S)]"[shape="octagon", fillcolor="#c62828"' in text
    assert '"b(1-2,S-Oi)"->"Deadlock[b(2,S)]"[label="step", style="dashed"];' in text


@pytest.mark.parametrize("sketch", [CALL, STUCK])
def test_the_graph_reads_back_equal_from_json_and_graphml(sketch: str) -> None:
    written = task_graph(unrolled_text(sketch))
    read = networkx.node_link_graph(json.loads(node_link(written)), edges="edges")
    assert networkx.utils.graphs_equal(read, written)
    again = networkx.read_graphml(
        io.BytesIO(graphml(written).encode()), node_type=int, force_multigraph=True, edge_key_type=int
    )
    assert dict(again.nodes(data=True)) == dict(written.nodes(data=True))
    assert sorted(again.edges(keys=True), key=lambda edge: edge[2]) == list(written.edges(keys=True))


def test_nodes_have_times_and_the_critical_path() -> None:
    graph = task_graph(unrolled_text(CALL))
    by_label = {given["label"]: given for _, given in graph.nodes(data=True)}
    assert (by_label["u[1]"]["begin_s"], by_label["u[1]"]["end_s"]) == (3.0, 5.0)
    assert all(given["critical"] for given in by_label.values())


def test_the_time_line_has_the_instances_and_the_tasks() -> None:
    words = words_in(picture(small_models.model(CALL), "task", "svg"))
    assert {"m", "u", "critical path", "message", "state", "time"} <= set(words)
    assert "m(0-1,S-Oi)" in words


def test_the_time_line_marks_deadlocks_and_says_for_what_they_wait() -> None:
    words = words_in(picture(small_models.model(STUCK), "task", "svg"))
    assert "Deadlock[b(2,S)]" in words
    assert "waits for a.Oi → b.S" in words
    assert "waits for ever" in words


def test_a_short_run_is_drawn_whole() -> None:
    line = line_of(unrolled_text(CALL))
    assert len(line.bars) == 7
    assert len(line.stretches) == 1
    assert line.left_out == ()


def test_of_a_long_run_the_beginning_and_the_end_are_drawn() -> None:
    line = line_of(unrolled_text(LONG))
    assert len(line.bars) <= MOST_BARS
    assert line.stretches[0].begin == 0
    assert line.stretches[-1].end == 15_000 * S
    assert all(re.fullmatch(r"(iterations|runs) \d+ … 4,99\d", text) for text in line.left_out)


def test_a_run_that_was_cut_off_has_no_end() -> None:
    unrolling = unrolled_text(LONG, node_limit=1000)
    line = line_of(unrolling)
    assert len(line.stretches) == 1
    assert line.is_cut
    assert all(text.endswith("and on") for text in line.left_out)


def test_of_many_copies_the_first_ones_and_the_last_are_drawn() -> None:
    line = line_of(unrolled_text("a 1\nm mapper\nc 1 x64\na.Of -> m\nm -> c.finit"))
    assert [row.name for row in line.rows] == ["a", "m", "c[0]", "c[1]", "… 61 more copies of c", "c[63]"]


def test_there_are_never_more_rows_than_fit() -> None:
    line = line_of(unrolled_text("\n".join(f"a{number} 1" for number in range(500))))
    assert len(line.rows) == MOST_ROWS + 1
    assert line.rows[-1].name == f"… {500 - MOST_ROWS} more"


def test_rows_are_in_the_order_in_which_instances_begin() -> None:
    line = line_of(unrolled_text("c 1\nb 1\na 1\na.Of -> b.finit\nb.Of -> c.finit"))
    assert [row.name for row in line.rows] == ["a", "b", "c"]


def test_a_stuck_copy_is_drawn_though_others_are_not() -> None:
    line = line_of(unrolled_text("a 1\nm mapper\nc 1 x64\nd 1\na.Of -> m\nm -> c.finit.i\nd.Of -> m\nc.Of -> m"))
    assert len(line.halts) >= 1


def test_options_reach_the_unrolling() -> None:
    model = small_models.model(LONG)
    text = picture(model, "task", "dot", ViewOptions(max_iterations=2)).decode()
    assert '"m(1,S-Of)"' in text
    uncollapsed = picture(model, "task", "dot", ViewOptions(max_iterations=2, collapse=False)).decode()
    assert '"m(0,Oi)"' in uncollapsed


def test_external_start_lets_the_first_message_begin() -> None:
    sketch = "a 3 init\nb 3\na.Oi -> b.S\nb.Oi -> a.S"
    text = picture(small_models.model(sketch), "task", "dot", ViewOptions(start="external")).decode()
    assert '"a(0,finit-Oi)"->"b(0,finit-Oi)"' in text


@pytest.mark.parametrize(
    "sketch", ["a 1", "a 1\nb 1\na.Of -> b.finit.i\nb.Of -> a.finit.i", "a until\nb until\na.Oi -> b.S"]
)
def test_models_without_tasks_or_with_unknown_steps_are_drawn(sketch: str) -> None:
    assert picture(small_models.model(sketch), "task", "png").startswith(b"\x89PNG")


def test_a_hundred_thousand_tasks_are_drawn() -> None:
    model = small_models.model(LONG.replace("5000 runtime", "50000 runtime"))
    with bounded_time():
        assert len(picture(model, "task", "svg")) < 1_000_000


@pytest.mark.parametrize(
    ("begin", "end", "texts"),
    [
        (0, 20 * 60 * S, ["0", "5 min", "10 min", "15 min", "20 min"]),
        (0, 4, ["0", "1 ns", "2 ns", "3 ns", "4 ns"]),
        (208 * DAY, 208 * DAY + 2700 * S, ["00:00\n208 day", "00:10", "00:20", "00:30", "00:40"]),
        (1000 * 60 * S, 1000 * 60 * S + 20 * S, ["16:40:00", "16:40:05", "16:40:10", "16:40:15", "16:40:20"]),
    ],
)
def test_ticks_are_round_times(begin: int, end: int, texts: list[str]) -> None:
    assert [text for _, text in linear_ticks(begin, end, 5)] == texts


def test_hours_that_are_no_round_part_are_written_as_a_clock_does() -> None:
    minute = 60 * S
    assert [text for _, text in linear_ticks(190 * minute, 196 * minute, 4)] == ["03:10", "03:12", "03:14", "03:16"]
    assert [text for _, text in linear_ticks(0, 190 * minute, 8)][:4] == ["0", "30 min", "1 hr", "1.5 hr"]


def test_what_is_written_at_ticks_of_a_short_stretch_does_not_touch() -> None:
    """A long beginning leaves little room for the end, behind what is left out."""
    root = etree.fromstring(picture(xmml.load(ARTERY), "task", "svg"))
    texts = root.xpath("//*[starts-with(@id, 'xtick_')]//*[local-name() = 'text']")
    written = sorted((float(each.get("x")), each.text) for each in texts)
    assert [text for _, text in written] == ["0", "10 min", "20 min", "03:10", "03:15"]
    for (before, left), (after, right) in pairwise(written):
        assert after - before > 6 * (len(left) + len(right)) / 2, (left, right)
