"""Groups that are co-allocated on simulated clusters by the strategies that the launch uses."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster import Cluster, Job, Window
from workload import requests
from xmml_executors.coallocation import Member, Phase, Strategy
from xmml_executors.coallocation.actions import (
    Action,
    Cancel,
    Estimate,
    Go,
    Hold,
    Reserve,
    Submit,
    SubmitTogether,
    Unreserve,
)
from xmml_executors.coallocation.events import Ended, Estimated, Event, NotReserved, Ready, Reserved

#: From the start of a job to its word that it is ready, and from a word to a job to what it does upon it: both keep
#: cores busy.
TALK_S = 5.0
SITES = ("one", "two", "three")
CORES = 128
WARM_UP_S = 3 * 86400.0
PATIENT_S = 7 * 86400.0

MakeStrategy = Callable[[Sequence[Member], int], Strategy]


@dataclass
class Group:
    """A group that wants to run, and what became of it."""

    name: str
    at: float
    members: tuple[Member, ...]
    strategy: Strategy
    jobs: dict[str, tuple[int, Job]] = field(default_factory=dict)
    windows: dict[str, str] = field(default_factory=dict)
    began: float | None = None
    wasted_core_s: float = 0.0
    submissions: int = 0
    woken_at: float | None = None

    @property
    def run_core_s(self) -> float:
        """Core seconds of the run itself."""
        return sum(member.cores * member.run_s for member in self.members)


class Simulation:
    """Clusters with other users' jobs, and groups."""

    def __init__(self, load: float, until: float, seed: int) -> None:
        self.clusters = {site: Cluster(CORES) for site in SITES}
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._to_schedule: set[str] = set()
        self.until = until
        for site in SITES:
            for request in requests(CORES, load, until, f"{seed} {site}"):
                job = Job("other", request.cores, request.limit_s, request.run_s)
                self.at(request.at, self._arrival(site, job))

    def at(self, time: float, what: Callable[[], None]) -> None:
        """Have something happen."""
        heapq.heappush(self._events, (max(time, self.now), next(self._number), what))

    def _arrival(self, site: str, job: Job) -> Callable[[], None]:
        def arrive() -> None:
            self.clusters[site].submit(job)
            self._to_schedule.add(site)

        return arrive

    def run(self) -> None:
        """Let everything happen."""
        while self._events and self._events[0][0] <= self.until:
            self.now, _, what = heapq.heappop(self._events)
            what()
            if not self._events or self._events[0][0] > self.now:
                self._schedule()

    def _schedule(self) -> None:
        sites, self._to_schedule = self._to_schedule, set()
        for site in sorted(sites):
            for job in self.clusters[site].schedule(self.now):
                if job.run_s is not None:
                    self.at(self.now + min(job.run_s, job.limit_s), self._end(site, job))
                if job.on_start is not None:
                    job.on_start()

    def _end(self, site: str, job: Job) -> Callable[[], None]:
        def end() -> None:
            self.clusters[site].remove(job)
            self._to_schedule.add(site)

        return end

    # --- groups -----------------------------------------------------------------------------------------------------

    def add(self, group: Group) -> None:
        """Let a group come at its time."""
        self.at(group.at, lambda: self._carry_out(group, group.strategy.begin(self.now)))
        self.at(group.at + PATIENT_S, lambda: self._too_late(group))

    def _too_late(self, group: Group) -> None:
        if group.began is None:
            self._carry_out(group, group.strategy.give_up("a week is over", self.now))

    def _tell(self, group: Group, event: Event) -> None:
        self._carry_out(group, group.strategy.on(event, self.now))

    def _carry_out(self, group: Group, actions: Sequence[Action]) -> None:
        for action in actions:
            self._do(group, action)
        deadline = group.strategy.deadline
        if deadline is not None and deadline != group.woken_at:
            group.woken_at = deadline
            self.at(deadline, lambda: self._wake(group, deadline))

    def _wake(self, group: Group, deadline: float) -> None:
        if group.woken_at == deadline:
            group.woken_at = None
            self._carry_out(group, group.strategy.on_time(self.now))

    def _do(self, group: Group, action: Action) -> None:
        match action:
            case Submit(name, attempt, slack, _, reservation):
                member = self._member(group, name)
                group.submissions += 1
                self._submit(group, [member], attempt, slack, reservation)
            case SubmitTogether(names, attempt, slack, _):
                group.submissions += 1
                self._submit(group, [self._member(group, name) for name in names], attempt, slack, None)
            case Cancel(name, attempt):
                if name in group.jobs and group.jobs[name][0] == attempt:
                    self._cancel(group, name)
            case Go():
                self._go(group)
            case Estimate(name):
                self._estimate(group, self._member(group, name))
            case Reserve(name, start, end):
                self._reserve(group, self._member(group, name), start, end)
            case Unreserve(name, window):
                site = self._member(group, name).site
                self.clusters[site].windows.pop(window, None)
                self._to_schedule.add(site)
            case Hold():
                pass

    @staticmethod
    def _member(group: Group, name: str) -> Member:
        return next(member for member in group.members if member.name == name)

    def _submit(
        self, group: Group, members: Sequence[Member], attempt: int, slack: float, reservation: str | None
    ) -> None:
        cores, site = sum(member.cores for member in members), members[0].site
        job = Job(group.name, cores, members[0].run_s + slack, None, reservation)
        job.on_start = lambda: self._started(group, members, attempt, job)
        for member in members:
            group.jobs[member.name] = (attempt, job)
        self.clusters[site].submit(job)
        self._to_schedule.add(site)

    def _started(self, group: Group, members: Sequence[Member], attempt: int, job: Job) -> None:
        def ready() -> None:
            for member in members:
                if group.jobs.get(member.name) == (attempt, job):
                    self._tell(group, Ready(member.name, attempt))

        def over() -> None:
            if job in self.clusters[members[0].site].running and group.began is None:
                self._cancel(group, members[0].name)
                for member in members:
                    self._tell(group, Ended(member.name, attempt, "its time is over"))

        self.at(self.now + TALK_S, ready)
        self.at(self.now + job.limit_s, over)

    def _cancel(self, group: Group, name: str) -> None:
        _, job = group.jobs.pop(name)
        site = self._member(group, name).site
        if job.started is None:
            self.clusters[site].remove(job)
        else:
            group.wasted_core_s += job.cores * (self.now + TALK_S - job.started)
            self.at(self.now + TALK_S, self._end(site, job))

    def _go(self, group: Group) -> None:
        group.began = self.now
        for member in group.members:
            _, job = group.jobs[member.name]
            assert job.started is not None
            group.wasted_core_s += member.cores * (self.now - job.started)
            self.at(self.now + member.run_s, self._end(member.site, job))
            if job.reservation:
                self.at(self.now + member.run_s, lambda w=job.reservation, s=member.site: self._release(s, w))

    def _release(self, site: str, window: str) -> None:
        self.clusters[site].windows.pop(window, None)
        self._to_schedule.add(site)

    def _estimate(self, group: Group, member: Member) -> None:
        cluster = self.clusters[member.site]
        entry = group.jobs.get(member.name)
        job = entry[1] if entry else Job("asked", member.cores, member.run_s)
        if job.started is None:
            start = cluster.estimate(job, self.now)
            self.at(self.now, lambda: self._tell(group, Estimated(member.name, start)))

    def _reserve(self, group: Group, member: Member, start: float, end: float) -> None:
        name = f"{group.name} {member.name}"
        later = self.clusters[member.site].reserve(Window(name, member.cores, start, end), self.now)
        if later is None:
            self.at(start, lambda: self._to_schedule.add(member.site))
            answer: Any = Reserved(member.name, name)
        else:
            answer = NotReserved(member.name, "no room", later)
        self.at(self.now, lambda: self._tell(group, answer))


