"""Watching for deadlocks while a run goes on: who waits now, which cycle is suspected, and which conduit has grown.

    no suspicion --a cycle is found--> its members are asked --all still wait--> a conduit grows, or it is a deadlock
         \\<---------------------------------/ one of them goes on

`deadlock` finds cycles and judges them; here is what passes between two looks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xmml_planner import ConduitSpec, Plan

from xmml.late_dataclass import dataclass
from xmml_executors import coordinator_events as events
from xmml_executors import deadlock
from xmml_executors.conduits import Conduits
from xmml_executors.coordination_orders import Confirm, Grow, Notice
from xmml_executors.disconnected_instances import DisconnectedInstances
from xmml_executors.instance_record import Awaited, InstanceRecord

#: How long a conduit that grew may take to let its sender go on, before it grows again.
GROWN_S = 0.5


@dataclass(frozen=True)
class Deadlocked:
    """All members of a cycle still wait, and no larger conduit would let one of them go on.

    Attributes:
        words: who waits for whom.
        waiter: one of the members.
    """

    words: str
    waiter: str


class DeadlockWatch:
    """Who waits for what, and what is being done about it."""

    def __init__(
        self,
        plan: Plan,
        conduits: Conduits,
        records: Mapping[str, InstanceRecord],
        absences: DisconnectedInstances,
    ) -> None:
        """Begin when nobody waits.

        Args:
            plan: of the run.
            conduits: of the run, also those that are opened later.
            records: of the instances; here it is noted what each waits for.
            absences: who is away, and may have gone on.
        """
        self._conduits = conduits
        self._records = records
        self._absences = absences
        self._waiting: dict[str, deadlock.WaitReport] = {}
        self._is_to_look = False
        self._suspected: tuple[deadlock.WaitEdge, ...] = ()
        self._concerned: frozenset[str] = frozenset()
        self._unconfirmed: set[tuple[str, int]] = set()
        self._grown: tuple[str, float] | None = None
        self._mappers = frozenset(instance.name for instance in plan.instances if instance.kind == "mapper")
        self._capacities = {conduit.id: conduit.capacity for conduit in plan.conduits}
        #: How often the limit of a pool was doubled.
        self._doubled: dict[int, int] = {}

    # --- who waits --------------------------------------------------------------------------------------------------

    def begin(self, record: InstanceRecord, event: events.Waiting) -> None:
        """An instance waits."""
        waits = tuple((each.conduit, each.kind) for each in event.waits)
        if any(kind != "holders" and number not in self._conduits.by_id for number, kind in waits):
            return  # it waits for a tap that has left, and goes on by itself
        record.waits_for = tuple(self._awaited(record.name, *wait) for wait in waits)
        self._waiting[record.name] = deadlock.WaitReport(
            record.name, event.epoch, waits, event.sent, event.received, event.is_any, event.is_timed
        )
        self._is_to_look = True

    def _awaited(self, name: str, number: int, kind: str) -> Awaited:
        if kind == "holders":
            return Awaited("those who have its handles", f"handles of {name}")
        conduit = self._conduits.by_id[number]
        return Awaited(conduit.sender if conduit.receiver == name else conduit.receiver, conduit.name)

    def on_resumed(self, name: str) -> None:
        """An instance goes on."""
        self.end(name)
        self._is_to_look = True

    def end(self, name: str) -> None:
        """An instance does not wait any more, or is no part of the run any more."""
        self._records[name].waits_for = ()
        self._waiting.pop(name, None)
        if name in self._concerned:
            self._suspected = ()
        if self._grown is not None and self._grown[0] == name:
            self._grown = None

    def on_away(self, name: str) -> None:
        """The connection of an instance is broken: it may have gone on."""
        if name in self._concerned:
            self._suspected = ()
            self._is_to_look = True

    def look_again(self) -> None:
        """Something has changed of which a deadlock may come, or come to light."""
        self._is_to_look = True

    # --- conduits ---------------------------------------------------------------------------------------------------

    def on_opened(self, conduit: ConduitSpec) -> None:
        """There is a conduit more."""
        self._capacities[conduit.id] = conduit.capacity

    def forget_conduits(self, numbers: Collection[int]) -> None:
        """Conduits to a tap that has left are no more. Whoever waited for it goes on."""
        for number in numbers:
            self._capacities.pop(number, None)
        for waiter in [each for each, wait in self._waiting.items() if any(on in numbers for on, _ in wait.waits)]:
            self.end(waiter)

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """When `on_time` wants to be called."""
        return None if self._grown is None else self._grown[1]

    def on_time(self, now: float) -> list[Confirm]:
        """Look again if a conduit that grew has not helped."""
        return self._suspect(now) if self._grown is not None and self._grown[1] <= now else []

    def look(self, now: float) -> list[Confirm]:
        """Look for a cycle if something has changed; return whom to ask whether they still wait."""
        if not self._is_to_look:
            return []
        self._is_to_look = False
        return self._suspect(now)

    def _suspect(self, now: float) -> list[Confirm]:
        """Look for a cycle, unless one is being confirmed or resolved, and ask its members whether they still wait. One
        that is away may have gone on, and is no member of any."""
        if self._grown is not None and self._grown[1] <= now:
            self._grown = None
        if self._suspected or self._grown:
            return []
        staying: frozenset[str] = frozenset()
        waiting = self._waiting
        if self._absences:
            waiting = {name: report for name, report in waiting.items() if name not in self._absences}
        if any(deadlock.is_for_holders(report) for report in waiting.values()):
            staying = frozenset(name for name, record in self._records.items() if record.may_still_act)
        lasting = {name: report for name, report in waiting.items() if not report.is_timed}
        cycle = deadlock.find_cycle(lasting, self._conduits.by_id, self._mappers, staying)
        if cycle is None and len(lasting) < len(waiting):
            # Who waits for some time only goes on by itself; others need not wait so long if a conduit is too small.
            cycle = deadlock.find_cycle(waiting, self._conduits.by_id, self._mappers, staying)
            if cycle is not None and deadlock.judge(cycle, self._capacities) is None:
                return []
        else:
            waiting = lasting
        if cycle is None:
            return []
        self._suspected = cycle
        self._concerned = deadlock.concerned(cycle, waiting, self._conduits.by_id, self._mappers, staying)
        self._unconfirmed = {(name, waiting[name].epoch) for name in self._concerned}
        return [Confirm(name, epoch) for name, epoch in sorted(self._unconfirmed)]

    def on_confirmed(self, name: str, event: events.Confirmed, now: float) -> list[Grow | Notice] | Deadlocked:
        """An instance has said whether it still waits; return what follows if it was the last one that was asked."""
        asked = (name, event.epoch)
        if not self._suspected or asked not in self._unconfirmed:
            return []
        if not event.still:
            self.on_resumed(name)
            return []
        self._unconfirmed.discard(asked)
        return [] if self._unconfirmed else self._judge(now)

    def _judge(self, now: float) -> list[Grow | Notice] | Deadlocked:
        cycle, self._suspected = self._suspected, ()
        self._concerned = frozenset()
        verdict = deadlock.judge(cycle, self._capacities)
        if verdict is None:
            return Deadlocked(deadlock.witness(cycle, self._waiting, self._conduits.by_id), cycle[0].waiter)
        self._capacities[verdict.conduit] = verdict.capacity
        self._grown = (next(link.waiter for link in cycle if link.conduit == verdict.conduit), now + GROWN_S)
        conduit = self._conduits.by_id[verdict.conduit]
        if conduit.pool is None:
            now_holds = f"{verdict.capacity} messages; run:capacity sets it from the start"
        else:
            doubled = self._doubled[verdict.conduit] = self._doubled.get(verdict.conduit, 0) + 1
            now_holds = f"{conduit.byte_budget << doubled:,} bytes; run:limit sets it from the start"
        return [
            Grow(verdict.conduit, verdict.capacity),
            Notice(f"{conduit.name} was too small for this model and grew to {now_holds}"),
        ]
