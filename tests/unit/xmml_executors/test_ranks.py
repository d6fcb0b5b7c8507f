"""Further ranks of an MPI program: they live and die with the process of rank 0."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable

import pytest
from xmml_executors.coordination import LEAVING_NEWS_S, SETTLE_LOST_S, SETTLE_S, TERMINATE_AFTER_S, Coordination, Phase
from xmml_executors.coordination_orders import Signal
from xmml_executors.coordinator_events import Failed, Joined, Left, Lost
from xmml_executors.instance_record import Lifecycle
from xmml_executors.outcome import ExitStatus
from xmml_planner import Plan

MakePlan = Callable[..., Plan]


@pytest.fixture
def run(make_plan: MakePlan) -> Coordination:
    """A run of two ranks and a partner, all of which have joined."""
    plan = make_plan("a", "a#1", "b")
    ranks = tuple(dataclasses.replace(one, rank_of="a" if "#" in one.name else None) for one in plan.instances)
    run = Coordination(dataclasses.replace(plan, instances=ranks))
    run.on_started("a", 100, 0.0)
    run.on_started("b", 101, 0.0)
    for name in ("a", "a#1", "b"):
        run.on_native(Joined(name, 100, "here", "c", "1.0"), 0.0)
    return run


def leave(run: Coordination, *names: str) -> None:
    for name in names:
        run.on_native(Left(name, 1, (), 0.0), 1.0)


def test_a_rank_that_has_left_is_done_when_the_process_ends(run: Coordination) -> None:
    leave(run, "a#1", "a", "b")
    run.on_ended("b", 0, None, 1.0)
    run.on_ended("a", 0, None, 1.0)
    assert run.phase is Phase.ENDED
    assert run.records["a#1"].state is Lifecycle.DONE


def test_a_rank_that_never_left_is_a_failure_although_the_process_ended_well(run: Coordination) -> None:
    leave(run, "a", "b")
    run.on_ended("b", 0, None, 1.0)
    run.on_ended("a", 0, None, 1.0)
    assert run.phase is Phase.RUNNING
    run.on_time(1.0 + LEAVING_NEWS_S)
    assert run.outcome is not None
    assert (run.outcome.exit_status, run.outcome.instance) == (ExitStatus.INSTANCE_FAILED, "a#1")


def test_a_killed_rank_is_named_and_the_log_is_that_of_its_program(run: Coordination) -> None:
    run.on_native(Lost("a#1"), 1.0)
    run.on_time(1.0 + SETTLE_S)
    assert run.outcome is not None
    assert (run.outcome.instance, run.outcome.log) == ("a#1", "instances/a/stderr")


def test_a_rank_that_reports_its_failure_is_the_cause_although_the_others_end_with_it(run: Coordination) -> None:
    run.on_native(Failed("a#1", "no more, says a"), 1.0)
    run.on_native(Lost("a"), 1.01)
    run.on_ended("a", 1, None, 1.02)
    run.on_time(1.0 + SETTLE_S)
    assert run.outcome is not None
    assert run.outcome.reason == "a#1 failed: no more, says a"


def test_signals_go_to_processes_not_to_ranks(run: Coordination) -> None:
    run.on_native(Lost("b"), 1.0)
    run.on_time(1.0 + SETTLE_LOST_S)
    orders = run.on_time(1.0 + SETTLE_LOST_S + TERMINATE_AFTER_S)
    assert orders == [Signal("a", signal.SIGTERM), Signal("b", signal.SIGTERM)]
    run.on_ended("a", None, signal.SIGTERM, 2.0)
    assert run.records["a#1"].state is Lifecycle.STOPPED