def groups(make: MakeStrategy, count: int, every_s: float, seed: int, sites: Sequence[str]) -> list[Group]:
    """Return groups of two or three members, 4 to 32 cores each, that run for 1 to 6 hours; the same for all
    strategies. With one site all members are there."""
    dice = random.Random(f"groups {seed}")
    made = []
    for number in range(count):
        size = dice.choice((2, 3))
        run_s = dice.uniform(1.0, 6.0) * 3600.0
        chosen = dice.sample(SITES, size)
        cores = [dice.choice((4, 8, 16, 32)) for _ in range(size)]
        members = tuple(
            Member(f"m{at}", chosen[at] if len(sites) > 1 else sites[0], cores[at], run_s) for at in range(size)
        )
        at = WARM_UP_S + number * every_s + dice.uniform(0, every_s)
        made.append(Group(f"g{number}", at, members, make(members, number)))
    return made


def simulate(
    make: MakeStrategy, load: float, seed: int, count: int, every_s: float, sites: Sequence[str] = SITES
) -> list[Group]:
    """Return what became of so many groups at one load."""
    simulation = Simulation(load, WARM_UP_S + count * every_s + PATIENT_S, seed)
    made = groups(make, count, every_s, seed, sites)
    for group in made:
        simulation.add(group)
    simulation.run()
    for group in made:
        assert (group.strategy.phase is Phase.GONE) == (group.began is not None)
    return made
