"""Capacities: the least that keeps a model going, and what conduits are given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bounds import bounded_time
from random_timing import random_timing
from small_models import model
from timed_walk import walk
from wan.soak import LONG

from xmml.analysis.capacity import SLACK, capacities
from xmml.analysis.network import network

MIB = 1024 * 1024
CASES = 10_000 if LONG else 500
GROUPS = 10
ROOM = 10**9


def least(text: str) -> tuple[int, ...]:
    return capacities(network(model(text))).least


@pytest.mark.parametrize("group", range(GROUPS))
def test_nobody_waits_for_room_for_ever_and_no_conduit_could_be_smaller(group: int) -> None:
    for seed in range(group, CASES, GROUPS):
        timing = random_timing(seed)
        net, delays = timing.network, timing.delays
        found = capacities(net)
        unlimited = walk(net, [ROOM] * len(net.channels), delays)
        if not unlimited.finished:
            continue  # then a sender may wait for somebody who waits for ever
        fixed_too_small = any(room < needed for room, needed in zip(found.chosen, found.least, strict=True))
        for room in (found.least, found.least if fixed_too_small else found.chosen):
            walked = walk(net, room, delays)
            assert (walked.runs, walked.received) == (unlimited.runs, unlimited.received), timing.words
        assert found.is_least, timing.words
        for channel, size in enumerate(found.least):
            if size > 1:
                smaller = [each - (number == channel) for number, each in enumerate(found.least)]
                assert walk(net, smaller, delays).full, timing.words


def test_a_sender_that_must_be_ahead_gets_the_room_it_needs() -> None:
    assert least("a 5\nb 1\nc 1\na.Oi -> b.finit\na.Of -> c.finit\nc.Of -> b.finit") == (5, 1, 1)


def test_call_and_release_need_one_message() -> None:
    assert least("m 10\nu 1\nm.Oi -> u.finit\nu.Of -> m.S") == (1, 1)


def test_what_a_filter_holds_back_needs_no_room() -> None:
    assert least("a 10\nb 1\nc 1\na.Oi -> b.finit | drop 5\na.Of -> c.finit\nc.Of -> b.S") == (1, 1, 1)


def test_small_messages_get_slack() -> None:
    assert capacities(network(model("a 9\nb 9\na.Oi -> b.S size=8"))).chosen == (1 + SLACK,)


def test_large_messages_keep_to_the_byte_budget_of_which_one_always_fits() -> None:
    text = "a 9\nb 9\na.Oi -> b.S size={}"
    assert capacities(network(model(text.format(20 * MIB)))).chosen == (3,)
    assert capacities(network(model(text.format(200 * MIB)))).chosen == (1,)
    assert capacities(network(model(text.format(8))), byte_budget=40).chosen == (5,)


def test_what_the_model_fixes_is_kept() -> None:
    assert capacities(network(model("a 9\nb 9\na.Oi -> b.S capacity=3"))).chosen == (3,)


def test_freedom_from_deadlock_goes_before_the_byte_budget() -> None:
    text = "a 5\nb 1\nc 1\na.Oi -> b.finit size=50000000\na.Of -> c.finit\nc.Of -> b.finit"
    found = capacities(network(model(text)))
    assert found.chosen[0] == found.least[0] == 5
    assert found.byte_budget[0] == 250_000_000


def test_the_number_of_steps_costs_nothing() -> None:
    net = network(model("m 9\ne 9\nu 9\nm.Oi -> e.finit\ne.Of -> m.S\ne.Oi -> u.finit\nu.Of -> e.S\nu.Oi -> u.S"))
    net = replace(net, processes=tuple(replace(process, steps=10**9) for process in net.processes))
    with bounded_time():
        assert capacities(net).least == (1, 1, 1, 1, 1)
