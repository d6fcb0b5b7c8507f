"""Rendezvous: the strategy that needs no rights. Placeholders are submitted to every site; those that start early wait
for the others, give their slot back when that would cost too much, and are submitted again.

**How much is too much.** Waiting may cost a share of the core seconds of the run, `budget`, and the share grows with
the time that the group has been trying, `budget_growth`: thrifty where the queues are short, patient where nothing else
would ever bring the jobs together. What a placeholder may wait is what is left of that, divided by the cores that wait.

**Aiming.** The sites' own estimates say when the missing ones will start. They assume that every job runs as long as it
was asked for, so jobs start earlier than estimated, usually. If even a `trust`-th of the estimated time would cost more
than is left, the slot is given back at once. It is asked for again as long before the expected start of the slowest
member as the site let us wait the last time, or as soon as the slowest is ready.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from xmml.late_dataclass import dataclass
from xmml_executors.coallocation.actions import Action, Cancel, Estimate, Hold, Submit
from xmml_executors.coallocation.events import Estimated, Event
from xmml_executors.coallocation.placeholders import Placeholder, Placeholders, PlaceholderState
from xmml_executors.coallocation.strategy import Member, Phase


@dataclass(frozen=True)
class RendezvousPolicy:
    """How a rendezvous weighs waste against delay.

    Attributes:
        budget: share of the run's core seconds that waiting may cost.
        budget_growth: how much that share grows with the square of the hours since the group began to try.
        meeting_s: how long placeholders that start at the same moment may take to meet; also the dead-man's timer of a
            placeholder that nobody talks to.
        longest_wait_s: no placeholder waits longer, nor longer than its run takes; jobs that wait for others are asked
            for so much longer.
        use_estimates: whether sites are asked when jobs will start.
        trust: how many times longer than the truth estimates usually are.
        ask_every_s: how often sites are asked.
        first_ask_s: when they are asked for the first time.
        pause_s: without estimates: how long before the first slot that was given back is asked for again; doubles with
            each further one, up to `longest_pause_s`.
        losses: how many placeholders may end for other reasons than ours (killed, node failed) before we give up.
    """

    budget: float = 0.01
    budget_growth: float = 0.002
    meeting_s: float = 60.0
    longest_wait_s: float = 6 * 3600.0
    use_estimates: bool = True
    trust: float = 4.0
    ask_every_s: float = 300.0
    first_ask_s: float = 300.0
    pause_s: float = 120.0
    longest_pause_s: float = 3600.0
    losses: int = 5


class Rendezvous(Placeholders):
    """Submits, holds, gives back and submits again until all placeholders are ready at the same time."""

    def __init__(self, members: Sequence[Member], manners: RendezvousPolicy | None = None, seed: int = 0) -> None:
        """`seed`: of the jitter that keeps two groups from chasing each other."""
        super().__init__(members)
        self._manners = manners or RendezvousPolicy()
        self._random = random.Random(seed)
        self._begun = self._looked_at = 0.0
        self._ask_at = 0.0
        self._wasted = 0.0
        self._losses = 0
        self._run_core_s = sum(member.cores * member.run_s for member in members)
        self._estimates: dict[str, float] = {}
        self._queue_wait: dict[str, float] = {}
        self._again_at: dict[str, float] = {}
        self._earliest_again: dict[str, float] = {}
        self._given_back: dict[str, int] = dict.fromkeys(self.placeholders, 0)

    @property
    def wasted_core_s(self) -> float:
        """Core seconds that placeholders have waited in vain so far."""
        return self._wasted

    @property
    def deadline(self) -> float | None:
        """When a wait is over, a slot is to be asked for again, or the sites are to be asked."""
        if self.phase is not Phase.GATHERING:
            return None
        times = [self._again_at[each.member.name] for each in self.all() if each.place is PlaceholderState.ABSENT]
        if ready := self._ready():
            times.append(self._until(ready, self._looked_at))
        if self._manners.use_estimates:
            times.append(self._ask_at)
        return min(times, default=None)

    # --- budget -----------------------------------------------------------------------------------------------------

    def _ready(self) -> list[Placeholder]:
        return [each for each in self.all() if each.place is PlaceholderState.READY]

    def _until(self, ready: Sequence[Placeholder], now: float) -> float:
        """Until when those that are ready can wait: what the budget allows, but always for a meeting, and never longer
        than the jobs were asked for."""
        first = min(each.ready_at for each in ready)
        hours = (now - self._begun) / 3600.0
        share = self._manners.budget + self._manners.budget_growth * hours * hours
        spent = self._wasted + sum(each.member.cores * (now - each.ready_at) for each in ready)
        left = max(0.0, share * self._run_core_s - spent)
        growing = 2.0 * self._manners.budget_growth * hours / 3600.0 * self._run_core_s
        spending = sum(each.member.cores for each in ready) - growing
        affordable = now + left / spending if spending > 0 else now + self._manners.longest_wait_s
        longest = min(each.ready_at + self._slack(each.member) for each in ready)
        return min(max(affordable, first + self._manners.meeting_s), longest)

    def _slack(self, member: Member) -> float:
        """How much longer than the run the job of a member is asked for."""
        return self.waiting_s(max(self._manners.meeting_s, min(self._manners.longest_wait_s, member.run_s)))

    # --- what happens -----------------------------------------------------------------------------------------------

    def begin(self, now: float) -> list[Action]:
        """Submit to every site at which no placeholder was adopted."""
        self._begun = self._looked_at = now
        self._ask_at = now + self._manners.first_ask_s
        return [self._submit(each, now) for each in self.all() if each.place is PlaceholderState.ABSENT]

    def _submit(self, each: Placeholder, now: float) -> Submit:
        each.submit(now)
        self._again_at.pop(each.member.name, None)
        self._estimates.pop(each.member.name, None)
        return Submit(each.member.name, each.attempt, self._slack(each.member), self._manners.meeting_s)

    def on_other(self, event: Event, now: float) -> list[Action]:
        """A site has estimated."""
        if self.phase is not Phase.GATHERING or not isinstance(event, Estimated):
            return []
        name, place = event.member, self.placeholders[event.member].place
        if place is PlaceholderState.ABSENT:
            if event.start is not None:
                self._queue_wait[name] = max(0.0, event.start - now)
        elif place is PlaceholderState.QUEUED and event.start is not None:
            self._estimates[name] = event.start
        else:
            self._estimates.pop(name, None)
        for each in self.all():
            if each.place is PlaceholderState.ABSENT:
                self._aim(each, now)
        return self._look(now)

    def on_ready(self, placeholder: Placeholder, now: float) -> list[Action]:
        """One more waits; remember how long its queue was."""
        self._estimates.pop(placeholder.member.name, None)
        self._queue_wait[placeholder.member.name] = now - placeholder.queued_at
        return self._look(now)

    def on_ended(self, placeholder: Placeholder, was: PlaceholderState, reason: str, now: float) -> list[Action]:
        """A placeholder was lost; it is submitted again, unless that happens too often."""
        self._losses += 1
        if self._losses > self._manners.losses:
            return self.give_up(f"{self._losses} jobs were lost, the last at {placeholder.member.site}: {reason}", now)
        self._leave(placeholder, was, now)
        return self._look(now)

    def on_time(self, now: float) -> list[Action]:
        """Something is due."""
        if self.phase is not Phase.GATHERING:
            return []
        actions: list[Action] = []
        if self._manners.use_estimates and now >= self._ask_at:
            self._ask_at = now + self._manners.ask_every_s
            actions = [Estimate(each.member.name) for each in self.all() if each.place is not PlaceholderState.READY]
        return [*actions, *self._look(now)]

    def _look(self, now: float) -> list[Action]:
        """Decide who waits on, who gives back, and who is submitted again."""
        self._looked_at = now
        actions: list[Action] = []
        if ready := self._ready():
            until = self._until(ready, now)
            if now >= until or now + self._expected_s(now) > until:
                for each in ready:
                    actions.append(Cancel(each.member.name, each.attempt, "the others did not start in time"))
                    self._leave(each, PlaceholderState.READY, now)
                ready = []
            else:
                actions += [Hold(each.member.name, each.attempt, until) for each in ready]
        for each in self.all():
            if each.place is PlaceholderState.ABSENT and (ready or self._again_at[each.member.name] <= now):
                actions.append(self._submit(each, now))
        return actions

    def _expected_s(self, now: float) -> float:
        """In how many seconds the last of those that are missing will be ready, as far as we know; 0 if we do not."""
        if not self._manners.use_estimates:
            return 0.0
        waits = [0.0]
        for each in self.all():
            if each.place is PlaceholderState.QUEUED and each.member.name in self._estimates:
                waits.append((self._estimates[each.member.name] - now) / self._manners.trust)
            elif each.place is PlaceholderState.ABSENT:
                waits.append(self._queue_wait.get(each.member.name, 0.0) / self._manners.trust)
        return max(waits)

    def _leave(self, each: Placeholder, was: PlaceholderState, now: float) -> None:
        """Note that a placeholder is gone, and when it comes again."""
        each.place = PlaceholderState.ABSENT
        if was is PlaceholderState.READY:
            self._wasted += each.member.cores * (now - each.ready_at)
        self._given_back[each.member.name] += 1
        pause = min(
            self._manners.pause_s * 2 ** (self._given_back[each.member.name] - 1), self._manners.longest_pause_s
        )
        pause *= self._random.uniform(0.75, 1.25)
        self._again_at[each.member.name] = now + max(0.0, pause - self._queue_wait.get(each.member.name, 0.0))
        self._earliest_again[each.member.name] = now + min(pause, self._manners.pause_s)
        self._aim(each, now)

    def _aim(self, each: Placeholder, now: float) -> None:
        """Let an absent member come as long before the expected start of the slowest as its own queue takes."""
        starts = [
            self._estimates[other.member.name]
            for other in self.all()
            if other.place is PlaceholderState.QUEUED and other.member.name in self._estimates
        ]
        if self._manners.use_estimates and starts:
            name = each.member.name
            slowest = now + max(0.0, max(starts) - now) / self._manners.trust
            self._again_at[name] = max(self._earliest_again[name], slowest - self._queue_wait.get(name, 0.0))
