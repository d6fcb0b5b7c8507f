"""Unrolling: limits, filters, sources, copies, and graphs that are not collapsed."""

from __future__ import annotations

import pytest
from small_models import model

from xmml.analysis.network import network
from xmml.analysis.outcome import outcome
from xmml.analysis.unrolling import Unrolling, unroll

CALL = "m {0}\nu\nm.Oi -> u.finit\nu.Of -> m.S"


def made(text: str, fires: dict[str, int | None] | None = None, **options: int) -> Unrolling:
    return unroll(network(model(text), fires), **options)


def counts(unrolling: Unrolling) -> dict[str, tuple[int, int, int]]:
    """Messages sent, delivered and received, by channel."""
    final = unrolling.final
    names = [channel.name for channel in unrolling.task_graph.network.channels]
    return dict(zip(names, zip(final.sent, final.delivered, final.received, strict=True), strict=True))


def runs(unrolling: Unrolling) -> dict[str, int]:
    processes = unrolling.task_graph.network.processes
    return {processes[stop.process].name: stop.runs for stop in unrolling.final.stops}


def test_every_operator_is_a_node_if_the_graph_is_not_collapsed() -> None:
    whole = unroll(network(model(CALL.format(2))), collapse=False).task_graph
    labels = [whole.label(node) for node in range(len(whole))]
    m = ["m(0,finit)", "m(0,Oi)", "m(0,S)", "m(0,B)", "m(1,Oi)", "m(1,S)", "m(1,B)", "m(1,Of)"]
    u = [f"{run}(0,{operator})" for run in ("u", "u[1]") for operator in ("finit", "Oi", "S", "B", "Of")]
    assert sorted(labels) == sorted(m + u)
    assert len(whole.step_from) == 7 + 4 + 4
    assert len(whole.message_from) == 4
    place = {node: number for number, node in enumerate(whole.order)}
    assert len(place) == len(whole)
    assert all(place[one] < place[other] for one, other, _, _ in whole.edges())


@pytest.mark.parametrize("collapse", [True, False])
def test_the_number_of_nodes_has_a_limit(collapse: bool) -> None:
    unrolling = unroll(network(model(CALL.format(10**9))), node_limit=1000, collapse=collapse)
    assert unrolling.truncated
    assert len(unrolling.task_graph) == 1000
    assert unrolling.task_graph.blocked == ()


@pytest.mark.parametrize(
    "text",
    [
        "a 1000000000\nb 1000000000\ns source repeat=yes\nk mapper\ns -> b.S\na.Of -> b.B",
        "a 2\nb 1\na.Oi -> b.S | repeat 1000000000",
        "a 1000000000\nb 1000000000\na.Oi -> b.S",
    ],
)
def test_the_number_of_messages_has_a_limit(text: str) -> None:
    unrolling = made(text, node_limit=1000)
    assert unrolling.truncated or unrolling.final.received[0] <= 10_000


def test_a_loop_without_couplings_costs_nothing() -> None:
    assert len(made("a 1000000000000\nb\na.Of -> b.finit").task_graph) == 2


def test_loops_can_be_cut_short() -> None:
    unrolling = made(CALL.format(10**9), max_iterations=3)
    assert runs(unrolling) == {"m": 1, "u": 3}
    assert not unrolling.is_exact


def test_a_model_that_decides_by_itself_when_to_stop_is_not_exact() -> None:
    assert not made("a until\nb 5\na.Oi -> b.S").is_exact


def test_every_copy_of_a_multiplied_instance_is_told_apart() -> None:
    unrolling = made(
        "m 2\nspread mapper\nw x3\njoin mapper\nm.Oi -> spread\nspread -> w.finit\nw.Of -> join\njoin -> m.S"
    )
    assert runs(unrolling) == {"m": 1, "spread": 2, "w[0]": 2, "w[1]": 2, "w[2]": 2, "join": 2}
    labels = {unrolling.task_graph.label(node) for node in range(len(unrolling.task_graph))}
    assert {"w[0]", "w[2][1]", "join[1]"} <= labels


@pytest.mark.parametrize(
    ("filters", "through"),
    [
        ("drop 2", 3),
        ("sum 2", 2),
        ("repeat 3", 15),
        ("lineartimeinterpolation 2", 9),
        ("last", 1),
        ("null", 0),
        ("repeat 2 | drop 3", 4),
        ("reduction 5", 1),
        ("interpolation 2", 10),
        ("converter", 5),
    ],
)
def test_filters_change_the_number_of_messages(filters: str, through: int) -> None:
    unrolling = made(f"a 5\nb\na.Oi -> b.finit | {filters}")
    assert counts(unrolling) == {"a.Oi -> b.finit": (5, through, through)}
    assert runs(unrolling)["b"] == through


