"""Whether a model finishes: decided statically, by following its messages, or in leaps."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from bounds import bounded_time
from small_models import model

from xmml.analysis.network import network
from xmml.analysis.static import static_analysis
from xmml.analysis.verdict import certain_conflicts

#: The first message of `u` comes through at once, the second only with the third run that `a` would have to ask for.
LATE = "a {steps}\nu 1\na.Oi -> u.finit | drop 2\nu.Of -> a.S | lineartimeinterpolation 3"


def verdict(text: str, uncertain: Collection[str] = ()) -> list[str]:
    net = network(model(text))
    return [conflict.words for conflict in certain_conflicts(net, static_analysis(net, uncertain), uncertain)]


@pytest.mark.parametrize("steps", [4, 400_000_000])
def test_a_deadlock_after_the_first_step_is_found_however_long_the_model(steps: int) -> None:
    with bounded_time():
        found = verdict(LATE.format(steps=steps))
    assert found == [
        "deadlock: a.S waits for message 2 of u.Of in step 2; u.finit waits for message 2 of a.Oi to begin run 2"
    ]


def test_a_model_that_no_static_rule_decides_is_followed() -> None:
    text = "i 3\nj 3\nk 6\ni.Oi -> j.finit\nj.Of -> k.finit | last\nk.Oi -> k.S\nj.Oi -> j.S"
    assert verdict(text) == []


def test_nothing_is_said_of_a_program_that_decides_when_to_stop() -> None:
    assert verdict(LATE.format(steps="4 until")) == []


def test_nothing_is_said_of_a_filter_of_the_users_own() -> None:
    assert verdict("a 4\nu 1\na.Oi -> u.finit | reduction 2\nu.Of -> a.S | lineartimeinterpolation 3") == []


def test_nothing_is_said_behind_a_source_that_is_a_program() -> None:
    assert verdict(f"s source\n{LATE.format(steps=4)}\ns -> u.finit", uncertain={"s"}) == []
