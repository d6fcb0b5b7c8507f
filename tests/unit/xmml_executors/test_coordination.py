"""The policy of a run, without a process, a socket or a clock."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Sequence

import pytest
from xmml_executors.coordination import (
    JOINING_NEWS_S,
    KILL_AFTER_S,
    LEAVING_NEWS_S,
    SETTLE_ELSEWHERE_S,
    SETTLE_LOST_S,
    SETTLE_S,
    TERMINATE_AFTER_S,
    THE_SYSTEM,
    Coordination,
    Phase,
)
from xmml_executors.coordination_orders import Abort, Confirm, Grow, Notice, Order, Signal
from xmml_executors.coordinator_events import (
    Away,
    Back,
    ConduitTotals,
    Confirmed,
    CoordinatorEvent,
    Failed,
    Figures,
    Joined,
    Left,
    Lost,
    MethodChanged,
    MethodChosen,
    Opened,
    Progress,
    Refused,
    Resumed,
    Wait,
    Waiting,
    Warned,
)
from xmml_executors.deadlock import WaitKind
from xmml_executors.deadlock_watch import GROWN_S
from xmml_executors.disconnected_instances import TOLD_AFTER_S
from xmml_executors.instance_record import Lifecycle
from xmml_executors.outcome import ExitStatus
from xmml_planner import FIRST_OPENED, ConduitSpec, Plan
from xmml_planner.execution_plan import Job, NodeShare, PoolSpec, Route
from xmml_planner.sites import Site

MakePlan = Callable[..., Plan]


def started(
    plan: Plan, *, join: bool = True, limits: bool = True, elsewhere: Sequence[str] = (), by_hand: Sequence[str] = ()
) -> Coordination:
    """Return a run whose instances have all started, and joined."""
    run = Coordination(plan, limits=limits, elsewhere=elsewhere, by_hand=by_hand)
    for number, name in enumerate(run.records):
        run.on_started(name, 100 + number, 0.0)
        if join:
            hear(run, joined(name), 0.0)
    return run


def hear(run: Coordination, event: CoordinatorEvent, now: float) -> list[Order]:
    """An event that comes by itself."""
    return [*run.on_native(event, now), *run.look_for_deadlock(now)]


def joined(name: str, language: str = "python") -> Joined:
    return Joined(name, 100, "here", language, "1.0")


def left(name: str, runs: int = 1, conduits: Sequence[ConduitTotals] = ()) -> Left:
    return Left(name, runs, tuple(conduits), 0.0)


def waits(name: str, *on: tuple[int, WaitKind], epoch: int = 1, **counts: dict[int, int]) -> Waiting:
    listed = tuple(Wait(*each) for each in on)
    return Waiting(name, epoch, listed, False, False, counts.get("sent", {}), counts.get("received", {}))


def confirmed(name: str, epoch: int = 1, still: bool = True) -> Confirmed:
    return Confirmed(name, epoch, still)


def of_kind(orders: Sequence[Order], kind: type) -> list[Order]:
    return [order for order in orders if isinstance(order, kind)]


def outcome(run: Coordination) -> tuple[ExitStatus, str]:
    assert run.outcome is not None
    return run.outcome.exit_status, run.outcome.reason


def test_a_run_is_done_when_every_instance_has_left_and_ended(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    for name in ("a", "b"):
        hear(run, left(name), 1.0)
        run.on_ended(name, 0, None, 1.1)
    assert run.phase is Phase.ENDED
    assert outcome(run) == (ExitStatus.DONE, "")


def test_an_instance_may_join_before_the_news_that_its_process_has_started(make_plan: MakePlan) -> None:
    run = Coordination(make_plan("a"))
    hear(run, joined("a", "c++"), 0.0)
    run.on_started("a", 100, 0.0)
    hear(run, left("a"), 1.0)
    run.on_ended("a", 0, None, 1.1)
    assert outcome(run) == (ExitStatus.DONE, "")


def test_a_process_may_end_before_the_news_that_it_left(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    run.on_ended("a", 0, None, 1.0)
    assert run.deadline == 1.0 + LEAVING_NEWS_S
    hear(run, left("a"), 1.01)
    assert run.phase is Phase.ENDED
    assert run.records["a"].state is Lifecycle.DONE


def test_a_program_that_never_joins_fails(make_plan: MakePlan) -> None:
    run = started(make_plan("a"), join=False)
    run.on_ended("a", 0, None, 1.0)
    assert run.deadline == 1.0 + JOINING_NEWS_S
    run.on_time(1.0 + JOINING_NEWS_S)
    status, reason = outcome(run)
    assert status is ExitStatus.INSTANCE_FAILED
    assert "without joining" in reason


def test_a_nonzero_status_fails_also_after_leaving(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    hear(run, left("a"), 1.0)
    run.on_ended("a", 9, None, 1.1)
    assert "exit status 9 after it left" in outcome(run)[1]


def test_when_one_fails_the_others_are_told_then_terminated_then_killed(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    hear(run, Failed("a", "bad input"), 1.0)
    (abort,) = of_kind(run.on_time(1.0 + SETTLE_S), Abort)
    assert "a failed: bad input" in abort.reason  # type: ignore[union-attr]
    run.on_ended("a", 1, None, 1.2)
    assert run.deadline is not None
    at = 1.0 + SETTLE_S + TERMINATE_AFTER_S
    assert run.on_time(at) == [Signal("b", signal.SIGTERM)]
    assert run.on_time(at + KILL_AFTER_S) == [Signal("b", signal.SIGKILL)]
    run.on_ended("b", None, signal.SIGKILL, at + KILL_AFTER_S)
    assert run.phase is Phase.ENDED
    assert (run.records["a"].state, run.records["b"].state) == (Lifecycle.FAILED, Lifecycle.STOPPED)
    assert outcome(run)[0] is ExitStatus.INSTANCE_FAILED


def test_the_timers_leave_room_for_ending_every_run_within_two_seconds_of_a_fault() -> None:
    assert SETTLE_S + TERMINATE_AFTER_S + KILL_AFTER_S < 1.0
    assert SETTLE_LOST_S + TERMINATE_AFTER_S + KILL_AFTER_S < 1.8


def lost(run: Coordination, name: str, now: float) -> None:
    """An instance loses its connection, and the moment passes after which other failures have settled."""
    hear(run, Lost(name), now)
    run.on_time(now + SETTLE_S)
    assert run.phase is Phase.SETTLING


def test_a_program_that_drops_its_connection_and_then_exits_has_not_left(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    lost(run, "a", 1.0)
    run.on_ended("a", 0, None, 1.3)
    assert run.deadline == 1.3 + SETTLE_S
    run.on_time(1.3 + SETTLE_S)
    assert "a failed: it ended without leaving the run" in outcome(run)[1]


@pytest.mark.parametrize("is_first", ["the connection", "its partner"])
def test_a_partner_that_notices_a_lost_connection_does_not_hasten_the_reason(
    make_plan: MakePlan, is_first: str
) -> None:
    run = started(make_plan("a", "b"))
    events = [Lost("a"), Failed("b", "a is gone")]
    for at, event in enumerate(events if is_first == "the connection" else reversed(events)):
        hear(run, event, 1.0 + 0.01 * at)
    run.on_time(1.05 + SETTLE_S)
    run.on_ended("a", None, signal.SIGSEGV, 1.3)
    run.on_time(1.3 + SETTLE_S)
    assert "a failed: it was killed by SIGSEGV" in outcome(run)[1]


def test_a_process_that_goes_on_without_its_connection_has_lost_it(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    lost(run, "a", 1.0)
    assert run.deadline == 1.0 + SETTLE_LOST_S
    assert of_kind(run.on_time(1.0 + SETTLE_LOST_S), Abort)
    assert outcome(run)[1] == "a failed: it lost its connection to the run"


def test_nothing_is_awaited_of_a_process_that_ends_well_while_the_run_is_stopped(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    hear(run, Failed("a", "bad input"), 1.0)
    run.on_time(1.0 + SETTLE_S)
    run.on_ended("b", 0, None, 1.2)
    assert run.records["b"].state is Lifecycle.STOPPED
    run.on_ended("a", 0, None, 1.3)
    assert run.phase is Phase.ENDED


def test_who_is_gone_at_another_site_without_a_word_is_not_blamed_if_its_job_is_over(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"), elsewhere=["a"])
    run.on_native(Lost("a"), 1.0)
    assert run.on_time(1.0 + SETTLE_S) == []
    run.on_ended("a", None, signal.SIGTERM, 1.2)
    run.on_site_suspected(1.3)
    assert run.on_time(1.0 + 2 * SETTLE_ELSEWHERE_S) == []
    run.on_site_failure("the job of alpha is over: its time was over", 5.0)
    assert outcome(run) == (ExitStatus.SITE_FAILED, "the job of alpha is over: its time was over")


def test_nobody_waits_for_the_instances_of_a_node_that_is_dead(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"), elsewhere=["a", "b"])
    run.on_site_failure("its node does not answer", 1.0, ["a", "process/1"])
    assert run.records["a"].state is Lifecycle.STOPPED
    run.on_ended("b", None, signal.SIGTERM, 1.4)
    assert run.phase is Phase.ENDED
    assert outcome(run) == (ExitStatus.SITE_FAILED, "its node does not answer")


def test_the_end_of_an_instance_whose_site_was_given_up_before_is_no_news(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"), elsewhere=["a", "b"])
    run.on_site_failure("its node does not answer", 1.0, ["a"])
    assert run.on_ended("a", 3, None, 1.2) == []
    assert run.on_process_ended("a", None, signal.SIGKILL, 1.3) == []
    assert run.records["a"].state is Lifecycle.STOPPED
    run.on_ended("b", None, signal.SIGTERM, 1.4)
    assert outcome(run) == (ExitStatus.SITE_FAILED, "its node does not answer")


def test_who_is_gone_at_another_site_is_blamed_if_nothing_else_is_heard(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"), elsewhere=["a"])
    run.on_native(Lost("a"), 1.0)
    assert run.deadline == 1.0 + SETTLE_ELSEWHERE_S
    run.on_time(1.0 + SETTLE_ELSEWHERE_S)
    assert outcome(run)[1] == "a failed: it lost its connection to the run"


def test_who_ends_at_another_site_with_an_exit_status_is_blamed_at_once(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"), elsewhere=["a"])
    run.on_native(Lost("a"), 1.0)
    run.on_ended("a", 3, None, 1.1)
    assert run.deadline == 1.1 + SETTLE_S
    run.on_time(1.1 + SETTLE_S)
    assert "exit status 3" in outcome(run)[1]


def test_a_partner_elsewhere_that_is_named_may_still_turn_out_to_be_the_cause(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"), elsewhere=["a"])
    run.on_native(Failed("b", "a cannot be reached"), 1.0)
    assert run.on_time(1.0 + SETTLE_S) == []
    run.on_ended("a", 3, None, 1.9)
    run.on_time(1.9 + SETTLE_S)
    assert "a failed: it ended with exit status 3" in outcome(run)[1]


def away(name: str) -> Away:
    return Away(name, 60.0)


def test_who_is_away_and_comes_back_in_a_moment_is_not_worth_a_word(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    assert hear(run, away("a"), 1.0) == []
    assert run.records["a"].away_since == 1.0
    assert hear(run, Back("a"), 1.5) == []
    assert run.records["a"].away_since is None
    assert (run.deadline, run.phase) == (None, Phase.RUNNING)


def test_people_hear_once_of_those_who_stay_away_and_that_all_are_back(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", "c"))
    hear(run, away("a"), 1.0)
    hear(run, away("b"), 1.1)
    hear(run, away("c"), 1.9)
    assert run.deadline == 1.0 + TOLD_AFTER_S
    (told,) = run.on_time(1.2 + TOLD_AFTER_S)
    assert isinstance(told, Notice)
    assert told.text.startswith("a, b: the connection to the coordinator is broken")
    assert "within 60 s" in told.text
    assert hear(run, Back("c"), 3.3) == []
    assert run.deadline is None
    assert hear(run, Back("a"), 4.0) == []
    assert hear(run, Back("b"), 5.0) == [Notice("every instance is connected to the coordinator again")]


def test_who_does_not_come_back_has_failed(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    hear(run, away("a"), 1.0)
    hear(run, Lost("a"), 61.0)
    run.on_time(61.0 + SETTLE_LOST_S)
    assert outcome(run)[1] == "a failed: it lost its connection to the run"


def test_a_process_that_dies_is_told_at_once_also_while_its_instance_is_away(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    hear(run, away("a"), 1.0)
    run.on_ended("a", None, signal.SIGKILL, 1.1)
    run.on_time(1.1 + SETTLE_S)
    assert outcome(run)[1] == "a failed: it was killed by SIGKILL (Killed)"


@pytest.mark.parametrize("is_first", ["the process", "the connection"])
def test_who_is_away_and_whose_process_is_gone_below_a_script_does_not_come_back(
    make_plan: MakePlan, is_first: str
) -> None:
    run = started(make_plan("a", "b"))
    if is_first == "the process":
        assert run.on_vanished("a", 1.0) == []
        hear(run, away("a"), 1.1)
    else:
        hear(run, away("a"), 1.0)
        run.on_vanished("a", 1.1)
    run.on_time(1.1 + SETTLE_S)
    assert "the process that had joined the run is gone" in outcome(run)[1]


def test_a_process_that_ended_before_its_connection_did_and_said_nothing_has_failed(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    run.on_ended("a", 0, None, 1.0)
    hear(run, away("a"), 1.05)
    run.on_time(1.1 + SETTLE_S)
    assert "without leaving the run" in outcome(run)[1]


def test_who_is_away_belongs_to_no_deadlock_until_it_is_back(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("b", "a")]))
    hear(run, waits("a", (1, "receive")), 1.0)
    hear(run, away("a"), 1.1)
    assert hear(run, waits("b", (0, "receive")), 1.2) == []
    assert hear(run, Back("a"), 1.3) == [Confirm("a", 1), Confirm("b", 1)]


def test_a_suspicion_is_dropped_when_one_of_its_members_goes_away(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("b", "a")]))
    hear(run, waits("a", (1, "receive")), 1.0)
    hear(run, waits("b", (0, "receive")), 1.0)
    hear(run, confirmed("a"), 1.1)
    hear(run, away("a"), 1.2)
    hear(run, confirmed("b"), 1.3)
    assert run.phase is Phase.RUNNING
    hear(run, Back("a"), 1.4)
    hear(run, Resumed("a", 1), 1.4)
    hear(run, confirmed("b"), 1.5)
    assert run.phase is Phase.RUNNING


def test_errors_that_follow_from_the_abort_do_not_become_the_cause(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    hear(run, Failed("a", "bad input"), 1.0)
    run.on_time(1.2)
    hear(run, Failed("b", "the run was stopped"), 1.3)
    run.on_ended("b", 1, None, 1.4)
    run.on_ended("a", 1, None, 1.4)
    assert run.outcome is not None
    assert run.outcome.instance == "a"
    assert run.records["b"].state is Lifecycle.STOPPED


def test_the_log_of_the_instance_that_failed_is_named(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    run.on_output("a", "stderr", "ValueError: no")
    run.on_ended("a", 1, None, 1.0)
    assert run.outcome is not None
    assert run.outcome.log == "instances/a/stderr"


def test_a_program_that_cannot_be_started_ends_the_run(make_plan: MakePlan) -> None:
    run = Coordination(make_plan("a"))
    run.on_refused("a", "/bin/x: Exec format error", 0.5)
    assert outcome(run) == (
        ExitStatus.INSTANCE_FAILED,
        "a failed: its program could not be started: /bin/x: Exec format error",
    )


def test_an_interrupt_stops_the_run_with_status_130(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    assert of_kind(run.on_interrupt(1.0), Abort)
    run.on_ended("a", None, signal.SIGTERM, 1.4)
    assert outcome(run)[0] is ExitStatus.INTERRUPTED


def test_a_second_interrupt_kills_at_once(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    run.on_interrupt(1.0)
    assert run.on_interrupt(1.1) == [Signal("a", signal.SIGKILL)]


def test_a_job_that_ends_is_why_a_run_ends_also_if_an_instance_was_told_sooner(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    run.on_ended("a", None, signal.SIGTERM, 1.0)
    run.on_job_end(1.1, "the run was interrupted: job 12 has reached its time limit")
    run.on_supervisor_exit(1.2)
    assert outcome(run) == (ExitStatus.INTERRUPTED, "the run was interrupted: job 12 has reached its time limit")


def test_a_full_disk_is_a_failure_of_the_site(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    run.on_site_failure("the run folder cannot be written: No space left on device", 1.0)
    run.on_ended("a", 1, None, 1.1)
    assert outcome(run)[0] is ExitStatus.SITE_FAILED


def test_a_killed_supervisor_ends_the_run(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b"))
    hear(run, Lost("a"), 1.0)
    run.on_supervisor_exit(1.01)
    assert run.phase is Phase.ENDED
    assert outcome(run)[0] is ExitStatus.SITE_FAILED


def test_a_cycle_is_a_deadlock_only_after_each_member_has_confirmed(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("b", "a")]))
    hear(run, waits("a", (1, "receive")), 1.0)
    assert hear(run, waits("b", (0, "receive")), 1.0) == [Confirm("a", 1), Confirm("b", 1)]
    hear(run, confirmed("a"), 1.1)
    assert run.phase is Phase.RUNNING
    hear(run, confirmed("b"), 1.1)
    status, reason = outcome(run)
    assert status is ExitStatus.DEADLOCK
    assert "a waits at i for the first message of b.o; b waits at i for the first message of a.o" in reason


def test_who_waits_for_some_time_only_belongs_to_no_deadlock(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("b", "a")]))
    hear(run, dataclasses.replace(waits("a", (1, "receive")), is_timed=True), 1.0)
    assert hear(run, waits("b", (0, "receive")), 1.0) == []
    assert hear(run, waits("a", (1, "receive"), epoch=2), 2.0) == [Confirm("a", 2), Confirm("b", 1)]


def test_a_conduit_that_is_too_small_grows_also_where_one_waits_for_some_time_only(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("a", "b")]))
    hear(run, waits("a", (0, "send"), sent={0: 4}), 1.0)
    hear(run, dataclasses.replace(waits("b", (1, "receive")), is_timed=True), 1.0)
    hear(run, confirmed("a"), 1.1)
    assert of_kind(hear(run, confirmed("b"), 1.1), Grow) == [Grow(0, 8)]


def test_under_a_debugger_a_deadlock_is_told_but_does_not_end_the_run(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("b", "a")]), limits=False)
    hear(run, waits("a", (1, "receive")), 1.0)
    hear(run, waits("b", (0, "receive")), 1.0)
    hear(run, confirmed("a"), 1.1)
    assert of_kind(hear(run, confirmed("b"), 1.1), Notice)
    assert run.phase is Phase.RUNNING


@pytest.mark.parametrize("news", ["resumed", "denied"])
def test_a_member_that_goes_on_ends_the_suspicion(make_plan: MakePlan, news: str) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("b", "a")]))
    hear(run, waits("a", (1, "receive")), 1.0)
    hear(run, waits("b", (0, "receive")), 1.0)
    hear(run, confirmed("a"), 1.1)
    if news == "resumed":
        hear(run, Resumed("b", 1), 1.1)
        hear(run, confirmed("b", still=True), 1.1)
    else:
        hear(run, confirmed("b", still=False), 1.1)
    assert run.phase is Phase.RUNNING


def test_events_that_come_together_are_looked_at_together(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("b", "a")]))
    for event in (waits("a", (1, "receive")), waits("b", (0, "receive"))):
        assert run.on_native(event, 1.0) == []
    run.on_native(Resumed("b", 1), 1.0)
    assert run.look_for_deadlock(1.0) == []
    assert run.on_native(waits("b", (0, "receive"), epoch=2), 1.1) == []
    assert run.on_native(confirmed("a"), 1.1) == []
    assert run.look_for_deadlock(1.1) == [Confirm("a", 1), Confirm("b", 2)]
    assert run.look_for_deadlock(1.1) == []


def test_a_full_conduit_in_a_cycle_grows(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("a", "b")]))
    hear(run, waits("a", (0, "send"), sent={0: 4}), 1.0)
    hear(run, waits("b", (1, "receive")), 1.0)
    hear(run, confirmed("a"), 1.1)
    orders = hear(run, confirmed("b"), 1.1)
    assert of_kind(orders, Grow) == [Grow(0, 8)]
    assert of_kind(orders, Notice)
    assert run.phase is Phase.RUNNING


def test_a_conduit_that_is_full_again_grows_again(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("a", "b")]))
    hear(run, waits("b", (1, "receive")), 1.0)
    for epoch, capacity in ((1, 8), (2, 16)):
        hear(run, waits("a", (0, "send"), epoch=epoch, sent={0: 4}), 1.0)
        hear(run, confirmed("a", epoch), 1.1)
        assert of_kind(hear(run, confirmed("b"), 1.1), Grow) == [Grow(0, capacity)]
        hear(run, Resumed("a", epoch), 1.2)


def test_a_conduit_whose_growth_was_not_enough_grows_again(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("a", "b")]))
    hear(run, waits("a", (0, "send"), sent={0: 4}), 1.0)
    hear(run, waits("b", (1, "receive")), 1.0)
    hear(run, confirmed("a"), 1.1)
    hear(run, confirmed("b"), 1.1)
    assert run.deadline == 1.1 + GROWN_S
    assert run.on_time(1.1 + GROWN_S) == [Confirm("a", 1), Confirm("b", 1)]
    hear(run, confirmed("a"), 2.0)
    assert of_kind(hear(run, confirmed("b"), 2.0), Grow) == [Grow(0, 16)]


def test_the_final_counts_come_from_the_conduits(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    totals = [
        ConduitTotals(0, sent=3, received=0, bytes=30, dropped=0),
        ConduitTotals(1, sent=0, received=2, bytes=16, dropped=0),
    ]
    hear(run, left("a", 2, totals), 1.0)
    assert run.records["a"].as_json() == {
        "state": "left",
        "host": "here",
        "process": None,
        "cpus": None,
        "runs": 2,
        "messages_sent": 3,
        "messages_received": 2,
        "bytes_sent": 30,
        "bytes_received": 16,
    }


def by_relay(*conduits: int, **refused: str) -> MethodChosen:
    """Return the event of conduits of `a` that go through a relay."""
    return MethodChosen("a", conduits, "relay", True, refused)


def test_people_are_told_once_that_conduits_go_through_relays_that_should_not(make_plan: MakePlan) -> None:
    plan = make_plan("a", "b", couplings=[("a", "b"), ("b", "a")])
    run = started(dataclasses.replace(plan, sites=(Site("local"),)))
    refused = "n1 listens only on its loopback interface (127.0.0.1:4)"
    (told,) = hear(run, by_relay(0, tcp=refused), 1.0)
    assert isinstance(told, Notice)
    assert told.text.startswith(f"a.o -> b.i goes through a relay, which is slower than planned: {refused}; ")
    assert 'listen = "node" in [site.local]' in told.text
    assert hear(run, by_relay(1, tcp=refused), 1.0) == []


def test_nobody_is_told_to_listen_elsewhere_who_is_refused_for_another_reason(make_plan: MakePlan) -> None:
    plan = make_plan("a", "b", couplings=[("a", "b")])
    run = started(dataclasses.replace(plan, sites=(Site("local"),)))
    (told,) = hear(run, by_relay(0, tcp="connection refused"), 1.0)
    assert isinstance(told, Notice)
    assert "slower than planned: connection refused; " in told.text
    assert "listen = " not in told.text


def test_conduits_that_the_plan_leads_through_relays_are_nothing_to_tell(make_plan: MakePlan) -> None:
    plan = make_plan("a", "b", couplings=[("a", "b")])
    route = Route(0, ("local", "far"), "relay", 0.01, 1e6)
    run = started(dataclasses.replace(plan, sites=(Site("local"),), routes=(route,)))
    assert hear(run, by_relay(0), 1.0) == []


def test_of_conduits_that_handles_open_no_plan_expects_a_method(make_plan: MakePlan) -> None:
    run = started(dataclasses.replace(make_plan("a", "b"), sites=(Site("local"),)))
    assert hear(run, by_relay(FIRST_OPENED), 1.0) == []


def by_tcp(*conduits: int, shm: str) -> MethodChosen:
    """Return the event of conduits of `a` that go by tcp because `shm` was refused."""
    return MethodChosen("a", conduits, "tcp", False, {"inproc": "different processes", "shm": shm})


def test_people_are_told_once_that_programs_of_one_node_do_not_share_memory(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("a", "b")]))
    (told,) = hear(run, by_tcp(0, shm="out of memory"), 1.0)
    assert isinstance(told, Notice)
    assert told.text.startswith("a.o -> b.i goes by tcp, which is slower than shm, although both programs run on one ")
    assert ": out of memory; " in told.text
    assert hear(run, by_tcp(1, shm="out of memory"), 1.0) == []


def test_programs_of_different_nodes_and_jobs_are_not_expected_to_share_memory(make_plan: MakePlan) -> None:
    plan = make_plan("a", "b", couplings=[("a", "b")])
    a, b = plan.instances
    elsewhere = (
        dataclasses.replace(plan, instances=(a, dataclasses.replace(b, shares=(NodeShare(1),)))),
        dataclasses.replace(plan, instances=(a, dataclasses.replace(b, site="far"))),
        dataclasses.replace(plan, jobs=(Job("one", "local", ("a",)), Job("other", "local", ("b",)))),
    )
    for each in elsewhere:
        assert hear(started(each), by_tcp(0, shm="n1 and n2 are different hosts"), 1.0) == []


def test_nobody_is_told_of_methods_that_the_model_asks_for(make_plan: MakePlan) -> None:
    plan = make_plan("a", "b", couplings=[("a", "b")])
    asked = dataclasses.replace(plan, conduits=(dataclasses.replace(plan.conduits[0], methods=("tcp", "shm")),))
    assert hear(started(asked), by_tcp(0, shm="out of memory"), 1.0) == []


def test_a_program_that_somebody_else_starts_may_be_on_any_host(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b")]), by_hand=["b"])
    assert hear(run, by_tcp(0, shm="n1 and n2 are different hosts"), 1.0) == []


def test_a_warning_reaches_people(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    assert hear(run, Warned("a", "drift"), 1.0) == [Notice("drift", "a")]


def test_a_stranger_is_reported_and_does_no_harm(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    (notice,) = hear(run, Refused("10.0.0.9", "wrong secret"), 1.0)
    assert "wrong secret" in notice.text  # type: ignore[union-attr]
    assert run.phase is Phase.RUNNING


def test_that_the_system_keeps_the_door_shut_is_named_with_a_failure_to_join(make_plan: MakePlan) -> None:
    run = started(make_plan("a"), join=False)
    (notice,) = hear(run, Refused(THE_SYSTEM, "has too many open files"), 1.0)
    assert notice == Notice("the coordinator has too many open files")
    run.on_ended("a", 1, None, 1.1)
    assert outcome(run)[1].endswith("; the coordinator has too many open files")


def test_an_event_of_an_instance_that_is_not_in_the_plan_is_told(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    assert hear(run, Lost("z"), 1.0) == [Notice('an instance "z" that is not in the plan reported: lost')]
    assert run.phase is Phase.RUNNING


def test_the_record_of_an_instance_says_how_far_it_is(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    assert hear(run, Progress("a", 2, 7, 0.5, 10, 80, 11, 88), 1.0) == []
    record = run.records["a"]
    assert (record.run, record.iteration, record.time) == (2, 7, 0.5)
    assert (record.messages_sent, record.bytes_sent) == (10, 80)
    assert (record.messages_received, record.bytes_received) == (11, 88)


def test_the_record_of_a_sender_says_how_its_conduits_travel(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b"), ("a", "b")]))
    assert hear(run, MethodChosen("a", (0,), "shm", False, {}), 1.0) == []
    assert hear(run, MethodChosen("a", (1,), "tcp", True, {}), 1.0) == []
    assert run.records["a"].methods == {0: "shm", 1: "tcp, protected"}


def test_a_conduit_that_a_handle_opens_grows_like_those_of_the_plan(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b")]))
    opened = ConduitSpec(FIRST_OPENED, "a.p -> b.q", "a", "p", "b", "q", 16, 1 << 26)
    assert hear(run, Opened("a", opened), 0.5) == []
    hear(run, waits("a", (FIRST_OPENED, "send"), sent={FIRST_OPENED: 16}), 1.0)
    hear(run, waits("b", (0, "receive")), 1.0)
    hear(run, confirmed("a"), 1.1)
    assert of_kind(hear(run, confirmed("b"), 1.1), Grow) == [Grow(FIRST_OPENED, 32)]


@pytest.mark.parametrize("event", [Figures("a", 1, (), ()), MethodChanged("a", 1, 0, "tcp", None)])
def test_answers_to_people_change_nothing(make_plan: MakePlan, event: CoordinatorEvent) -> None:
    assert hear(started(make_plan("a")), event, 1.0) == []


def test_the_life_of_an_instance_has_no_way_back(make_plan: MakePlan) -> None:
    run = started(make_plan("a"))
    with pytest.raises(ValueError, match="a cannot become started: it is running"):
        run.records["a"].become(Lifecycle.STARTED)


def test_only_bystanders_that_repeat_why_the_run_stops_are_not_shown(make_plan: MakePlan) -> None:
    run = started(make_plan("macro", "micro"))
    first, second = list(run.records)[:2]
    line = f"{second}: the run was stopped: {first} failed: no water"
    assert not run.repeats_reason(second, line)
    hear(run, Failed(first, "no water"), 1.0)
    run.on_time(1.0 + SETTLE_S)
    assert run.repeats_reason(second, line)
    assert run.repeats_reason(second, f"{line} (called at micro.c:21)")
    assert not run.repeats_reason(second, "the last level was 3 m")
    assert not run.repeats_reason(first, line)


def test_people_are_told_of_messages_that_nobody_received(make_plan: MakePlan) -> None:
    run = started(make_plan("a", "b", couplings=[("a", "b")]))
    totals = [ConduitTotals(0, sent=16, received=0, bytes=160, dropped=1995)]
    (notice,) = hear(run, left("a", 1, totals), 1.0)
    assert isinstance(notice, Notice)
    assert notice.instance == "a"
    assert notice.text.startswith("1,995 of its messages on a.")


def test_people_are_told_how_many_messages_newer_ones_have_replaced_when_both_ends_have_left(
    make_plan: MakePlan,
) -> None:
    plan = make_plan("a", "b", couplings=[("a", "b")])
    latest = dataclasses.replace(plan.conduits[0], pool=PoolSpec("", is_latest=True))
    run = started(dataclasses.replace(plan, conduits=(latest,)))
    assert not hear(run, left("a", 1, [ConduitTotals(0, 1500, 0, 0, 0, 500)]), 1.0)
    (notice,) = hear(run, left("b", 1, [ConduitTotals(0, 0, 1500, 0, 0, 1)]), 1.0)
    assert isinstance(notice, Notice)
    told = "501 of 2,000 messages were replaced by newer ones"
    assert notice.text == f"{latest.name}: {told}"
    assert run.records["a"].replaced == {0: told}


def by_hand(plan: Plan) -> Coordination:
    """Return a run of a, which is started here, and b, which has joined by hand."""
    run = Coordination(plan, by_hand={"b"})
    run.on_started("a", 100, 0.0)
    for name in ("a", "b"):
        run.on_native(joined(name), 0.0)
    return run


def test_an_instance_that_was_started_by_hand_is_done_when_it_has_left(make_plan: MakePlan) -> None:
    run = by_hand(make_plan("a", "b"))
    run.on_native(left("b"), 1.0)
    run.on_native(Lost("b"), 1.1)
    run.on_native(left("a"), 1.2)
    run.on_ended("a", 0, None, 1.3)
    assert run.phase is Phase.ENDED
    assert outcome(run) == (ExitStatus.DONE, "")


def test_an_instance_that_was_started_by_hand_and_is_lost_ends_the_run(make_plan: MakePlan) -> None:
    run = by_hand(make_plan("a", "b"))
    run.on_native(Lost("b"), 1.0)
    assert of_kind(run.on_time(1.0 + SETTLE_S), Abort)
    run.on_ended("a", 1, None, 1.2)
    assert run.phase is Phase.ENDED
    assert outcome(run)[0] is ExitStatus.INSTANCE_FAILED
    assert run.records["b"].state is Lifecycle.FAILED


def test_a_run_that_is_stopped_ends_when_those_who_were_started_by_hand_have_gone(make_plan: MakePlan) -> None:
    run = by_hand(make_plan("a", "b"))
    run.on_interrupt(1.0)
    run.on_ended("a", None, signal.SIGTERM, 1.1)
    assert run.phase is Phase.STOPPING
    run.on_native(Lost("b"), 1.2)
    assert run.phase is Phase.ENDED
    assert run.records["b"].state is Lifecycle.STOPPED
