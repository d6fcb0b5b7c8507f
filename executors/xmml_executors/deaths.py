"""Instances without which the run goes on if they die (`run:on-death`), and those that have died."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xmml_planner import ConduitSpec, Plan

from xmml_executors.coordinator_events import ConduitTotals
from xmml_executors.escalation import Escalation
from xmml_executors.instance_record import InstanceRecord, Lifecycle

#: A process that counts as dead, since it has failed or its connection is lost, is told to end after this time, is
#: killed after the second and given up after the third.
TERMINATE_AFTER_S = 2.0
KILL_AFTER_S = 4.0
GIVE_UP_AFTER_S = 10.0
#: A writer gives an object to others so often after a death (`MOST_REDELIVERED` of the native core).
DEADLY_AFTER = 3


class Deaths:
    """Who may die, and the processes that still have to end of those who count as dead."""

    def __init__(self, plan: Plan, records: Mapping[str, InstanceRecord]) -> None:
        """Nobody has died."""
        self._records = records
        self._copies: dict[str, list[str]] = {}
        self._element = {name: plan.by_name[name].element for name in plan.may_die}
        for name, element in self._element.items():
            self._copies.setdefault(element, []).append(name)
        self._writers: dict[str, set[str]] = {}
        #: By conduit, whose objects must not be lost.
        self._queues: dict[int, str] = {}
        self._lost: set[str] = set()
        for conduit in plan.conduits:
            if conduit.receiver in self._element and conduit.pool is not None and conduit.pool.is_queue:
                self._writers.setdefault(conduit.receiver, set()).add(conduit.sender)
                if not conduit.pool.may_lose:
                    self._queues[conduit.id] = self._element[conduit.receiver]
        self._lingering: dict[str, Escalation] = {}

    def can_be_spared(self, name: str) -> bool:
        """Whether the run goes on without an instance.

        It does not without the last worker of a queue, unless others have come to the end of it, and all who write to
        it have left without having lost an object, so that every object is dealt with.
        """
        if name not in self._element:
            return False
        if name not in self._writers or self._records[name].left_at is not None:
            return True
        others = self._others(name)
        if any(other.may_still_act and other.died_at is None for other in others):
            return True
        has_ended = self._have_writers_left(name) and any(other.left_at is not None for other in others)
        return has_ended and self._element[name] not in self._lost

    def may_turn_out_spared(self, name: str) -> bool:
        """Whether the last worker of a queue may have died behind the end of it: others have left, and writers may be
        about to."""
        if name not in self._writers or self._have_writers_left(name):
            return False
        return any(other.left_at is not None for other in self._others(name))

    def on_left(self, totals: Sequence[ConduitTotals]) -> None:
        """Take over the totals of an instance that has left: objects of a queue that nobody was left to take."""
        self._lost |= {self._queues[each.conduit] for each in totals if each.dropped and each.conduit in self._queues}

    def _others(self, name: str) -> list[InstanceRecord]:
        return [self._records[other] for other in self._copies[self._element[name]] if other != name]

    def _have_writers_left(self, name: str) -> bool:
        return all(self._records[writer].left_at is not None for writer in self._writers[name])

    def why_last(self, name: str) -> str:
        """Return why the run cannot go on without an instance, if others like it could be spared; else nothing."""
        if name not in self._writers:
            return ""
        element = self._element[name]
        dead = [other for other in self._copies[element] if self._records[other].died_at is not None and other != name]
        before = f" ({', '.join(dead)} died before)" if dead else ""
        return f"it was the last copy of {element} that could go on{before}"

    def begin(self, name: str, now: float) -> None:
        """An instance counts as dead from now on; its process has to end."""
        self._records[name].died_at = now
        self._lingering[name] = Escalation(
            now, terminate_s=TERMINATE_AFTER_S, kill_s=KILL_AFTER_S, give_up_s=GIVE_UP_AFTER_S
        )

    def end(self, name: str) -> None:
        """Its process is gone."""
        self._lingering.pop(name, None)

    @property
    def deadline(self) -> float | None:
        """When `due` has something to return."""
        times = (escalation.deadline for escalation in self._lingering.values())
        return min((time for time in times if time is not None), default=None)

    def due(self, now: float) -> list[tuple[str, int | None]]:
        """Return which processes have to be told to end, by which signal; `None`: they are given up."""
        return [(name, number) for name, each in self._lingering.items() for number in each.due(now)]


def deaths_in_words(records: Mapping[str, InstanceRecord], blamed: str | None = None) -> list[str]:
    """Return a sentence for each instance that has died without being the reason why the run ended.

    Args:
        records: of all instances.
        blamed: the instance that the outcome of the run names, of which that says more.
    """
    return [
        f"{record.name} died: {record.death}{_went_on(record)}{_given_again(record)}"
        for record in records.values()
        if record.state is Lifecycle.DIED and record.name != blamed
    ]


def deadly_object_in_words(conduit: ConduitSpec, number: int) -> str:
    """Return why an instance has failed that is the last of those that died with an object.

    Args:
        conduit: on which the object came to it.
        number: of the object (`sys.seq`).
    """
    port = f"{conduit.sender}.{conduit.sender_port}"
    count = DEADLY_AFTER + 1
    return f"object {number} (sys.seq) of {port} was given to {count} instances, and each of them died, this one last"


def _went_on(record: InstanceRecord) -> str:
    return "; the run went on without it" if record.is_outlived else ""


def _given_again(record: InstanceRecord) -> str:
    count = record.given_again
    if not count:
        return ""
    return f"; {count:,} object{' was' if count == 1 else 's were'} given to others"
