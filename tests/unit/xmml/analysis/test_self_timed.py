"""Self-timed execution: exact times and counts, whatever the number of steps."""

from __future__ import annotations

import random

import pytest
from random_models import random_model
from random_timing import random_timing
from small_models import model
from timed_walk import walk
from wan.soak import LONG

from xmml.analysis.critical_path import critical_path
from xmml.analysis.leaving import on_demand
from xmml.analysis.network import Network, network
from xmml.analysis.self_timed import SelfTimed, simulate
from xmml.analysis.unrolling import unroll

S = 1_000_000_000
MANY = 10**9
CASES = 10_000 if LONG else 500
GROUPS = 10


def simulated(text: str, capacity: int = 16, **options: object) -> tuple[Network, SelfTimed]:
    net = network(model(text))
    return net, simulate(net, [capacity] * len(net.channels), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("group", range(GROUPS))
def test_times_and_counts_are_those_of_walking_through_every_message(group: int) -> None:
    for seed in range(group, CASES, GROUPS):
        timing = random_timing(seed)
        found = simulate(timing.network, timing.capacities, delays_ns=timing.delays)
        walked = walk(timing.network, timing.capacities, timing.delays)
        asked = on_demand(timing.network)
        own = [process.index for process in timing.network.processes if process.index not in asked]
        sent = [channel.index for channel in timing.network.channels if channel.sender not in asked]
        assert found.is_complete, timing.words
        assert [found.end_ns[each] for each in own] == [walked.ended[each] for each in own], timing.words
        assert [found.busy_ns[each] for each in own] == [walked.busy[each] for each in own], timing.words
        assert [found.final.stops[each].runs for each in own] == [walked.runs[each] for each in own], timing.words
        assert [found.final.sent[each] for each in sent] == [walked.sent[each] for each in sent], timing.words
        assert bool(found.full) == walked.full, timing.words
        assert all(peak <= room for peak, room in zip(found.peak, timing.capacities, strict=True)) or asked


@pytest.mark.parametrize("group", range(GROUPS))
def test_the_critical_path_adds_up_to_the_makespan(group: int) -> None:
    for seed in range(group, CASES, GROUPS):
        timing = random_timing(seed)
        found = simulate(timing.network, timing.capacities, delays_ns=timing.delays)
        path = critical_path(timing.network, found.history, found.end_ns)
        assert sum(part.time_ns for part in path) == found.makespan_ns, timing.words


@pytest.mark.parametrize("group", range(GROUPS))
def test_with_room_for_all_messages_everything_ends_as_if_unrolled(group: int) -> None:
    for seed in range(group, CASES, GROUPS):
        made = random_model(seed)
        net = network(made.model, made.fires)
        final = simulate(net, [MANY] * len(net.channels)).final
        assert final == unroll(net).final, f"seed {seed}\n{made.text}\n{made.fires}"


def test_submodels_that_exchange_in_each_iteration_go_at_the_pace_of_the_slower_one() -> None:
    net, found = simulated("a 4 runtime=4\nb 4 runtime=12\na.Oi -> b.S\nb.Oi -> a.S")
    assert found.makespan_ns == 12 * S
    assert found.busy_ns == (4 * S, 12 * S)
    assert critical_path(net, found.history, found.end_ns)[-1].process == 1


def test_a_macro_model_and_the_micro_model_it_calls_take_turns() -> None:
    _, found = simulated("m 3 runtime=3\nu 1 runtime=5\nm.Oi -> u.finit\nu.Of -> m.S")
    assert found.makespan_ns == 18 * S
    assert found.begin_ns == (0, 0)
    assert found.final.stops[1].runs == 3


def test_a_fast_sender_waits_for_places() -> None:
    _, unhindered = simulated("a 10 runtime=10\nb 10 runtime=100\na.Oi -> b.S", 100)
    _, held_up = simulated("a 10 runtime=10\nb 10 runtime=100\na.Oi -> b.S", 2)
    assert unhindered.end_ns == (10 * S, 100 * S)
    assert unhindered.peak == (9,)
    assert held_up.end_ns == (70 * S + S, 100 * S)
    assert held_up.peak == (2,)


def test_messages_take_their_time() -> None:
    net, found = simulated("a 1 runtime=2\nb 1 runtime=3\na.Of -> b.finit", delays_ns=[7])
    assert found.makespan_ns == 5 * S + 7
    path = critical_path(net, found.history, found.end_ns)
    assert [(part.process, part.what) for part in path] == [(0, "computing"), (1, "message"), (1, "computing")]


LOOPS = {
    "two that interact": "a 1000000000 runtime=1\nb 1000000000 runtime=2\na.Oi -> b.S\nb.Oi -> a.S",
    "one that waits for places": "a 1000000000 runtime=1\nb 1000000000 runtime=2\na.Oi -> b.S",
    "a loop in a loop in a loop": "m 1000000000 runtime=1\ne 1000000 runtime=1\nu 1000000 runtime=2\n"
    "m.Oi -> e.finit\ne.Of -> m.S\ne.Oi -> u.finit\nu.Of -> e.S\nv 1000000 runtime=3\nu.Oi -> v.S\nv.Oi -> u.S",
    "filters between": "a 1000000000 runtime=1\nb 100000000 runtime=2\na.Oi -> b.S | drop 10",
    "everything in no time": "m 1000000000\nu 1\nm.Oi -> u.finit\nu.Of -> m.S",
    "two loops that have nothing to do with each other": "a 100000000 runtime=1.000000007\nb 100000000 runtime=7\n"
    "a.Oi -> b.S\nb.Oi -> a.S\nc 99999999 runtime=1.234567\nd 99999999 runtime=9.876543\nc.Oi -> d.S\nd.Oi -> c.S",
    "two called loops that go their own ways": "m 1000000 runtime=1\nu 1000000 runtime=1.000003\n"
    "v 1000000 runtime=1.777777\nm.Oi -> u.finit\nu.Of -> m.S\nm.Oi -> v.finit\nv.Of -> m.S\nu.Oi -> u.S\nv.Oi -> v.B",
}


@pytest.mark.parametrize("name", LOOPS)
def test_long_loops_cost_no_more_than_short_ones(name: str) -> None:
    net, found = simulated(LOOPS[name])
    assert found.is_complete
    assert found.events < 1_000
    path = critical_path(net, found.history, found.end_ns)
    assert sum(part.time_ns for part in path) == found.makespan_ns


def test_a_million_million_steps_give_exact_numbers() -> None:
    _, found = simulated(LOOPS["a loop in a loop in a loop"])
    # v, which is not called, runs once: the first run of u uses up its loop, and nobody feeds the second one
    assert found.final.received[4] == 1_000_000
    _, found = simulated("m 1000000000 runtime=1\nu 1000000000 runtime=3\nm.Oi -> u.finit\nu.Of -> m.S\nu.Oi -> u.S")
    assert found.final.sent[2] == 10**18
    assert found.makespan_ns == (3 * 10**9 + 1) * S


def test_the_cycle_time_is_that_of_the_slowest_cycle() -> None:
    _, found = simulated("a 1000 runtime=1000\nb 1000 runtime=3000\nc 1000 runtime=2000\na.Oi -> b.S\nb.Oi -> c.S", 4)
    assert found.period_ns == 3 * S


def test_a_cycle_of_messages_is_as_slow_as_its_travel_times() -> None:
    text = "a 1000 runtime=1000\nb 1000 runtime=1000\na.Oi -> b.S\nb.Oi -> a.S"
    _, found = simulated(text, delays_ns=[2 * S, 4 * S])
    assert found.period_ns == 4 * S  # in two iterations of 1 s both messages travel once


def test_a_receiver_that_has_left_holds_nobody_up() -> None:
    _, found = simulated("a 100 runtime=100\nb 10 runtime=10\na.Oi -> b.S", 2)
    assert found.end_ns[0] == 100 * S
    assert not found.full


def test_full_channels_of_an_artificial_deadlock_are_named() -> None:
    net, found = simulated("a 4\nb 1\na.Oi -> b.S\nb.Of -> a.S", 1)
    assert found.full == ()
    assert found.final.stops[0].operator == "S"
    net, found = simulated("a 4\nb 1\nc 1\na.Oi -> b.finit\na.Of -> c.finit\nc.Of -> b.finit", 1)
    assert [net.channels[each].name for each in found.full] == ["a.Oi -> b.finit"]


def test_a_limit_ends_what_never_repeats_itself() -> None:
    _, found = simulated("a 100000 runtime=100000\nb 100000 runtime=200000\na.Oi -> b.S", 10**6, event_limit=500)
    assert not found.is_complete
    assert 0 < found.makespan_ns < 100_000 * S


def test_thousands_of_processes_are_simulated_in_few_steps() -> None:
    lines = [f"i{number} 1000000 runtime=1000000" for number in range(1000)]
    lines += [f"i{number}.Oi -> i{(number + 1) % 1000}.S" for number in range(1000)]
    _, found = simulated("\n".join(lines))
    assert found.makespan_ns == 1_000_000 * S
    assert found.events < 100_000


def test_more_conduits_than_processes_are_followed_in_a_moment_without_any_times() -> None:
    choose = random.Random(1)
    lines = [f"i{number} 1000" for number in range(300)]
    lines += [f"i{choose.randrange(300)}.Oi.o{n} -> i{choose.randrange(300)}.S.p{n}" for n in range(6000)]
    _, found = simulated("\n".join(lines), 1, timed=False)
    assert found.is_complete
    assert found.events < 100_000
