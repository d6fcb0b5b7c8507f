"""What the strategies have in common: placeholders that are all ready before anybody is told to go, and the end of all
when one is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from xmml.late_dataclass import dataclass
from xmml_executors.coallocation.actions import Action, Cancel, Go
from xmml_executors.coallocation.events import Ended, Event, Ready, Rejected, Submitted
from xmml_executors.coallocation.strategy import Member, Phase, check_group


class PlaceholderState(Enum):
    """Where the placeholder of a member is."""

    ABSENT = "absent"
    QUEUED = "queued"
    READY = "ready"


@dataclass
class Placeholder:
    """The placeholder of a member, the last of its attempts: when it was submitted, and when it became ready."""

    member: Member
    place: PlaceholderState = PlaceholderState.ABSENT
    attempt: int = 0
    queued_at: float = 0.0
    ready_at: float = 0.0

    def submit(self, now: float, attempt: int | None = None) -> None:
        """Begin the next attempt, or the one with a number."""
        self.place, self.queued_at = PlaceholderState.QUEUED, now
        self.attempt = self.attempt + 1 if attempt is None else attempt


class Placeholders:
    """The members of a group and their placeholders; the base of every strategy.

    Events about an earlier attempt than the present one come too late and mean nothing.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        check_group(members)
        self.phase = Phase.GATHERING
        self.reason = ""
        self.placeholders = {member.name: Placeholder(member) for member in members}

    def adopt(self, attempts: Mapping[str, int], now: float, spent: Mapping[str, int] | None = None) -> None:
        """Take over placeholders that an earlier launcher has submitted; call it before `begin`, which submits the
        others.

        Args:
            spent: the last attempts of members of which nobody knows whether they came about. A placeholder of ours
                must not have the number, and with it the folder, of one that may still start.
        """
        for name, attempt in (spent or {}).items():
            self.placeholders[name].attempt = attempt
        for name, attempt in attempts.items():
            placeholder = self.placeholders[name]
            placeholder.place, placeholder.attempt, placeholder.queued_at = PlaceholderState.QUEUED, attempt, now

    def awaits(self, member: str, attempt: int) -> bool:
        """Return whether a placeholder shall become ready: it has not yet, and was not given up meanwhile."""
        placeholder = self.placeholders[member]
        return placeholder.place is PlaceholderState.QUEUED and placeholder.attempt == attempt

    def on(self, event: Event, now: float) -> list[Action]:
        """Something has happened."""
        if not isinstance(event, Submitted | Rejected | Ready | Ended):
            return self.on_other(event, now)
        placeholder = self.placeholders[event.member]
        if (
            event.attempt != placeholder.attempt
            or placeholder.place is PlaceholderState.ABSENT
            or self.phase is Phase.FAILED
        ):
            return []
        match event:
            case Submitted():
                return []
            case Rejected():
                placeholder.place = PlaceholderState.ABSENT
                return self.give_up(f"{placeholder.member.site} does not take the job: {event.reason}", now)
            case Ready() if placeholder.place is PlaceholderState.QUEUED:
                placeholder.place, placeholder.ready_at = PlaceholderState.READY, now
                return self.go_if_complete() or self.on_ready(placeholder, now)
            case Ended():
                was = placeholder.place
                placeholder.place = PlaceholderState.ABSENT
                if self.phase is Phase.GONE or event.for_good:
                    return self.give_up(f"the job at {placeholder.member.site} has ended: {event.reason}", now)
                return self.on_ended(placeholder, was, event.reason, now)
        return []

    def go_if_complete(self) -> list[Action]:
        """Say go if everybody is ready."""
        if self.phase is not Phase.GATHERING or any(each.place is not PlaceholderState.READY for each in self.all()):
            return []
        self.phase = Phase.GONE
        return [Go({name: each.attempt for name, each in self.placeholders.items()})]

    def all(self) -> list[Placeholder]:
        """Every placeholder, in the order of the members."""
        return list(self.placeholders.values())

    def waiting_s(self, longest_s: float) -> float:
        """How much longer than the run a job is asked for that waits for others for so long at most: one that is alone
        waits for nobody."""
        return longest_s if len(self.placeholders) > 1 else 0.0

    def cancel_all(self, reason: str) -> list[Action]:
        """Cancel what is queued or waits."""
        actions: list[Action] = []
        for each in self.all():
            if each.place is not PlaceholderState.ABSENT:
                actions.append(Cancel(each.member.name, each.attempt, reason))
                each.place = PlaceholderState.ABSENT
        return actions

    def give_up(self, reason: str, now: float) -> list[Action]:
        """End the co-allocation and release every site."""
        if self.phase is Phase.FAILED:
            return []
        self.phase, self.reason = Phase.FAILED, reason
        return self.cancel_all(reason)

    def finish(self) -> list[Action]:
        """Release what is kept for a run that has ended."""
        return []

    def on_ready(self, placeholder: Placeholder, now: float) -> list[Action]:
        """A placeholder waits, but not all do."""
        return []

    def on_ended(self, placeholder: Placeholder, was: PlaceholderState, reason: str, now: float) -> list[Action]:
        """A placeholder was lost before anybody was told to go."""
        return self.give_up(f"the job at {placeholder.member.site} has ended: {reason}", now)

    def on_other(self, event: Event, now: float) -> list[Action]:
        """An event that is not about a placeholder."""
        return []
