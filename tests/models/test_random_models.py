"""Random models for real: the outcome, the runs and the messages are those that their semantics demand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from model_runs import run_document
from random_models import RandomModel, random_model
from sequential_walk import Expected, expect
from wan.soak import LONG

from xmml.analysis.network import Network, network

#: Exit statuses by outcome. Where one part fails and another one is stuck, either may be noticed first.
STATUSES = {"done": {0}, "deadlock": {6}, "failed": {4, 6}}
#: So many models of each outcome; with XMML_SOAK=1 as many more as there are in a larger number of seeds.
FEW = {"done": 8, "deadlock": 3, "failed": 2}
MANY_SEEDS = 200


def made(seed: int) -> tuple[RandomModel, Network, Expected]:
    model = random_model(seed)
    net = network(model.model, model.fires)
    return model, net, expect(net)


def seeds() -> list[int]:
    if LONG:
        return list(range(MANY_SEEDS))
    chosen: list[int] = []
    found: Counter[str] = Counter()
    for seed in range(MANY_SEEDS):
        outcome = made(seed)[2].outcome
        if found[outcome] < FEW[outcome]:
            found[outcome] += 1
            chosen.append(seed)
    return chosen


@pytest.mark.parametrize("methods", ["hosted", "shm", "unix", "tcp"])
@pytest.mark.parametrize("seed", seeds())
def test_a_random_model_does_what_its_semantics_demand(tmp_path: Path, seed: int, methods: str) -> None:
    model, net, expected = made(seed)
    is_hosted = methods == "hosted"
    path = model.write(tmp_path, free=expected.outcome != "done", hosted=is_hosted)
    options = ["--hosts", "1"] if is_hosted else []
    run = run_document(path, *options, env=None if is_hosted else {"XMML_METHODS": methods}, status=None)
    words = f"seed {seed}\n{model.text}\n{model.fires}\n{run.stderr}"
    if expected.outcome != "done" and run.status == 1:
        assert "error[E21]" in run.stderr, words  # nobody could ever have started
        return
    assert run.status in STATUSES[expected.outcome], words
    if expected.outcome == "done":
        check_counts(net, expected, run.report["instances"], words)
    elif run.status == 6:
        check_members(net, expected, run.stderr, words)


def check_counts(net: Network, expected: Expected, report: Mapping[str, Mapping[str, int]], words: str) -> None:
    """Everybody ran as often, and took and sent as many messages, as expected.

    Messages are counted where they leave and arrive, which filters change at the one or the other end.
    """
    endless = {process.index for process in net.processes if process.kind == "terminal" and process.fires is None}
    for process in net.processes:
        if process.index in endless:
            continue  # how far it is ahead of who asks is a matter of chance
        told = report[process.name]
        received = sum(expected.received[channel] for channel in process.inputs)
        sent = sum(expected.sent[channel] for channel in process.outputs)
        dropped = any(expected.delivered[channel] > expected.received[channel] for channel in process.outputs)
        if process.kind != "terminal":  # which count messages, not runs
            assert told["runs"] == expected.runs[process.index], (process.name, words)
        if not is_filtered(net, process.inputs):
            assert told["messages_received"] == received, (process.name, words)
        if not dropped and not is_filtered(net, process.outputs):  # dropped: to somebody who left, sooner or later
            assert told["messages_sent"] == sent, (process.name, words)


def check_members(net: Network, expected: Expected, stderr: str, words: str) -> None:
    """Who is told to wait in a deadlock does wait, and most of them for each other."""
    waiting = set(re.findall(r"(\S+) waits at \S+ for", stderr))
    names = {net.processes[process].name for process in expected.deadlocked}
    assert waiting, words
    assert waiting <= names, (waiting, names, words)


def is_filtered(net: Network, channels: Sequence[int]) -> bool:
    return any(not net.channels[channel].filters.is_identity for channel in channels)
