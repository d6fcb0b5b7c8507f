"""What filters let through, counted in advance, against a chain that is fed message by message."""

from __future__ import annotations

import random

import pytest

from xmml.analysis.filter_counts import COUNTABLE, FilterCounts, filter_counts
from xmml.analysis.filter_numbers import countable_outputs
from xmml.model import AppliedFilter, Filter

COUNTING = ("sum", "mean", "drop", "repeat", "extrapolate", "lineartimeinterpolation", "chunk", "dechunk", "null")


def applied(*names: str) -> list[AppliedFilter]:
    """`"sum 3"`, `"last"`: built-in filters with their factors."""
    chain = []
    for name in names:
        name, _, factor = name.partition(" ")
        definition = Filter(name, type="converter")
        chain.append(AppliedFilter(definition, float(factor) if factor else None, {}))
    return chain


class Fed:
    """A chain that counts messages as it gets them, and knows what each `last` holds."""

    def __init__(self, counts: FilterCounts) -> None:
        self.stages = counts.stages
        self.into = [0] * len(counts.stages)
        self.held = [False] * (len(counts.stages) - 1)
        self.out = 0

    def _feed(self, stage: int, messages: int) -> None:
        def through() -> int:
            count = self.into[stage]
            for function in self.stages[stage]:
                count = function(count)
            return count

        before = through()
        self.into[stage] += messages
        new = through() - before
        if stage == len(self.held):
            self.out += new
        elif new:
            self.held[stage] = True

    def send(self) -> None:
        self._feed(0, 1)

    def end_run(self) -> None:
        for stage in range(len(self.held)):
            if self.held[stage]:
                self.held[stage] = False
                self._feed(stage + 1, 1)


@pytest.mark.parametrize("seed", range(40))
def test_as_many_messages_come_out_as_are_counted_in_advance(seed: int) -> None:
    choose = random.Random(seed)
    names = [
        choose.choice(["last", f"{choose.choice(COUNTING[:-1])} {choose.randint(1, 4)}"])
        for _ in range(choose.randint(0, 4))
    ]
    per_run = choose.randint(1, 6)
    counts = filter_counts(applied(*names), per_run=per_run)
    fed = Fed(counts)
    for run in range(12):
        for number in range(1, per_run + 1):
            fed.send()
            assert counts.outputs(run * per_run + number, run) == fed.out, (names, per_run, run, number)
        fed.end_run()
        assert counts.outputs((run + 1) * per_run, run + 1) == fed.out, (names, per_run, run)


def test_a_run_in_which_nothing_reached_last_lets_nothing_go() -> None:
    counts = filter_counts(applied("sum 2", "repeat 3", "last"))
    assert [counts.outputs(runs, runs) for runs in range(7)] == [0, 0, 1, 1, 2, 2, 3]


def test_last_alone_is_counted_at_once_however_many_runs_there_are() -> None:
    counts = filter_counts(applied("sum 2", "last", "repeat 3"), per_run=10**6)
    assert counts.outputs(10**15, 10**9) == 3 * 10**9


def test_filters_that_declare_ever_more_messages_are_counted_at_once() -> None:
    many = AppliedFilter(Filter("own", type="interpolation"), 1e300, {})
    counts = filter_counts([many] * 3000)
    assert counts.outputs(1) == COUNTABLE
    assert countable_outputs(counts, 1, 1) is None
