"""The policy of a run: what to do when something happens. Pure: events and times go in, orders come out.

    running --a failure--> settling --the cause is clear--> stopping --all processes gone--> ended
       \\--all instances done----------------------------------------------------------------/

Settling lasts a moment: when a process dies, its partners may notice before we do, and the one to name is the one that
died. Stopping tells everyone through the coordinator first, then by SIGTERM, then by SIGKILL.
"""

from __future__ import annotations

import signal
from collections.abc import Collection
from enum import Enum
from typing import assert_never

from xmml_planner import Plan

from xmml_executors import coordinator_events as events
from xmml_executors.conduits import Conduits
from xmml_executors.coordination_orders import Abort, Died, GoOnWithout, Notice, Order, Signal
from xmml_executors.deadlock_watch import Deadlocked, DeadlockWatch
from xmml_executors.deaths import Deaths, deadly_object_in_words
from xmml_executors.detours import Detours
from xmml_executors.disconnected_instances import DisconnectedInstances
from xmml_executors.escalation import Escalation
from xmml_executors.failure import (
    SIMULTANEOUS_S,
    Failure,
    FailureSymptom,
    cause_of,
    concerns,
    describe,
    manner_of_death,
    one_line,
)
from xmml_executors.final_counts import FinalCounts
from xmml_executors.instance_record import InstanceRecord, Lifecycle
from xmml_executors.outcome import ExitStatus, Outcome
from xmml_executors.ranks import Ranks
from xmml_executors.tap_names import TapNames

#: How soon the writers of a queue leave when everything is dealt with, on the busiest machine too.
WRITERS_LEAVE_WITHIN_S = 10.0
#: How long signs of failure are collected before one is named the cause.
SETTLE_S = 0.1
#: The same where an instance at another site is gone without a word of its own: its job may be at an end, or its node,
#: and what tells of that comes over another connection. In doubt the site is asked.
SETTLE_ELSEWHERE_S = 1.5
ASKED_WITHIN_S = 6.0
#: The same where the connection of a process of this machine is broken: how the process ends says why, and a program
#: that closes its connection without leaving usually exits soon after.
SETTLE_LOST_S = 1.0
#: From the abort to SIGTERM, from SIGTERM to SIGKILL, from SIGKILL to giving up on a process.
TERMINATE_AFTER_S = 0.3
KILL_AFTER_S = 0.4
GIVE_UP_AFTER_S = 2.0
#: What an instance reports that takes part in the run; of one that counts as dead it means nothing.
_OF_THE_LIVING = (events.Joined, events.Waiting, events.Left, events.Away, events.Back)
#: Who the coordinator names where the system, and no stranger, keeps its door shut.
THE_SYSTEM = "the system"
#: An ended process may have left normally, or have joined, without our having read it yet. If it had joined, that or
#: the end of its connection is read in the end, and decides: so long is waited for it. If not, nothing may ever come.
LEAVING_NEWS_S = 5.0
JOINING_NEWS_S = 1.0


class Phase(Enum):
    """Where the run is."""

    RUNNING = "running"
    SETTLING = "settling"
    STOPPING = "stopping"
    ENDED = "ended"


