"""Instances whose jobs come later than the run begins: noticing that they are wanted.

When they are expected is predicted, maybe badly. That somebody waits for one of them, or has sent it something, is
certain: who sends to it does not end before that is taken, and keeps its own job until then.
"""

from __future__ import annotations

from collections.abc import Mapping

from xmml_native import Coordinator
from xmml_planner import Plan

from xmml_executors import coordinator_events as events
from xmml_executors.executor import Executor
from xmml_executors.instance_record import InstanceRecord

#: How often those that run are asked what they have sent, as long as somebody is to come.
LOOK_EVERY_S = 2.0
#: The number of our enquiries; those of other people are positive.
ENQUIRY = 0


class DeferredInstances:
    """Who is to come, and whether somebody wants them now."""

    def __init__(self, plan: Plan, executor: Executor, records: Mapping[str, InstanceRecord]) -> None:
        self._plan = plan
        self._executor = executor
        self._records = records
        self._look_at = 0.0

    @property
    def deadline(self) -> float | None:
        """When `on_time` wants to be called; `None`: nobody is to come any more."""
        return self._look_at if self._executor.late else None

    def on_time(self, now: float, coordinator: Coordinator) -> None:
        """Ask those that run what they have sent, if it is time to."""
        if self._executor.late and now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            coordinator.enquire(ENQUIRY)

    def on_native(self, event: events.CoordinatorEvent) -> None:
        """An event of the coordinator: somebody waits, or says what it has sent."""
        late = self._executor.late
        if not late:
            return
        wanted: set[str] = set()
        match event:
            case events.Waiting() if event.instance in self._records:
                wanted = {each.partner for each in self._records[event.instance].waits_for}
            case events.Figures() if event.number == ENQUIRY:
                conduits = self._plan.by_conduit
                sent = [each.conduit for each in event.sending if each.messages]
                wanted = {conduits[number].receiver for number in sent if number in conduits}
        if wanted & late:
            self._executor.hasten(wanted & late)
