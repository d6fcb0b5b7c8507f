"""When tasks begin if nothing holds them up."""

from __future__ import annotations

import dataclasses
import random

import small_models
from random_models import random_model
from wan.soak import LONG

from xmml.analysis.network import network
from xmml.analysis.self_timed import simulate
from xmml.analysis.task_graph import TaskGraph
from xmml.analysis.unrolling import unroll
from xmml.graphs.task_times import task_times

S = 1_000_000_000


def graph_of(sketch: str, collapse: bool = True) -> TaskGraph:
    return unroll(network(small_models.model(sketch)), collapse=collapse).task_graph


def times_by_label(sketch: str) -> dict[str, tuple[float, float]]:
    graph = graph_of(sketch)
    times = task_times(graph)
    return {graph.label(node): (times.begin[node] / S, times.end[node] / S) for node in range(len(graph))}


def test_a_dispatched_run_begins_when_the_one_before_it_ends() -> None:
    found = times_by_label("a 1 runtime=2\nb 1 runtime=3\na.Of -> b.finit")
    assert found == {"a": (0, 2), "b": (2, 5)}


def test_a_run_waits_for_the_last_of_its_messages() -> None:
    found = times_by_label("a 1 runtime=2\nb 1 runtime=5\nc 1 runtime=1\na.Of -> c.finit.i\nb.Of -> c.finit.j")
    assert found["c"] == (5, 6)


def test_a_macro_model_pays_for_its_iterations_after_its_micro_model() -> None:
    found = times_by_label("m 2 runtime=4\nu 1 runtime=10\nm.Oi -> u.finit\nu.Of -> m.S")
    assert found["m(0,finit-Oi)"] == (0, 0)
    assert found["u"] == (0, 10)
    assert found["m(0-1,S-Oi)"] == (10, 12)
    assert found["u[1]"] == (12, 22)
    assert found["m(1,S-Of)"] == (22, 24)


def test_a_stateful_instance_runs_one_run_after_the_other() -> None:
    sketch = "a 2\nu 1 runtime=10 stateful\na.Oi -> u.finit"
    assert times_by_label(sketch)["u[1]"] == (10, 20)


def test_an_instance_makes_one_run_after_the_other() -> None:
    sketch = "a 2\nu 1 runtime=10\na.Oi -> u.finit"
    assert times_by_label(sketch)["u[1]"] == (10, 20)


def test_nothing_ends_earlier_or_later_than_in_a_simulation_with_large_conduits() -> None:
    for seed in range(200 if LONG else 40):
        rng = random.Random(seed)
        runtimes = {}
        plain = network(random_model(seed).model)
        for process in plain.processes:
            runtimes.setdefault(process.instance, rng.choice([0, 1, 2, 7]) * process.steps * S)
        processes = (dataclasses.replace(each, runtime_ns=runtimes[each.instance]) for each in plain.processes)
        timed = dataclasses.replace(plain, processes=tuple(processes))
        unrolling = unroll(timed, node_limit=20_000)
        times = task_times(unrolling.task_graph)
        if not unrolling.truncated and not times.is_depth:
            assert simulate(timed, [10**9] * len(timed.channels)).makespan_ns == times.makespan, f"seed {seed}"


def test_collapsed_and_uncollapsed_graphs_take_equally_long() -> None:
    sketch = "a 3 runtime=3\nb 3 runtime=6\na.Oi -> b.S\nb.Oi -> a.S"
    assert task_times(graph_of(sketch)).makespan == task_times(graph_of(sketch, collapse=False)).makespan == 6 * S


def test_iterations_that_send_nothing_wait_for_their_own_messages_only() -> None:
    found = times_by_label("a 3 runtime=30\nb 3 runtime=3\na.Oi -> b.S")
    assert found["b"] == (0, 21)


def test_a_source_without_end_costs_nothing() -> None:
    found = times_by_label("s source repeat=yes\nb 2 runtime=4\ns -> b.S")
    assert found["b"] == (0, 4)


def test_without_run_times_times_are_depths() -> None:
    times = task_times(graph_of("a 1\nb 1\nc 1\na.Of -> b.finit\nb.Of -> c.finit"))
    assert times.is_depth
    assert sorted(times.end) == [1, 2, 3]


def test_the_critical_path_is_the_longest_chain() -> None:
    graph = graph_of("a 1 runtime=2\nb 1 runtime=5\nc 1 runtime=1\na.Of -> c.finit.i\nb.Of -> c.finit.j")
    assert [graph.label(node) for node in task_times(graph).critical] == ["b", "c"]