class Coordination:
    """The state of a run and its transitions.

    Each method takes the time `now` (monotonic seconds) and returns orders; `deadline` says when `on_time` wants to be
    called. When `phase` is `ENDED`, `outcome` says how.
    """

    def __init__(
        self, plan: Plan, *, limits: bool = True, elsewhere: Collection[str] = (), by_hand: Collection[str] = ()
    ) -> None:
        """Begin a run of which nothing has started.

        Args:
            plan: what is to run.
            limits: `False` is for someone at a debugger: a deadlock is told, but does not end the run.
            elsewhere: the instances that run in jobs at other sites.
            by_hand: instances that somebody else starts: they are gone when their connection is.
        """
        self.plan = plan
        self.conduits = Conduits(plan)
        self.records = {instance.name: InstanceRecord(instance.name) for instance in plan.instances}
        self.phase = Phase.RUNNING
        self.outcome: Outcome | None = None
        self._limits = limits
        self._elsewhere = frozenset(elsewhere)
        self._by_hand = by_hand
        self._failures: dict[str, Failure] = {}
        self._pending: dict[str, float] = {}
        self._settled_at = 0.0
        self._is_in_doubt = False
        self._stopping: Escalation | None = None
        self._absences = DisconnectedInstances()
        self._deaths = Deaths(plan, self.records)
        self._waits = DeadlockWatch(plan, self.conduits, self.records, self._absences)
        self._unended = list(self.records)
        self._detours = Detours(plan, by_hand)
        self._counts = FinalCounts(plan, self.conduits, self.records)
        self._ranks = Ranks(plan, self.records)
        self._door_problem = ""
        #: The names of those that are shown what passes, and of which the model knows nothing.
        self.taps = TapNames(self.records)

    # --- processes --------------------------------------------------------------------------------------------------

    def on_started(self, name: str, pid: int, now: float, process: str | None = None) -> list[Order]:
        """The process of an instance runs; `process` is its name if it is shared."""
        record = self.records[name]
        record.process = process
        if record.state is Lifecycle.PLANNED:
            record.become(Lifecycle.STARTED)
        record.pid, record.started_at = pid, now
        self._ranks.on_started(name, now)
        return [] if self.phase is not Phase.STOPPING else [Signal(name, signal.SIGTERM)]

    def on_refused(self, name: str, reason: str, now: float) -> list[Order]:
        """The operating system would not start an instance."""
        self.records[name].become(Lifecycle.FAILED)
        return self._fail(name, FailureSymptom.REFUSED, f"its program could not be started: {reason}", now)

    def on_output(self, name: str, stream: str, line: str) -> None:
        """An instance has written a line."""
        if stream == "stderr":
            self.records[name].last_words.append(line)

    def repeats_reason(self, name: str, line: str) -> bool:
        """Whether a line only says why the run is being stopped, which its last line says for all: such lines of the
        bystanders stay in their logs, or a hundred copies would hide what the one that failed has written."""
        if self.outcome is None or name == self.outcome.instance:
            return False
        return bool(self.outcome.reason) and f"the run was stopped: {self.outcome.reason}" in line

    def on_process_output(self, process: str, stream: str, line: str) -> None:
        """A process that instances share has written a line that is none of theirs alone."""
        for record in self.records.values() if stream == "stderr" else ():
            if record.process == process and record.is_alive:
                record.last_words.append(line)

    def on_process_ended(self, name: str, status: int | None, signal_number: int | None, now: float) -> list[Order]:
        """The shared process of an instance is gone, and every other instance in it."""
        record = self.records[name]
        if record.state.is_final:
            return []
        record.died_with = tuple(
            other.name
            for other in self.records.values()
            if other is not record and other.process == record.process and (other.is_alive or other.died_with)
        )
        return self.on_ended(name, status, signal_number, now)

    def on_ended(self, name: str, status: int | None, signal_number: int | None, now: float) -> list[Order]:
        """The process of an instance is gone, or the instance has ended in a shared one."""
        record = self.records[name]
        if record.state.is_final:  # its site was given up before
            return []
        record.exit_status, record.signal, record.ended_at = status, signal_number, now
        self._waits.end(name)
        self._is_present(record)
        orders: list[Order] = []
        for rank in self._ranks.on_ended(name, self._failures):
            self._waits.end(rank.name)
            if not rank.state.is_final:
                orders += self._await_news(rank, now)
        if record.failure or record.died_at is not None or signal_number is not None or status != 0:
            return [*orders, *self._end_badly(name, now)]
        if record.state is Lifecycle.LEFT:
            record.become(Lifecycle.DONE)
            return [*orders, *self._look_whether_all_ended(now)]
        return [*orders, *self._await_news(record, now)]

    def _await_news(self, record: InstanceRecord, now: float) -> list[Order]:
        """Give an instance whose process is gone time for what it said last, if anything depends on that."""
        if self.phase is Phase.STOPPING or record.name in self._failures:
            return self._end_badly(record.name, now)
        self._pending[record.name] = now + (LEAVING_NEWS_S if record.state is Lifecycle.RUNNING else JOINING_NEWS_S)
        return []

    def on_vanished(self, name: str, now: float) -> list[Order]:
        """The process that has joined as an instance is gone, though what has started it may not be: if its connection
        breaks, or is broken, it does not come back."""
        record = self.records[name]
        record.has_vanished = True
        return self._on_lost(record, now) if record.away_since is not None else []

    def _end_badly(self, name: str, now: float) -> list[Order]:
        record = self.records[name]
        self._pending.pop(name, None)
        self._deaths.end(name)
        if self._goes_on_without(record, FailureSymptom.ENDED):
            return self._bury(record, now)
        stopped = self.phase is Phase.STOPPING and name not in self._failures
        record.become(Lifecycle.STOPPED if stopped else Lifecycle.FAILED)
        orders = [] if stopped else self._fail(name, FailureSymptom.ENDED, "", now)
        return [*orders, *self._look_whether_all_ended(now)]

    def on_site_failure(self, reason: str, now: float, gone: Collection[str] = ()) -> list[Order]:
        """Something on a machine keeps the run from going on, of whose instances `gone` nothing more will be heard."""
        orders = self._stop(Outcome(ExitStatus.SITE_FAILED, one_line(reason)), now)
        for record in self._alive():
            if record.name in gone:
                record.become(Lifecycle.STOPPED)
        return [*orders, *self._look_whether_all_ended(now)]

    def on_site_suspected(self, now: float) -> list[Order]:
        """Something is wrong with a site. What it is, or that it is nothing, will be known soon; until then no instance
        is blamed."""
        self._settled_at = max(self._settled_at, now + ASKED_WITHIN_S)
        self._is_in_doubt = True
        return []

    def on_supervisor_exit(self, now: float, why: str = "") -> list[Order]:
        """The supervisor of the machine was killed, and with it the instances; `why`, if that is known."""
        reason = "the supervisor of this machine was killed, and the instances with it" + (f": {why}" if why else "")
        orders = self._stop(Outcome(ExitStatus.SITE_FAILED, reason), now)
        for record in self._alive():
            record.become(Lifecycle.STOPPED)
        return [*orders, *self._look_whether_all_ended(now)]

    def on_job_end(self, now: float, reason: str) -> list[Order]:
        """The job in which everything runs has been told to end: all its processes at the same time, so that the one
        that ended first is not to blame."""
        if self.phase is Phase.STOPPING:
            self.outcome = Outcome(ExitStatus.INTERRUPTED, reason)
        return self._stop(Outcome(ExitStatus.INTERRUPTED, reason), now)

    def on_interrupt(self, now: float) -> list[Order]:
        """The user wants the run to stop; the second time, at once."""
        if self._stopping is not None and self.phase is Phase.STOPPING:
            self._stopping.was_killed(now, GIVE_UP_AFTER_S)
            return self._signals(signal.SIGKILL)
        return self._stop(Outcome(ExitStatus.INTERRUPTED, "the run was interrupted"), now)

    # --- the coordinator's events -----------------------------------------------------------------------------------

    def on_native(self, event: events.CoordinatorEvent, now: float) -> list[Order]:
        """An event of the native coordinator, after which others may follow at once.

        Whoever calls it must call `look_for_deadlock` after the last of them.
        """
        if isinstance(event, events.Refused):
            return self._on_peer_refused(event)
        record = self.records.get(event.instance)
        if record is None and event.instance in self.taps:
            return self._on_tap(event)
        if record is None:
            return [Notice(f'an instance "{event.instance}" that is not in the plan reported: {event.word}')]
        if record.died_at is not None and isinstance(event, _OF_THE_LIVING):
            return []  # said before it heard of its death; its partners know of that, and the run goes on without it
        match event:
            case events.Joined():
                return self._on_joined(record, event, now)
            case events.Progress():
                return self._on_progress(record, event)
            case events.Waiting():
                self._waits.begin(record, event)
                return []
            case events.Resumed():
                self._waits.on_resumed(record.name)
                return []
            case events.Confirmed():
                return self._on_confirmed(record, event, now)
            case events.Warned():
                return [Notice(one_line(event.text), record.name)]
            case events.Failed():
                return self._on_failed(record, event, now)
            case events.Left():
                return self._on_left(record, event, now)
            case events.Away():
                return self._on_away(record, event, now)
            case events.Back():
                return self._on_back(record)
            case events.Lost():
                return self._on_lost(record, now)
            case events.MethodChosen():
                return self._on_method_chosen(record, event)
            case events.GivenAgain():
                return self._on_given_again(event, now)
            case events.Opened():
                return self._on_opened(event)
            case events.Figures() | events.MethodChanged():
                return []  # for those who ask; which method is in use is told by `MethodChosen`
        assert_never(event)

    def _on_tap(self, event: events.InstanceEvent) -> list[Order]:
        """Something of a tap: nothing of the run depends on it."""
        match event:
            case events.Opened():
                return self._on_opened(event)
            case events.Joined():
                return [Notice(f"{event.instance} has joined and is shown what passes")]
            case events.Left():
                self._forget_tap(event.instance)
                return [Notice(f"{event.instance} has left")]
            case events.Lost():
                self._forget_tap(event.instance)
                return [Notice(f"{event.instance} has exited, or has lost its connection, and is shown nothing more")]
            case events.Failed() | events.Warned():
                return [Notice(f"{event.instance}: {one_line(event.text)}")]
        return []

    def _forget_tap(self, name: str) -> None:
        """Nothing more comes of a tap. Whoever waited for it goes on."""
        self.taps.remove(name)
        self._waits.forget_conduits(self.conduits.forget_tap(name))

    def _on_peer_refused(self, event: events.Refused) -> list[Order]:
        if event.peer != THE_SYSTEM:
            return [Notice(f"a stranger was turned away: {event.peer}: {event.reason}")]
        self._door_problem = f"the coordinator {event.reason}"
        return [Notice(self._door_problem)]

    def _on_joined(self, record: InstanceRecord, event: events.Joined, now: float) -> list[Order]:
        record.language, record.host, record.joined_at = event.language, event.host, now
        self._is_present(record)
        if record.state is Lifecycle.PLANNED:
            # A quick program joins before the supervisor's news of its start has come.
            record.become(Lifecycle.STARTED)
        if record.state is Lifecycle.STARTED:
            record.become(Lifecycle.RUNNING)
        return []

    def _on_progress(self, record: InstanceRecord, event: events.Progress) -> list[Order]:
        record.run, record.iteration, record.time = event.run, event.iteration, event.time
        record.messages_sent, record.bytes_sent = event.messages_sent, event.bytes_sent
        record.messages_received, record.bytes_received = event.messages_received, event.bytes_received
        return []

    def _on_method_chosen(self, record: InstanceRecord, event: events.MethodChosen) -> list[Order]:
        how = f"{event.method}, protected" if event.protected else event.method
        record.methods.update(dict.fromkeys(event.conduits, how))
        told = self._detours.notice(event.conduits, event.method, event.refused)
        return [] if told is None else [Notice(told)]

    def _on_opened(self, event: events.Opened) -> list[Order]:
        self.conduits.open(event.conduit)
        self._waits.on_opened(event.conduit)
        return []

    def _on_failed(self, record: InstanceRecord, event: events.Failed, now: float) -> list[Order]:
        self._waits.end(record.name)
        record.failure = record.failure or event.text or "it says that it failed, but not why"
        if self.phase is Phase.STOPPING:
            return []
        return self._fail(record.name, FailureSymptom.REPORTED, record.failure, now)

    def _on_left(self, record: InstanceRecord, event: events.Left, now: float) -> list[Order]:
        self._waits.end(record.name)
        self._is_present(record)
        record.runs, record.left_at = event.runs, now
        notices = self._counts.on_left(record, event.conduits)
        self._deaths.on_left(event.conduits)
        orders: list[Order] = [*notices] if self.phase is Phase.RUNNING else []
        if self.phase is Phase.SETTLING:
            orders += self._look_whether_all_are_spared(now)
        if record.state is not Lifecycle.RUNNING:
            return orders
        record.become(Lifecycle.LEFT)
        if self._pending.pop(record.name, None) is not None or record.name in self._by_hand:
            record.become(Lifecycle.DONE)
            return [*orders, *self._look_whether_all_ended(now)]
        return orders

    def _on_away(self, record: InstanceRecord, event: events.Away, now: float) -> list[Order]:
        """Its connection is broken: what it reported may not hold any more, and nothing is decided by it."""
        if record.state.is_final or self.phase is Phase.STOPPING:
            return []
        if record.name in self._pending:
            return self._end_badly(record.name, now)
        if record.has_vanished:
            return self._on_lost(record, now)
        record.away_since = now
        self._absences.begin(record.name, event.limit_s, now)
        self._waits.on_away(record.name)
        return []

    def _on_back(self, record: InstanceRecord) -> list[Order]:
        self._waits.look_again()
        if self._is_present(record) and self.phase is Phase.RUNNING:
            return [Notice("every instance is connected to the coordinator again")]
        return []

    def _is_present(self, record: InstanceRecord) -> bool:
        """It is not away (any more). Return whether people knew of somebody's absence, and that is over."""
        record.away_since = None
        return self._absences.end(record.name)

    def _on_lost(self, record: InstanceRecord, now: float) -> list[Order]:
        self._waits.end(record.name)
        self._is_present(record)
        if record.name in self._by_hand and not record.state.is_final:
            return self._lose_by_hand(record, now)
        if record.left_at is not None or self.phase is Phase.STOPPING:
            return []
        if record.name in self._pending:
            return self._end_badly(record.name, now)
        return self._fail(record.name, FailureSymptom.LOST, "", now)

    def _lose_by_hand(self, record: InstanceRecord, now: float) -> list[Order]:
        record.ended_at = now
        if self._goes_on_without(record, FailureSymptom.LOST):
            return self._bury(record, now)
        stopped = self.phase is Phase.STOPPING and record.name not in self._failures
        record.become(Lifecycle.STOPPED if stopped else Lifecycle.FAILED)
        orders = [] if stopped else self._fail(record.name, FailureSymptom.LOST, "", now)
        return [*orders, *self._look_whether_all_ended(now)]

    # --- failing and stopping ---------------------------------------------------------------------------------------

    def _goes_on_without(self, record: InstanceRecord, sign: FailureSymptom) -> bool:
        """Whether the run goes on in spite of what has become of an instance."""
        if record.died_at is not None:
            return sign.is_death and record.name not in self._failures
        is_missed = self.phase not in (Phase.RUNNING, Phase.SETTLING) or record.name in self._failures
        return sign.is_death and not is_missed and self._deaths.can_be_spared(record.name)

    def _count_as_dead(self, record: InstanceRecord, now: float) -> list[Order]:
        if record.died_at is not None:
            return []
        self._deaths.begin(record.name, now)
        self._waits.end(record.name)
        self._is_present(record)
        self._waits.look_again()
        return [GoOnWithout(record.name)]

    def _bury(self, record: InstanceRecord, now: float) -> list[Order]:
        """The process of an instance is gone, or given up, without which the run goes on."""
        orders = self._count_as_dead(record, now)
        self._deaths.end(record.name)
        record.death = one_line(manner_of_death(record))
        record.become(Lifecycle.DIED)
        record.is_outlived = self.phase is Phase.RUNNING
        return [*orders, Died(record.name, record.death, record.is_outlived), *self._look_whether_all_ended(now)]

    def _on_given_again(self, event: events.GivenAgain, now: float) -> list[Order]:
        """A writer has given the objects of a reader that died to others."""
        conduit = self.conduits.by_id.get(event.conduit)
        dead = self.records.get(conduit.receiver) if conduit is not None else None
        if conduit is None or dead is None or not (dead.died_at is not None or dead.name in self._failures):
            return []  # no writer has been told that this reader died
        dead.given_again += event.objects
        if event.deadly is None or self.phase not in (Phase.RUNNING, Phase.SETTLING):
            return []
        text = deadly_object_in_words(conduit, event.deadly)
        self._failures.pop(dead.name, None)  # this says more than that it has died as the last one
        orders = self._fail(dead.name, FailureSymptom.DEADLY, text, now)
        if dead.state is Lifecycle.DIED:
            dead.become(Lifecycle.FAILED)  # the run does not go on without it
        return orders

    def _fail(self, name: str, sign: FailureSymptom, text: str, now: float) -> list[Order]:
        if self._goes_on_without(self.records[name], sign):
            return self._count_as_dead(self.records[name], now)
        # Its writers may know that it died of an object.
        orders: list[Order] = []
        if sign.is_death and name in self.plan.may_die and name not in self._failures:
            orders = [GoOnWithout(name)]
        failure = self._failures.setdefault(name, Failure(name, sign, text, now))
        settled_at = now + self._settling_s(failure)
        if self.phase is Phase.RUNNING:
            self.phase = Phase.SETTLING
            self._settled_at = max(self._settled_at, settled_at)
        elif self.phase is Phase.SETTLING and not self._is_in_doubt:
            self._settled_at = min(self._settled_at, settled_at)
        return [*orders, *self._look_whether_all_ended(now)]

    def _settling_s(self, failure: Failure) -> float:
        """How long after a sign of failure its cause may become known."""
        record = self.records[failure.instance]
        if failure.sign.is_death and self._deaths.may_turn_out_spared(failure.instance):
            return WRITERS_LEAVE_WITHIN_S
        if failure.instance in self._elsewhere and failure.sign.is_silent:
            is_explained = record.exit_status is not None or record.signal not in (None, signal.SIGTERM, signal.SIGKILL)
            return SETTLE_S if is_explained else SETTLE_ELSEWHERE_S
        return SETTLE_ELSEWHERE_S if self._elsewhere and concerns(failure, self._elsewhere) else SETTLE_S

    def _look_whether_all_are_spared(self, now: float) -> list[Order]:
        """Go on with the run if those that seemed to be the last of their queue have died when all was dealt with."""
        failures = list(self._failures.values())
        if not all(each.sign.is_death and self._deaths.can_be_spared(each.instance) for each in failures):
            if not self._is_in_doubt:
                self._settled_at = min(self._settled_at, *(now + self._settling_s(each) for each in failures))
            return []
        self._failures.clear()
        self.phase = Phase.RUNNING
        orders: list[Order] = []
        for record in (self.records[each.instance] for each in failures):
            is_gone = record.state is Lifecycle.FAILED
            orders += self._bury(record, now) if is_gone else self._count_as_dead(record, now)
        return orders

    def _settle(self, now: float) -> list[Order]:
        orders = self._look_whether_all_are_spared(now)
        if self.phase is not Phase.SETTLING:
            return orders
        cause = cause_of(list(self._failures.values()), SETTLE_ELSEWHERE_S if self._elsewhere else SIMULTANEOUS_S)
        record = self.records[cause.instance]
        if self._may_exit_soon(cause, record) and now < cause.at + SETTLE_LOST_S:
            self._settled_at = cause.at + SETTLE_LOST_S
            return orders
        reason = describe(cause, record, own_files=(self.plan.model_folder,))
        if self._door_problem and record.joined_at is None:
            reason = f"{reason}; {self._door_problem}"
        if cause.sign is not FailureSymptom.DEADLY and (last := self._deaths.why_last(cause.instance)):
            reason = f"{reason}; {last}"
        log = None if cause.sign is FailureSymptom.REFUSED else f"{own_log(record)}/stderr"
        return self._stop(Outcome(ExitStatus.INSTANCE_FAILED, reason, cause.instance, log), now)

    def _may_exit_soon(self, cause: Failure, record: InstanceRecord) -> bool:
        """Whether the cause is that a process has lost its connection, of which more is known when it ends."""
        is_process_here = cause.instance not in self._elsewhere and cause.instance not in self._ranks
        is_going = record.ended_at is None and not record.has_vanished
        return cause.sign is FailureSymptom.LOST and is_process_here and is_going

    def _stop(self, outcome: Outcome, now: float) -> list[Order]:
        if self.phase in (Phase.STOPPING, Phase.ENDED):
            return []
        self.outcome = outcome
        self.phase = Phase.STOPPING
        self._pending.clear()
        kill_s = TERMINATE_AFTER_S + KILL_AFTER_S
        self._stopping = Escalation(
            now, terminate_s=TERMINATE_AFTER_S, kill_s=kill_s, give_up_s=kill_s + GIVE_UP_AFTER_S
        )
        for record in self.records.values():
            if record.state is Lifecycle.PLANNED or (record.is_alive and record.ended_at is not None):
                record.become(Lifecycle.STOPPED)
        return [Abort(outcome.reason), *self._look_whether_all_ended(now)]

    def _alive(self) -> list[InstanceRecord]:
        return [record for record in self.records.values() if record.is_alive and record.ended_at is None]

    def _signals(self, number: int) -> list[Order]:
        """A signal to every process; further ranks are in that of rank 0."""
        return [Signal(record.name, number) for record in self._alive() if record.name not in self._ranks]

    def _look_whether_all_ended(self, now: float) -> list[Order]:
        while self._unended and self.records[self._unended[-1]].state.is_final:
            self._unended.pop()
        if self._unended or self.phase is Phase.ENDED:
            return []
        if self.phase is Phase.SETTLING:
            return [] if self._elsewhere and now < self._settled_at else self._settle(now)
        self.outcome = self.outcome or Outcome(ExitStatus.DONE)
        self.phase = Phase.ENDED
        return []

    # --- deadlock ---------------------------------------------------------------------------------------------------

    def look_for_deadlock(self, now: float) -> list[Order]:
        """Look whether those who have said that they wait, or no longer, wait for each other. A look goes through all
        who wait, so one is taken after all events that have come together."""
        return [*self._waits.look(now)] if self.phase is Phase.RUNNING else []

    def _on_confirmed(self, record: InstanceRecord, event: events.Confirmed, now: float) -> list[Order]:
        found = self._waits.on_confirmed(record.name, event, now)
        if not isinstance(found, Deadlocked):
            return [*found]
        if not self._limits:
            return [Notice(f"this would end as a deadlock: {found.words}")]
        return self._stop(Outcome(ExitStatus.DEADLOCK, f"deadlock: {found.words}", found.waiter), now)

    # --- time -------------------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """When `on_time` must be called, unless something happens before; `None`: whenever."""
        times = list(self._pending.values())
        if self.phase is Phase.SETTLING:
            times.append(self._settled_at)
        if self.phase is Phase.RUNNING and self._waits.deadline is not None:
            times.append(self._waits.deadline)
        if self.phase is Phase.RUNNING and self._absences.deadline is not None:
            times.append(self._absences.deadline)
        if self.phase in (Phase.RUNNING, Phase.SETTLING) and self._deaths.deadline is not None:
            times.append(self._deaths.deadline)
        if self.phase is Phase.STOPPING and self._stopping is not None and self._stopping.deadline is not None:
            times.append(self._stopping.deadline)
        return min(times, default=None)

    def on_time(self, now: float) -> list[Order]:
        """Do what is due."""
        orders: list[Order] = []
        for name in [name for name, at in self._pending.items() if at <= now]:
            orders += self._end_badly(name, now)
        if self.phase in (Phase.RUNNING, Phase.SETTLING):
            orders += self._end_the_dead(now)
        if self.phase is Phase.RUNNING:
            orders += self._waits.on_time(now)
        if self.phase is Phase.RUNNING and (news := self._absences.news(now)) is not None:
            orders.append(Notice(news))
        if self.phase is Phase.SETTLING and self._settled_at <= now:
            orders += self._settle(now)
        if self.phase is Phase.STOPPING and self._stopping is not None:
            for number in self._stopping.due(now):
                orders += self._stop_harder(number, now)
        return orders

    def _end_the_dead(self, now: float) -> list[Order]:
        """End the processes of those that count as dead."""
        orders: list[Order] = []
        for name, number in self._deaths.due(now):
            record = self.records[name]
            if number is not None:
                orders.append(Signal(name, number))
            elif not record.state.is_final:
                record.ended_at = now
                orders += self._end_badly(name, now)
        return orders

    def _stop_harder(self, number: int | None, now: float) -> list[Order]:
        if number is not None:
            return self._signals(number)
        for record in self._alive():
            record.become(Lifecycle.STOPPED)
        return [
            Notice("a killed process has not disappeared; the supervisor ends what is left"),
            *self._look_whether_all_ended(now),
        ]


def own_log(record: InstanceRecord) -> str:
    """Return the folder of the streams that say most about a failed instance: those of its process, if that died."""
    return record.process if record.process and record.died_with else f"instances/{record.rank_of or record.name}"
