"""One heterogeneous job: for groups whose members are all on one cluster, whose scheduler starts its parts together.

The parts still meet before they begin, because the nodes of a job do not come up at exactly the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xmml_executors.coallocation.actions import Action, SubmitTogether
from xmml_executors.coallocation.placeholders import Placeholder, Placeholders, PlaceholderState
from xmml_executors.coallocation.strategy import Member

#: How long the first part waits for the last one, which the scheduler has started at the same time.
MEETING_S = 120.0


class HeterogeneousJob(Placeholders):
    """Submits once and waits; there is nothing to aim and nothing to give back.

    A job that an earlier launcher has submitted may have lost parts since, or have parts that were never noted. Then it
    is taken out of the queue and submitted anew, once.
    """

    def __init__(self, members: Sequence[Member], meeting_s: float = MEETING_S) -> None:
        """
        Raises:
            ValueError: the members are not all at one site.
        """
        super().__init__(members)
        if len({member.site for member in members}) > 1:
            raise ValueError("the parts of a heterogeneous job are all on one cluster")
        self._meeting_s = meeting_s
        self._is_adopted = False

    @property
    def deadline(self) -> float | None:
        """When the first part has waited long enough."""
        ready = [each.ready_at for each in self.all() if each.place is PlaceholderState.READY]
        return min(ready) + self._meeting_s if ready and self.go_awaited() else None

    def go_awaited(self) -> bool:
        """Whether somebody is not ready yet."""
        return any(each.place is PlaceholderState.QUEUED for each in self.all())

    def adopt(self, attempts: Mapping[str, int], now: float, spent: Mapping[str, int] | None = None) -> None:
        """Take over the job that an earlier launcher has submitted."""
        super().adopt(attempts, now, spent)
        self._is_adopted = bool(attempts)

    def begin(self, now: float) -> list[Action]:
        """Submit the job, unless a whole one was adopted."""
        if all(each.place is PlaceholderState.QUEUED for each in self.all()):
            return []
        return self._submit("an earlier launcher has not noted all parts of its job", now)

    def _submit(self, reason: str, now: float) -> list[Action]:
        """Submit the job; what is left of an adopted one goes, for this reason."""
        self._is_adopted = False
        actions = self.cancel_all(reason)
        attempt = 1 + max(each.attempt for each in self.all())
        for each in self.all():
            each.submit(now, attempt)
        slack_s = self.waiting_s(self._meeting_s)
        return [*actions, SubmitTogether(tuple(self.placeholders), attempt, slack_s, self._meeting_s)]

    def on_time(self, now: float) -> list[Action]:
        """Give up if a part does not come."""
        if self.deadline is None or now < self.deadline:
            return []
        late = ", ".join(each.member.name for each in self.all() if each.place is PlaceholderState.QUEUED)
        return self.give_up(f"the parts of the job did not start together: {late} did not come", now)

    def on_ended(self, placeholder: Placeholder, was: PlaceholderState, reason: str, now: float) -> list[Action]:
        """A part is lost, and so is the job."""
        if self._is_adopted:
            return self._submit(f"part {placeholder.member.name} of an earlier launcher's job has ended: {reason}", now)
        return self.give_up(f"part {placeholder.member.name} of the job has ended: {reason}", now)