def test_the_state_of_a_filter_runs_on_over_the_runs_of_the_sender() -> None:
    unrolling = made("m 3\nu 2\nb\nm.Oi -> u.finit\nu.Oi -> b.finit | sum 4")
    assert counts(unrolling)["u.Oi -> b.finit"] == (6, 1, 1)


def test_last_lets_go_at_the_end_of_every_run() -> None:
    unrolling = made("m 3\nu 2\nb\nm.Oi -> u.finit\nu.Oi -> b.finit | last")
    assert counts(unrolling)["u.Oi -> b.finit"] == (6, 3, 3)
    graph = unrolling.task_graph
    senders = {
        graph.label(node) for node, channel in zip(graph.message_from, graph.message_channel, strict=True) if channel
    }
    assert senders == {"u(1,S-Of)", "u[1](1,S-Of)", "u[2](1,S-Of)"}


def test_a_pair_that_interpolates_both_ways_waits_for_itself() -> None:
    net = network(model("a 2\nb 6\na.Oi -> b.S | lineartimeinterpolation 3\nb.Oi -> a.S | sum 3"))
    came = outcome(net, unroll(net).final)
    assert [[came.blocked[number].name for number in cycle] for cycle in came.cycles] == [["a", "b"]]


def test_a_source_sends_what_it_holds() -> None:
    text = "t source\nb\nt -> b.finit"
    assert runs(made(text))["b"] == 1
    assert runs(made(text, {"t": 4}))["b"] == 4


def test_an_endless_source_sends_what_is_asked_for() -> None:
    unrolling = made("t source repeat=yes\nm mapper\na 5\nt -> m\nm -> a.S")
    assert runs(unrolling) == {"t": 5, "m": 5, "a": 1}
    assert all(stop.finished for stop in unrolling.final.stops)


def test_an_endless_source_is_asked_until_enough_comes_through_a_filter() -> None:
    assert counts(made("t source repeat=yes\na 3\nt -> a.S | sum 4"))["t.out -> a.S"] == (12, 3, 3)


def test_an_endless_source_behind_a_filter_that_lets_nothing_through_ends() -> None:
    unrolling = made("t source repeat=yes\na 3\nt -> a.S | null")
    assert unrolling.final.stops[1].missing == (0,)


def test_an_endless_source_that_alone_calls_counts_as_sending_once() -> None:
    assert runs(made("t source repeat=yes\na\nt -> a.finit")) == {"t": 1, "a": 1}


def test_an_endless_source_is_asked_only_when_everything_else_came() -> None:
    unrolling = made("t source repeat=yes\na 2\nb\nt -> b.finit\na.Oi -> b.finit")
    assert runs(unrolling) == {"t": 2, "a": 1, "b": 2}


def test_a_sink_takes_all() -> None:
    assert counts(made("a 3\nk sink\na.Oi -> k")) == {"a.Oi -> k.in": (3, 3, 3)}


def test_who_waits_at_s_lacks_what_is_missing_at_b_too() -> None:
    unrolling = made("a\nb\na.Oi -> b.S | null\na.Oi -> b.B | null")
    stop = unrolling.final.stops[1]
    assert (stop.operator, stop.missing) == ("S", (0, 1))


def test_a_blocked_operator_knows_the_node_before_it_and_what_waits_for_it() -> None:
    graph = made("a\nb 2\nc 2\na.Oi -> b.S\nc.Oi -> b.S").task_graph
    (task,) = graph.blocked
    assert (task.process, task.run, task.iteration, task.operator) == (1, 0, 1, "S")
    assert task.after is not None
    assert graph.label(task.after) == "b(0-1,finit-Oi)"
    assert [graph.label(node) for node, _ in task.delivered] == ["c(0-1,S-Oi)"]


def test_the_graph_can_be_had_as_objects() -> None:
    net = network(model("a 2\nb 3 stateful\na.Oi -> b.S\nb.Oi -> a.S"))
    graph = unroll(net).task_graph
    objects = graph.to_networkx()
    assert objects.number_of_nodes() == len(graph) + 1
    assert objects.number_of_edges() == graph.edge_count + 1
    labels = {data["label"]: data for _, data in objects.nodes(data=True)}
    assert labels["a(0,finit-Oi)"]["start"]
    assert labels["a(1,S-Of)"]["end"]
    assert labels["Deadlock[b(2,S)]"]["blocked"]
    kinds = {data["kind"] for _, _, data in objects.edges(data=True)}
    assert kinds == {"message", "step"}


def test_last_lets_go_at_the_end_of_loops_that_are_cut_short() -> None:
    unrolling = made("m 3\nu 9\nb\nm.Oi -> u.finit\nu.Oi -> b.finit | last", max_iterations=2)
    assert counts(unrolling)["u.Oi -> b.finit"] == (4, 2, 2)
