"""Getting the jobs of a co-allocation group: drives a strategy with the real schedulers of the sites."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from xmml_planner.sites import Site
from xmml_sites.batch import JobRejected, NotSupported, ReservationRefused, SchedulerUnavailable, of_site
from xmml_sites.ssh import TransportError

from xmml_executors.coallocation import (
    HeterogeneousJob,
    Member,
    Phase,
    Rendezvous,
    RendezvousPolicy,
    Reservation,
    Strategy,
)
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
from xmml_executors.coallocation.events import (
    Ended,
    Estimated,
    Event,
    NotReserved,
    Ready,
    Rejected,
    Reserved,
    Submitted,
)
from xmml_executors.executor import Tell
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.protocol import LeaseExpired, TimedOut
from xmml_executors.protocol import Ready as AgentReady


class CoAllocationFailed(Exception):
    """The jobs of a group could not be got; every site was released."""


#: How a batch system says that this user may not reserve, at any time.
FORBIDDEN = re.compile(r"invalid user|permission|not permitted|unauthorized|denied|no reservations", re.IGNORECASE)
#: When sites are first asked how long their queues are: one that is empty has started its job by then.
FIRST_ASK_S = 5.0
#: The names of the strategies.
HETJOB, RESERVATION, RENDEZVOUS = STRATEGIES = ("hetjob", "reservation", "rendezvous")


def choose_strategy(jobs: Collection[SiteJob], sites: Mapping[str, Site], wanted: str | None = None) -> Strategy:
    """Return how a group is got together: as somebody wants it, else by the best that its sites allow.

    Args:
        sites: the clusters and machines that the jobs are at.
        wanted: one of `STRATEGIES`.

    Raises:
        CoAllocationFailed: the sites do not allow what is wanted.
    """
    members = [Member(job.member, job.site, max(1, job.planned.cores), job.walltime_s) for job in jobs]
    used = {name: sites[name] for name in dict.fromkeys(member.site for member in members)}
    queues = {name: of_site(site) for name, site in used.items()}
    is_one_cluster = len(used) == 1 and all(queue.has_heterogeneous_jobs for queue in queues.values())
    cannot_reserve = [name for name, site in used.items() if not (site.can_reserve and queues[name].can_reserve)]
    if wanted == HETJOB and not is_one_cluster:
        raise CoAllocationFailed("a heterogeneous job needs all jobs on one Slurm cluster")
    if wanted == RESERVATION and cannot_reserve:
        raise CoAllocationFailed(f"{', '.join(cannot_reserve)} cannot reserve (can_reserve in the file of sites)")
    if wanted == HETJOB or (wanted is None and is_one_cluster and len(members) > 1):
        return HeterogeneousJob(members)
    if wanted == RESERVATION or (wanted is None and not cannot_reserve and len(members) > 1):
        return Reservation(members)
    return Rendezvous(members, RendezvousPolicy(first_ask_s=FIRST_ASK_S))


class CoAllocation:
    """One co-allocation group: passes the events of its sites to the strategy, and carries out the actions of the
    strategy at the sites."""

    def __init__(
        self, strategy: Strategy, jobs: Mapping[str, SiteJob], sites: Mapping[str, RunSite], tell: Tell
    ) -> None:
        """
        Args:
            jobs: by the name of the member; which attempt it is at changes with each submission.
            tell: says to people what happens.
        """
        self.strategy = strategy
        self.jobs = jobs
        self._sites = sites
        self._tell = tell
        self._changed = asyncio.Event()
        # What is done with one job is done in order: a job that is being submitted has no number to cancel it by.
        self._turns = {member: asyncio.Lock() for member in jobs}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        # Times of the strategy as the clock on the wall shows them: the same for all sites, also when somebody sets it.
        self._clock = time.time() - time.monotonic()

    async def gather(self) -> None:
        """Return when all were told to go.

        Raises:
            CoAllocationFailed: with the reason.
        """
        self._carry_out(self.strategy.begin(time.monotonic()))
        try:
            while self.strategy.phase is Phase.GATHERING:
                deadline = self.strategy.deadline
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                self._changed.clear()
                try:
                    async with asyncio.timeout(left_s):  # `wait_for` may swallow that we are cancelled
                        await self._changed.wait()
                except TimeoutError:
                    self._carry_out(self.strategy.on_time(time.monotonic()))
                if self._failure is not None:
                    self._carry_out(self.strategy.give_up(str(self._failure), time.monotonic()))
        except asyncio.CancelledError:
            self._carry_out(self.strategy.give_up("the run was interrupted", time.monotonic()))
            raise
        if self.strategy.phase is Phase.FAILED:
            await self.settle()
            raise CoAllocationFailed(self.strategy.reason)

    async def settle(self) -> None:
        """Wait until everything that the strategy has asked for is done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def release(self, reason: str) -> None:
        """End what is left of the group at the sites, and give reservations back."""
        self._carry_out(self.strategy.give_up(reason, time.monotonic()))
        self._carry_out(self.strategy.finish())
        await self.settle()

    # --- what happens -----------------------------------------------------------------------------------------------

    def on(self, event: Event) -> None:
        """Something has happened at a site."""
        self._carry_out(self.strategy.on(event, time.monotonic()))
        self._changed.set()

    def on_report(self, job: SiteJob, attempt: int, node: int, report: AgentReady | TimedOut | LeaseExpired) -> None:
        """The agent of a node has said something."""
        match report:
            case AgentReady():
                if attempt != job.attempt:
                    return
                job.about[node] = report
                self._sites[job.site].watch(job, node)
                if job.is_ready and self.strategy.awaits(job.member, attempt):
                    hosts = ", ".join(job.about[each.node].host for each in job.nodes.agents)
                    allocation = job.part.allocation
                    id = allocation.job if allocation is not None else job.id if job.part.submits_jobs else ""
                    self._tell(f"ready on {hosts}" + (f", job {id}" if id else ""), job.site)
                    self.on(Ready(job.member, attempt))
            case TimedOut():
                self.on(Ended(job.member, attempt, "it received no order in time"))
            case LeaseExpired():
                self.on(Ended(job.member, attempt, "its lease expired: it received nothing from xmml-run"))

    def on_job_over(self, job: SiteJob, attempt: int, reason: str, *, for_good: bool = False) -> None:
        """Note that a job is over, as its queue or its own result says; `for_good`: another one would end in the same
        way."""
        self.on(Ended(job.member, attempt, reason, for_good))

    # --- what is done -----------------------------------------------------------------------------------------------

    def _carry_out(self, actions: Sequence[Action]) -> None:
        asked: dict[str, list[SiteJob]] = {}
        for action in actions:
            match action:
                case Hold(member, attempt, until):
                    job = self.jobs[member]
                    if attempt == job.attempt:
                        seconds = max(0.0, until - time.monotonic())
                        self._sites[job.site].hold(job, seconds)
                case Go(attempts):
                    for member in attempts:
                        job = self.jobs[member]
                        self._sites[job.site].go(job)
                case Estimate(member):
                    asked.setdefault(self.jobs[member].site, []).append(self.jobs[member])
                case _:
                    self._in_background(self._do(action))
        for site, jobs in asked.items():
            self._in_background(self._estimate(self._sites[site], jobs))

    def _in_background(self, work: Any) -> None:
        task = asyncio.create_task(self._watched(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watched(self, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self._failure = self._failure or error
            self._changed.set()

    async def _do(self, action: Action) -> None:
        match action:
            case Submit(member, attempt, slack_s, patience_s, reservation):
                async with self._turns[member]:
                    await self._submit([self.jobs[member]], attempt, slack_s, patience_s, reservation)
            case SubmitTogether(members, attempt, slack_s, patience_s):
                async with contextlib.AsyncExitStack() as turns:
                    for name in members:
                        await turns.enter_async_context(self._turns[name])
                    await self._submit([self.jobs[name] for name in members], attempt, slack_s, patience_s, None)
            case Cancel(member, attempt, reason):
                async with self._turns[member]:
                    await self._cancel(self.jobs[member], attempt, reason)
            case Reserve(member, start, end):
                await self._reserve(self.jobs[member], start, end)
            case Unreserve(member, name):
                job = self.jobs[member]
                await self._sites[job.site].reservations.give_back(name)

    async def _submit(
        self, jobs: Sequence[SiteJob], attempt: int, slack_s: float, patience_s: float, reservation: str | None
    ) -> None:
        site = self._sites[jobs[0].site]
        try:
            await site.submit(jobs, attempt, slack_s, patience_s, reservation or "")
        except (JobRejected, NotSupported) as error:
            beyond = await site.beyond_limits(jobs, str(error)) if isinstance(error, JobRejected) else ""
            self.on(Rejected(jobs[0].member, attempt, f"{error}; {beyond}" if beyond else str(error)))
            return
        for job in jobs:
            again = f", attempt {attempt}" if attempt > 1 else ""
            if site.site.submits_jobs:
                self._tell(f"submitted as job {job.id}{again}", job.site)
            elif site.site.allocation is None:
                self._tell(f"starting{again}", job.site)
            self.on(Submitted(job.member, attempt))

    async def _cancel(self, job: SiteJob, attempt: int, reason: str) -> None:
        self._tell(f"released ({reason})", job.site)
        await self._sites[job.site].cancel(job, attempt)

    async def _estimate(self, site: RunSite, jobs: Sequence[SiteJob]) -> None:
        """Ask a site, once for all its jobs, when they will start."""
        starts: dict[str, float | None] = dict.fromkeys(job.member for job in jobs)
        with contextlib.suppress(SchedulerUnavailable, TransportError):
            starts = await site.estimates(jobs)
        now = time.monotonic()
        for member, in_s in starts.items():
            self.on(Estimated(member, None if in_s is None else now + in_s))

    async def _reserve(self, job: SiteJob, start: float, end: float) -> None:
        try:
            name = await self._sites[job.site].reservations.reserve(job, self._clock + start, end - start)
        except ReservationRefused as error:
            self.on(NotReserved(job.member, str(error), for_good=bool(FORBIDDEN.search(str(error)))))
            return
        self.on(Reserved(job.member, name))
