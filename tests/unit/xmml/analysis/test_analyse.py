"""The whole analysis of small models."""

from __future__ import annotations

import pytest
from small_models import model

from xmml.analysis.analyse import analyse
from xmml.analysis.analysis import GraphSize, Traffic

MACRO_MICRO = "m 1000000000 init runtime=1000000000 cores=2\nu 5 runtime=2\nm.Oi -> u.finit size=80\nu.Of -> m.S"


def test_a_model_of_a_billion_steps_is_analysed_at_once() -> None:
    analysis = analyse(model(MACRO_MICRO))
    assert analysis.runs == {"m": 1, "u": 10**9}
    assert analysis.messages["m.Oi -> u.finit"] == Traffic("call", 10**9, 10**9, 16, 1, 80 * 10**9)
    times = analysis.times
    assert times is not None
    assert times.is_exact
    assert times.makespan_s == 3e9
    assert times.core_hours == pytest.approx((1e9 * 2 + 2e9) / 3600)
    assert times.busy_s == {"m": 1e9, "u": 2e9}
    assert times.idle_s == {"m": 2e9, "u": 1e9 - 1}
    assert sum(part.time_s for part in times.critical_path) == pytest.approx(3e9)


def test_two_that_wait_for_each_other_are_a_deadlock_with_a_witness() -> None:
    analysis = analyse(model("a\nb\na.Of -> b.finit\nb.Of -> a.finit"))
    assert analysis.verdict == "deadlock"
    assert not analysis.finishes
    assert [set(cycle) for cycle in analysis.deadlock] == [{"a", "b"}]
    assert {(each.instance, each.operator) for each in analysis.blocked} == {("a", "finit"), ("b", "finit")}
    assert "a, run 0, waits at finit" in analysis.witness
    assert analysis.times is None


def test_different_numbers_of_steps_leave_one_waiting() -> None:
    analysis = analyse(model("a 2\nb 3\na.Oi -> b.S\nb.Oi -> a.S"))
    assert analysis.verdict == "blocked"
    assert [(each.instance, each.iteration, each.waiting_for) for each in analysis.blocked] == [
        ("b", 2, ("a.Oi -> b.S",))
    ]
    assert analysis.unconsumed == {"b.Oi -> a.S": 1}


def test_a_program_that_decides_itself_gets_bounds_and_no_errors() -> None:
    analysis = analyse(model("a until\nb until\na.Oi -> b.S\nb.Oi -> a.S"))
    assert analysis.finishes
    assert analysis.steps == {"a": None, "b": None}
    assert "a.Oi -> b.S" in analysis.at_most
    assert analysis.times is not None
    assert not analysis.times.is_exact


def test_a_bound_of_the_steps_is_a_bound_of_the_messages() -> None:
    analysis = analyse(model("a 5 until\nu\na.Oi -> u.finit\nu.Of -> a.S"))
    assert analysis.messages["a.Oi -> u.finit"].sent == 5
    assert {"a", "u", "a.Oi -> u.finit"} <= set(analysis.at_most)


def test_the_sizes_of_the_task_graph_are_given_when_asked_for() -> None:
    analysis = analyse(model("m 3 init\nu\nm.Oi -> u.finit\nu.Of -> m.S"), task_graph=True)
    assert analysis.task_graph["collapsed"] == GraphSize(7, 6, 3, 0)


def test_an_external_start_follows_the_first_messages() -> None:
    analysis = analyse(model("a 3 init\nb 3\na.Oi -> b.S\nb.Oi -> a.S"), start="external", task_graph=True)
    assert analysis.task_graph["collapsed"] == GraphSize(8, 6, 6, 0)
    assert analysis.times is None
    assert analysis.finishes


def test_copies_are_counted_one_by_one() -> None:
    analysis = analyse(model("a 2\ns mapper\nu x3\na.Oi -> s.in\ns.out -> u.finit"))
    assert analysis.runs == {"a": 1, "s": 2, "u[0]": 2, "u[1]": 2, "u[2]": 2}
    assert analysis.messages["s.out -> u.finit"].sent == 6
