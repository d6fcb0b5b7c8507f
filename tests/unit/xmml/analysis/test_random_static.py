"""Random models: what is said without walking through the steps is what following every message gives."""

from __future__ import annotations

import pytest
from random_networks import random_text
from small_models import model
from wan.soak import LONG

from xmml.analysis.network import Network, network
from xmml.analysis.outcome import Outcome, outcome
from xmml.analysis.static import StaticAnalysis, static_analysis
from xmml.analysis.unrolling import Unrolling, unroll
from xmml.analysis.verdict import certain_conflicts

FULL = 10_000
#: Models in one test, so that the tests are few and a failure still says where to look.
BATCH = 100
NUMBER = FULL if LONG else FULL // 20


@pytest.mark.parametrize("first", range(0, NUMBER, BATCH))
def test_static_analysis_agrees_with_following_every_message(first: int) -> None:
    for seed in range(first, first + BATCH):
        text = random_text(seed)
        net = network(model(text))
        unrolling = unroll(net, node_limit=100_000)
        if unrolling.truncated:
            continue
        found, end = static_analysis(net), outcome(net, unrolling.final)
        where = f"seed {seed}:\n{text}\n{[conflict.words for conflict in found.conflicts]}"
        check_verdict(net, found, end, where)
        if end.finished:
            check_counts(net, found, unrolling, end, where)


def check_verdict(net: Network, found: StaticAnalysis, end: Outcome, where: str) -> None:
    if found.conflicts:
        assert not end.finished, where
    if found.is_conclusive:
        assert end.finished, where
    if unguessed(net):
        assert bool(certain_conflicts(net, found)) == (not end.finished), where


def check_counts(net: Network, found: StaticAnalysis, unrolling: Unrolling, end: Outcome, where: str) -> None:
    stops = unrolling.final.stops
    for name, own in net.by_instance.items():
        assert found.runs[name].value == sum(stops[process].runs for process in own), f"{where}\nruns of {name}"
    for number, channels in enumerate(net.by_coupling):
        for told, counted in (
            (found.sent, unrolling.final.sent),
            (found.delivered, unrolling.final.delivered),
            (found.received, unrolling.final.received),
        ):
            assert told[number].value == sum(counted[channel] for channel in channels), f"{where}\n{number}"
        if unguessed(net):
            left = sum(end.unconsumed.get(channel, 0) for channel in channels)
            assert found.unconsumed[number] == left, f"{where}\n{number}"


def unguessed(net: Network) -> bool:
    """Whether no filter of the user's own decides."""
    return all(channel.filters.is_exact for channel in net.channels)
