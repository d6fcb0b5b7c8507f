"""Instances that die while the run goes on, as the policy of a run sees them."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Sequence

import pytest
from xmml_executors.coordination import SETTLE_S, WRITERS_LEAVE_WITHIN_S, Coordination, Phase
from xmml_executors.coordination_orders import Died, GoOnWithout, Order, Signal
from xmml_executors.coordinator_events import (
    Away,
    Back,
    ConduitTotals,
    CoordinatorEvent,
    Failed,
    GivenAgain,
    Joined,
    Left,
    Lost,
    Wait,
    Waiting,
)
from xmml_executors.deaths import DEADLY_AFTER, GIVE_UP_AFTER_S, KILL_AFTER_S, TERMINATE_AFTER_S, deaths_in_words
from xmml_executors.instance_record import Lifecycle
from xmml_executors.outcome import ExitStatus
from xmml_planner import Plan
from xmml_planner.execution_plan import PoolSpec

MakePlan = Callable[..., Plan]

QUEUE = PoolSpec("step:int", is_queue=True, reader_may_die=True)
LOSSY = PoolSpec("step:int", may_lose=True, reader_may_die=True)


def workers(make_plan: MakePlan, count: int = 3, pool: PoolSpec = QUEUE) -> Coordination:
    """Return a run of a writer and workers that have joined, which may die."""
    names = [f"c[{copy}]" for copy in range(count)]
    plan = make_plan("w", *names, couplings=[("w", name) for name in names])
    copies = [dataclasses.replace(each, element=each.name.partition("[")[0]) for each in plan.instances]
    conduits = [dataclasses.replace(each, pool=pool) for each in plan.conduits]
    run = Coordination(dataclasses.replace(plan, instances=tuple(copies), conduits=tuple(conduits)))
    for number, name in enumerate(run.records):
        run.on_started(name, 100 + number, 0.0)
        run.on_native(Joined(name, 100, "here", "c", "1.0"), 0.0)
    return run


def given_again(copy: int, objects: int, deadly: int | None = None) -> GivenAgain:
    return GivenAgain("w", copy, objects, deadly)


def leave(run: Coordination, *names: str, now: float = 2.0) -> None:
    for name in names:
        run.on_native(Left(name, 1, (), 0.0), now)
        run.on_ended(name, 0, None, now)


def kill(run: Coordination, name: str, now: float = 1.0) -> Sequence[Order]:
    return [
        *run.on_native(Lost(name), now),
        *run.on_ended(name, None, signal.SIGKILL, now + 0.01),
    ]


def test_the_run_goes_on_without_a_worker_that_is_killed_and_says_what_became_of_its_objects(
    make_plan: MakePlan,
) -> None:
    run = workers(make_plan)
    reason = "it was killed by SIGKILL (Killed)"
    assert kill(run, "c[1]") == [GoOnWithout("c[1]"), Died("c[1]", reason)]
    assert run.phase is Phase.RUNNING
    run.on_native(given_again(1, 2), 1.1)
    leave(run, "w", "c[0]", "c[2]")
    assert run.phase is Phase.ENDED
    assert run.outcome is not None
    assert run.outcome.is_done
    assert run.records["c[1]"].state is Lifecycle.DIED
    assert run.records["c[1]"].as_json()["death"] == reason
    (told,) = deaths_in_words(run.records)
    assert told == f"c[1] died: {reason}; the run went on without it; 2 objects were given to others"


@pytest.mark.parametrize("status", [0, 1])
def test_a_worker_that_ends_without_leaving_has_died(make_plan: MakePlan, status: int) -> None:
    run = workers(make_plan)
    run.on_native(Lost("c[0]"), 1.0)
    run.on_ended("c[0]", status, None, 1.1)
    assert (run.phase, run.records["c[0]"].state) == (Phase.RUNNING, Lifecycle.DIED)


def test_a_worker_that_dies_before_it_joins_is_not_missed(make_plan: MakePlan) -> None:
    run = workers(make_plan)
    run.records["c[0]"].state, run.records["c[0]"].joined_at = Lifecycle.STARTED, None
    assert run.on_ended("c[0]", 1, None, 1.0)[0] == GoOnWithout("c[0]")
    assert "before it joined" in run.records["c[0]"].death


def test_a_worker_that_says_that_it_failed_and_does_not_end_is_ended(make_plan: MakePlan) -> None:
    run = workers(make_plan)
    orders = run.on_native(Failed("c[0]", "bad input"), 1.0)
    assert orders == [GoOnWithout("c[0]")]
    assert run.deadline == 1.0 + TERMINATE_AFTER_S
    assert run.on_time(1.0 + TERMINATE_AFTER_S) == [Signal("c[0]", signal.SIGTERM)]
    assert run.on_time(1.0 + KILL_AFTER_S) == [Signal("c[0]", signal.SIGKILL)]
    assert run.on_time(1.0 + GIVE_UP_AFTER_S) == [Died("c[0]", "bad input")]
    leave(run, "w", "c[1]", "c[2]")
    assert run.phase is Phase.ENDED


def test_the_death_of_the_last_worker_ends_the_run_and_names_it(make_plan: MakePlan) -> None:
    run = workers(make_plan, 2)
    kill(run, "c[0]")
    kill(run, "c[1]", 2.0)
    run.on_time(2.1 + SETTLE_S)
    assert run.outcome is not None
    assert run.outcome.exit_status is ExitStatus.INSTANCE_FAILED
    assert run.outcome.reason == (
        "c[1] failed: it was killed by SIGKILL (Killed); it was the last copy of c that could go on (c[0] died before)"
    )


def test_a_worker_that_dies_when_all_is_done_and_others_have_come_to_the_end_is_not_missed(
    make_plan: MakePlan,
) -> None:
    run = workers(make_plan, 2)
    leave(run, "w", "c[0]")
    kill(run, "c[1]", 3.0)
    assert run.outcome is not None
    assert run.outcome.is_done


def test_a_worker_that_dies_in_the_moment_in_which_its_writer_leaves_is_not_missed(make_plan: MakePlan) -> None:
    run = workers(make_plan, 2)
    leave(run, "c[0]")
    assert kill(run, "c[1]", 3.0) == [GoOnWithout("c[1]")]
    assert run.on_time(3.0 + 2 * SETTLE_S) == []
    orders = run.on_native(Left("w", 1, (), 0.0), 4.0)
    assert Died("c[1]", "it was killed by SIGKILL (Killed)") in orders
    run.on_ended("w", 0, None, 4.1)
    assert run.outcome is not None
    assert run.outcome.is_done
    assert run.records["c[1]"].state is Lifecycle.DIED


def test_a_worker_is_missed_with_which_objects_of_its_writer_are_lost(make_plan: MakePlan) -> None:
    run = workers(make_plan, 2)
    leave(run, "c[0]")
    kill(run, "c[1]", 3.0)
    lost = ConduitTotals(conduit=1, sent=5, received=0, bytes=40, dropped=2)
    run.on_native(Left("w", 1, (lost,), 0.0), 4.0)
    run.on_time(4.0 + SETTLE_S)
    assert run.outcome is not None
    assert run.outcome.reason.endswith("it was the last copy of c that could go on")


def test_a_worker_is_missed_whose_others_have_left_while_its_writer_goes_on(make_plan: MakePlan) -> None:
    run = workers(make_plan, 2)
    leave(run, "c[0]")
    kill(run, "c[1]", 3.0)
    assert run.phase is Phase.SETTLING
    run.on_time(3.1 + WRITERS_LEAVE_WITHIN_S)
    assert run.phase is Phase.STOPPING


def test_a_reader_that_may_lose_objects_is_not_missed_though_it_is_the_only_one(make_plan: MakePlan) -> None:
    run = workers(make_plan, 1, LOSSY)
    kill(run, "c[0]")
    leave(run, "w")
    assert run.outcome is not None
    assert run.outcome.is_done


def test_an_object_that_too_many_die_with_ends_the_run_and_is_named(make_plan: MakePlan) -> None:
    run = workers(make_plan, 6)
    for copy in range(4):
        kill(run, f"c[{copy}]", float(copy + 1))
        run.on_native(given_again(copy, 1, 17 if copy == DEADLY_AFTER else None), copy + 1.1)
    run.on_time(5.0)
    assert run.outcome is not None
    assert run.outcome.exit_status is ExitStatus.INSTANCE_FAILED
    assert run.outcome.instance == "c[3]"
    assert (
        "object 17 (sys.seq) of w.o was given to 4 instances, and each of them died, this one last"
        in run.outcome.reason
    )


def test_an_object_that_the_last_worker_dies_with_is_named_if_too_many_have(make_plan: MakePlan) -> None:
    run = workers(make_plan, 4)
    for copy in range(4):
        assert GoOnWithout(f"c[{copy}]") in kill(run, f"c[{copy}]", float(copy + 1))
        run.on_native(given_again(copy, 1, 17 if copy == DEADLY_AFTER else None), copy + 1.02)
    run.on_time(5.0)
    assert run.outcome is not None
    assert run.outcome.reason.startswith("c[3] failed: object 17 (sys.seq) of w.o was given to 4 instances")


def test_a_worker_that_dies_of_a_deadly_object_has_failed_and_is_not_listed_among_the_dead(make_plan: MakePlan) -> None:
    run = workers(make_plan, 6)
    for copy in range(4):
        kill(run, f"c[{copy}]", float(copy + 1))
        run.on_native(given_again(copy, 0 if copy == DEADLY_AFTER else 1, 17 if copy == DEADLY_AFTER else None), 4.1)
    assert run.records["c[3]"].state is Lifecycle.FAILED
    assert run.records["c[3]"].given_again == 0
    assert "death" not in run.records["c[3]"].as_json()
    run.on_time(5.0)
    assert run.outcome is not None
    assert [told.partition(" ")[0] for told in deaths_in_words(run.records)] == ["c[0]", "c[1]", "c[2]"]


def test_a_worker_that_still_runs_when_its_object_proves_deadly_fails(make_plan: MakePlan) -> None:
    run = workers(make_plan, 6)
    run.on_native(Lost("c[3]"), 1.0)
    run.on_native(given_again(3, 0, 17), 1.1)
    run.on_ended("c[3]", 0, None, 1.15)
    assert run.records["c[3]"].state is Lifecycle.FAILED
    assert not [order for order in run.on_time(1.0 + GIVE_UP_AFTER_S) if order == Signal("c[3]", signal.SIGTERM)]


def test_what_no_reader_that_died_was_given_counts_for_nothing(make_plan: MakePlan) -> None:
    run = workers(make_plan)
    for conduit in (0, 99):
        assert run.on_native(given_again(conduit, 3, 17), 1.0) == []
    assert run.phase is Phase.RUNNING
    assert run.records["c[0]"].given_again == 0


def test_it_is_not_said_of_a_run_that_ends_that_it_goes_on(make_plan: MakePlan) -> None:
    run = workers(make_plan)
    run.on_native(Failed("c[0]", "bad input"), 1.0)
    run.on_interrupt(1.1)
    assert run.on_ended("c[0]", 1, None, 1.2) == [Died("c[0]", "bad input", goes_on=False)]
    assert deaths_in_words(run.records) == ["c[0] died: bad input"]


def test_an_instance_that_the_outcome_names_is_not_named_once_more(make_plan: MakePlan) -> None:
    run = workers(make_plan)
    kill(run, "c[0]")
    assert deaths_in_words(run.records, "c[0]") == []


#: What becomes of the worker, and of the run, when something is reported of the worker in each phase.
BECOMES = {
    (Phase.RUNNING, "failed"): (Lifecycle.RUNNING, Phase.RUNNING),
    (Phase.RUNNING, "lost"): (Lifecycle.RUNNING, Phase.RUNNING),
    (Phase.RUNNING, "killed"): (Lifecycle.DIED, Phase.RUNNING),
    (Phase.RUNNING, "left"): (Lifecycle.LEFT, Phase.RUNNING),
    (Phase.SETTLING, "failed"): (Lifecycle.RUNNING, Phase.SETTLING),
    (Phase.SETTLING, "lost"): (Lifecycle.RUNNING, Phase.SETTLING),
    (Phase.SETTLING, "killed"): (Lifecycle.DIED, Phase.SETTLING),
    (Phase.SETTLING, "left"): (Lifecycle.LEFT, Phase.SETTLING),
    (Phase.STOPPING, "failed"): (Lifecycle.RUNNING, Phase.STOPPING),
    (Phase.STOPPING, "lost"): (Lifecycle.RUNNING, Phase.STOPPING),
    (Phase.STOPPING, "killed"): (Lifecycle.STOPPED, Phase.STOPPING),
    (Phase.STOPPING, "left"): (Lifecycle.LEFT, Phase.STOPPING),
}
#: In which phases the partners of a worker hear of its death.
TOLD_IN = (Phase.RUNNING, Phase.SETTLING)


def in_phase(make_plan: MakePlan, phase: Phase) -> Coordination:
    """Return a run of workers that has come to a phase."""
    run = workers(make_plan)
    if phase is not Phase.RUNNING:
        run.on_native(Failed("w", "no more"), 0.9)
    if phase is Phase.STOPPING:
        run.on_time(0.9 + SETTLE_S)
    assert run.phase is phase
    return run


@pytest.mark.parametrize(("phase", "what"), BECOMES, ids=lambda each: each.value if isinstance(each, Phase) else each)
def test_what_becomes_of_a_worker_and_the_run_in_each_phase(make_plan: MakePlan, phase: Phase, what: str) -> None:
    run = in_phase(make_plan, phase)
    match what:
        case "failed":
            orders = run.on_native(Failed("c[0]", "bad input"), 0.95)
        case "lost":
            orders = run.on_native(Lost("c[0]"), 0.95)
        case "left":
            orders = run.on_native(Left("c[0]", 1, (), 0.0), 0.95)
        case _:
            orders = run.on_ended("c[0]", None, signal.SIGKILL, 0.95)
    assert (run.records["c[0]"].state, run.phase) == BECOMES[phase, what]
    assert (GoOnWithout("c[0]") in orders) == (phase in TOLD_IN and what != "left")


LATE = [
    Joined("c[0]", 100, "elsewhere", "c", "1.0"),
    Waiting("c[0]", 1, (Wait(0, "receive"),), False, False, {}, {}),
    Left("c[0]", 1, (), 0.0),
    Away("c[0]", 60.0),
    Back("c[0]"),
    Lost("c[0]"),
    Failed("c[0]", "once more"),
]


@pytest.mark.parametrize("phase", TOLD_IN, ids=lambda phase: phase.value)
@pytest.mark.parametrize("has_ended", [False, True], ids=["runs", "ended"])
@pytest.mark.parametrize("event", LATE, ids=lambda event: event.word)
def test_what_a_worker_that_counts_as_dead_says_late_changes_nothing(
    make_plan: MakePlan, phase: Phase, has_ended: bool, event: CoordinatorEvent
) -> None:
    run = in_phase(make_plan, phase)
    run.on_native(Failed("c[0]", "bad input"), 0.91)
    if has_ended:
        run.on_ended("c[0]", 1, None, 0.92)
    record = run.records["c[0]"]
    before = dataclasses.replace(record)
    assert run.on_native(event, 0.93) == []
    assert record == before
    assert run.phase is phase
    assert run.look_for_deadlock(0.93) == []
    assert run.on_time(0.93) == []


def test_a_writer_that_dies_ends_the_run_as_ever(make_plan: MakePlan) -> None:
    run = workers(make_plan)
    kill(run, "w")
    run.on_time(1.1 + SETTLE_S)
    assert run.outcome is not None
    assert run.outcome.reason == "w failed: it was killed by SIGKILL (Killed)"


def test_a_worker_that_is_ended_because_the_run_is_stopped_has_not_died(make_plan: MakePlan) -> None:
    run = workers(make_plan)
    run.on_interrupt(1.0)
    run.on_ended("c[0]", None, signal.SIGTERM, 1.5)
    assert run.records["c[0]"].state is Lifecycle.STOPPED
