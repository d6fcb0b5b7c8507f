"""Advance reservations in two phases: hold the cores at every site for the same time, and only when all sites have
agreed, confirm by submitting into the reservations. One refusal gives all back and moves the time."""

from __future__ import annotations

from collections.abc import Sequence

from xmml_executors.coallocation.actions import Action, Hold, Reserve, Submit, Unreserve
from xmml_executors.coallocation.events import Event, NotReserved, Reserved
from xmml_executors.coallocation.placeholders import Placeholder, Placeholders, PlaceholderState
from xmml_executors.coallocation.strategy import Member, Phase

#: From now until the first reservation begins: every site must have answered by then.
AHEAD_S = 10.0
#: How far the time moves if the site that refused does not know when it has room.
STEP_S = 900.0
#: How long placeholders wait for each other in their reservations.
MEETING_S = 300.0
#: How often the time is moved before we give up.
MOST_PROPOSALS = 500


class Reservation(Placeholders):
    """Proposes times until every site agrees to one."""

    def __init__(
        self,
        members: Sequence[Member],
        ahead_s: float = AHEAD_S,
        step_s: float = STEP_S,
        meeting_s: float = MEETING_S,
    ) -> None:
        super().__init__(members)
        self._ahead_s, self._step_s, self._meeting_s = ahead_s, step_s, meeting_s
        self._proposals = 0
        self._proposed_at = 0.0
        self._start = 0.0
        self._held: dict[str, str] = {}
        self._refused: dict[str, NotReserved] = {}

    @property
    def deadline(self) -> float | None:
        """When everybody must have come."""
        if self.phase is Phase.GATHERING and any(each.place is not PlaceholderState.ABSENT for each in self.all()):
            return self._start + self._meeting_s
        return None

    def begin(self, now: float) -> list[Action]:
        """Propose the first time."""
        return self._propose(now + self._ahead_s, now)

    def _propose(self, start: float, now: float) -> list[Action]:
        self._proposals += 1
        self._proposed_at = now
        self._start = start
        self._held.clear()
        self._refused.clear()
        return [Reserve(each.member.name, start, start + each.member.run_s + self._meeting_s) for each in self.all()]

    def on_other(self, event: Event, now: float) -> list[Action]:
        """A site has answered a proposal."""
        if self.phase is Phase.FAILED and isinstance(event, Reserved):
            return [Unreserve(event.member, event.name)]
        if self.phase is not Phase.GATHERING:
            return []
        if isinstance(event, Reserved):
            self._held[event.member] = event.name
        elif isinstance(event, NotReserved):
            self._refused[event.member] = event
        else:
            return []  # no answer, so nothing is decided by it, nor once more
        if len(self._held) + len(self._refused) < len(self.placeholders):
            return []
        if self._refused:
            return self._move(now)
        return self._confirm(now) if now < self._start else self._move_what_came_late(now)

    def _move_what_came_late(self, now: float) -> list[Action]:
        """The sites agreed when the time had begun: jobs would not have all of it. Propose a time that leaves them as
        long as they took."""
        given_back = self._give_back()
        took_s = now - self._proposed_at
        if self._proposals >= MOST_PROPOSALS:
            return [*given_back, *self.give_up(f"the sites take {took_s:.0f} s to agree to a time", now)]
        return [*given_back, *self._propose(now + took_s + self._ahead_s, now)]

    def _move(self, now: float) -> list[Action]:
        """Give back what is held and propose a later time."""
        given_back = self._give_back()
        for name, refusal in self._refused.items():
            if refusal.for_good or self._proposals >= MOST_PROPOSALS:
                site = self.placeholders[name].member.site
                return [*given_back, *self.give_up(f"{site} does not reserve: {refusal.reason}", now)]
        later = max(
            self._start + self._step_s if each.earliest is None else each.earliest for each in self._refused.values()
        )
        return [*given_back, *self._propose(max(later, self._start + 1.0, now + self._ahead_s), now)]

    def _confirm(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for each in self.all():
            each.submit(now)
            name = each.member.name
            actions.append(Submit(name, each.attempt, self._meeting_s, self._meeting_s, self._held[name]))
        return actions

    def _give_back(self) -> list[Action]:
        held, self._held = self._held, {}
        return [Unreserve(member, name) for member, name in held.items()]

    def on_time(self, now: float) -> list[Action]:
        """Give up if somebody does not come."""
        if self.deadline is None or now < self.deadline:
            return []
        late = ", ".join(each.member.site for each in self.all() if each.place is not PlaceholderState.READY)
        return self.give_up(f"the reservation began, but the job did not start at {late}", now)

    def on_ready(self, placeholder: Placeholder, now: float) -> list[Action]:
        """Let it wait for the others: for as long as we live, and no longer than anybody may take."""
        return [Hold(placeholder.member.name, placeholder.attempt, self._start + self._meeting_s)]

    def on_ended(self, placeholder: Placeholder, was: PlaceholderState, reason: str, now: float) -> list[Action]:
        """A placeholder is lost: its reservation is not ours any more."""
        return self.give_up(f"the job in the reservation at {placeholder.member.site} has ended: {reason}", now)

    def give_up(self, reason: str, now: float) -> list[Action]:
        """End everything, reservations too."""
        actions = super().give_up(reason, now)
        return [*actions, *self._give_back()]

    def finish(self) -> list[Action]:
        """Give the reservations back."""
        return self._give_back()
