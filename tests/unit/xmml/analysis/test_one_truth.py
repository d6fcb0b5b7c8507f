"""Random models: all analyses say the same about them as walking through them one step at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_models import random_model
from sequential_walk import Expected, expect
from wan.soak import LONG

from xmml.analysis.capacity import capacities
from xmml.analysis.network import Network, network
from xmml.analysis.outcome import outcome
from xmml.analysis.self_timed import simulate
from xmml.analysis.static import Count, static_analysis
from xmml.analysis.unrolling import unroll

CASES = 10_000 if LONG else 500
#: Tests of so many models each, so that a failure is found fast and named.
GROUPS = 10


def networks(group: int) -> list[tuple[str, Network, Expected]]:
    """The models of one group in words, as networks, and what must come of them."""
    found = []
    for seed in range(group, CASES, GROUPS):
        made = random_model(seed)
        net = network(made.model, made.fires)
        found.append((f"seed {seed}\n{made.text}\n{made.fires}", net, expect(net)))
    return found


@pytest.mark.parametrize("group", range(GROUPS))
def test_unrolling_gives_what_walking_gives(group: int) -> None:
    for words, net, expected in networks(group):
        unrolling = unroll(net)
        final = unrolling.final
        assert not unrolling.truncated, words
        assert tuple(stop.runs for stop in final.stops) == expected.runs, words
        assert (final.sent, final.delivered, final.received) == (
            expected.sent,
            expected.delivered,
            expected.received,
        ), words
        graph = unrolling.task_graph
        received = sum(
            number for number, channel in zip(final.received, net.channels, strict=True) if not channel.is_state
        )
        assert len(graph.message_from) == received, words
        came = outcome(net, final)
        sources = {process.index for process in net.processes if process.fires is None}
        assert {stop.process for stop in final.stops if stop.finished} - sources == expected.left, words
        assert came.finished == (expected.outcome == "done"), words
        assert {came.blocked[number].process for number in came.starved} == expected.failed, words
        assert {each.process for each in came.blocked if each.reason == "cycle"} == expected.deadlocked, words
        for stop in final.stops:
            assert stop.finished or set(stop.missing) == expected.waiting.get(stop.process, set()), words


@pytest.mark.parametrize("group", range(GROUPS))
def test_whether_a_graph_is_collapsed_changes_nothing(group: int) -> None:
    for words, net, _ in networks(group):
        collapsed, whole = unroll(net), unroll(net, collapse=False)
        assert collapsed.final == whole.final, words
        assert len(collapsed.task_graph) <= len(whole.task_graph), words
        for graph in (collapsed.task_graph, whole.task_graph):
            place = {node: number for number, node in enumerate(graph.order)}
            assert len(place) == len(graph), words
            assert all(place[one] < place[other] for one, other, _, _ in graph.edges()), words


@pytest.mark.parametrize("group", range(GROUPS))
def test_the_static_analysis_agrees_with_walking(group: int) -> None:
    for words, net, expected in networks(group):
        said = static_analysis(net)
        if said.conflicts:
            assert expected.outcome != "done", (words, said.conflicts)
        if said.is_conclusive:
            assert expected.outcome == "done", words
        if expected.outcome != "done":
            continue
        runs = {name: sum(expected.runs[process] for process in own) for name, own in net.by_instance.items()}
        for name, count in said.runs.items():
            assert agrees(count, runs[name]), (words, name, count, runs[name])
        for number, own in enumerate(net.by_coupling):
            for counts, walked in (
                (said.sent, expected.sent),
                (said.delivered, expected.delivered),
                (said.received, expected.received),
            ):
                together = sum(walked[channel] for channel in own)
                assert agrees(counts[number], together), (words, str(net.model.couplings[number]), counts[number])
            left = sum(expected.delivered[channel] - expected.received[channel] for channel in own)
            assert said.unconsumed[number] <= left, words


@pytest.mark.parametrize("group", range(GROUPS))
def test_the_simulation_with_room_for_everything_ends_as_unrolling_does(group: int) -> None:
    for words, net, expected in networks(group):
        final = simulate(net, [10**9] * len(net.channels)).final
        for stop, runs in zip(final.stops, expected.runs, strict=True):
            endless = net.processes[stop.process].fires is None  # somebody stuck may have asked it before or not
            assert stop.runs == runs or (endless and expected.outcome != "done"), words
        came, unrolled = outcome(net, final), outcome(net, unroll(net).final)
        assert came.finished == (expected.outcome == "done"), words
        assert [(each.name, each.run, each.iteration, each.reason, each.leaves) for each in came.blocked] == [
            (each.name, each.run, each.iteration, each.reason, each.leaves) for each in unrolled.blocked
        ], words
        assert came.starved == unrolled.starved, words
        if came.finished:
            assert (final.sent, final.delivered, final.received) == (
                expected.sent,
                expected.delivered,
                expected.received,
            ), words


@pytest.mark.parametrize("group", range(GROUPS))
def test_the_capacities_that_are_chosen_let_every_model_finish_that_can(group: int) -> None:
    for words, net, expected in networks(group):
        if expected.outcome != "done":
            continue
        free = replace(net, channels=tuple(replace(channel, capacity=None) for channel in net.channels))
        found = capacities(free)
        for each in (found.least, found.chosen):
            final = simulate(net, each).final
            assert outcome(net, final).finished, words
            assert tuple(stop.runs for stop in final.stops) == expected.runs, words
            assert final.received == expected.received, words


def agrees(count: Count, value: int) -> bool:
    if count.value is None:
        return True
    return value <= count.value if count.at_most else value == count.value
