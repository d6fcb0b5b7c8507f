"""A simulated cluster: cores, a queue in the order of arrival with EASY backfill, reservations, estimates of starts.

As in real schedulers, decisions rest on how long users say that their jobs run, and jobs are usually over earlier. The
scheduler keeps the first job of the queue that does not fit from being delayed, and lets later ones go before it.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass

#: How many jobs of the queue the scheduler looks at.
DEPTH = 100


@dataclass
class Job:
    """A job: `limit_s` is what it was asked for, `run_s` how long it really runs (`None`: until it is ended).
    `on_start` is called when it starts."""

    name: str
    cores: int
    limit_s: float
    run_s: float | None = None
    reservation: str | None = None
    started: float | None = None
    on_start: Callable[[], None] | None = None


@dataclass(frozen=True)
class Window:
    """Cores that are kept free for one user."""

    name: str
    cores: int
    start: float
    end: float


class Profile:
    """How many cores are free from when on: a step function."""

    def __init__(self, now: float, free: int) -> None:
        self.times = [now]
        self.free = [free]

    def take(self, start: float, end: float, cores: int) -> None:
        """Occupy cores between two times."""
        first, last = self._cut(start), self._cut(end)
        for at in range(first, last):
            self.free[at] -= cores

    def _cut(self, time: float) -> int:
        time = max(time, self.times[0])
        at = bisect.bisect_left(self.times, time)
        if at == len(self.times) or self.times[at] != time:
            self.times.insert(at, time)
            self.free.insert(at, self.free[at - 1])
        return at

    def fits(self, start: float, length: float, cores: int) -> bool:
        """Whether so many cores are free from `start` for so long."""
        at = bisect.bisect_right(self.times, start) - 1
        while at < len(self.times) and self.times[at] < start + length:
            if self.free[at] < cores:
                return False
            at += 1
        return True

    def earliest(self, length: float, cores: int, after: float) -> float:
        """Return the first time, not before `after`, from which so many cores are free for so long."""
        if self.fits(after, length, cores):
            return after
        at = bisect.bisect_right(self.times, after)
        while at < len(self.times):
            if self.free[at] >= cores and self.fits(self.times[at], length, cores):
                return self.times[at]
            at += 1
        raise ValueError(f"{cores} cores are never free")


class Cluster:
    """The state of a cluster; whoever drives it says when jobs end and when to schedule."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.queue: list[Job] = []
        self.running: list[Job] = []
        self.windows: dict[str, Window] = {}

    def submit(self, job: Job) -> None:
        """Put a job at the end of the queue."""
        self.queue.append(job)

    def remove(self, job: Job) -> None:
        """Take a job out, whether it waits or runs."""
        for jobs in (self.queue, self.running):
            if job in jobs:
                jobs.remove(job)

    def profile(self, now: float) -> Profile:
        """What the scheduler believes about the future: running jobs use all that they asked for."""
        profile = Profile(now, self.cores)
        for job in self.running:
            assert job.started is not None
            if job.reservation is None:
                profile.take(now, max(job.started + job.limit_s, now + 1.0), job.cores)
        for window in self.windows.values():
            profile.take(max(window.start, now), max(window.end, now), window.cores)
        return profile

    def schedule(self, now: float) -> list[Job]:
        """Start what can start and return it."""
        for name in [name for name, window in self.windows.items() if window.end <= now]:
            del self.windows[name]
        started = [
            job
            for job in self.queue
            if job.reservation is not None and (w := self.windows.get(job.reservation)) and w.start <= now
        ]
        profile = self.profile(now) if len(started) < len(self.queue) else None
        blocked = False
        for job in self.queue[:DEPTH]:
            if profile is None or job.reservation is not None:
                continue
            if blocked and profile.free[0] <= 0:
                break
            if profile.fits(now, job.limit_s, job.cores):
                profile.take(now, now + job.limit_s, job.cores)
                started.append(job)
            elif not blocked:
                blocked = True
                start = profile.earliest(job.limit_s, job.cores, now)
                profile.take(start, start + job.limit_s, job.cores)
        for job in started:
            self.queue.remove(job)
            self.running.append(job)
            job.started = now
        return started

    def estimate(self, job: Job, now: float) -> float:
        """When a job will start, in the queue or at its end, if everything takes as long as it was asked for."""
        profile = self.profile(now)
        for each in [*self.queue, job]:
            if each.reservation is not None:
                continue
            start = profile.earliest(each.limit_s, each.cores, now)
            if each is job:
                return start
            profile.take(start, start + each.limit_s, each.cores)
        raise AssertionError("the job is at the end of the list")

    def reserve(self, window: Window, now: float) -> float | None:
        """Keep cores free; if that would disturb a running job, return when it would not."""
        earliest = self.profile(now).earliest(window.end - window.start, window.cores, window.start)
        if earliest > window.start:
            return earliest
        self.windows[window.name] = window
        return None
