"""The sites' side of a run: prepares them, gets the jobs, and stands between them and the run's event loop.

It lives in the event loop of a thread of its own (`site_pool`), because connections to many sites are waited for at
once; the run's loop sees reports to take and gives orders.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from xmml_planner import Plan
from xmml_planner.submissions import first_and_later, remote_jobs
from xmml_sites.batch import JobStatus, SchedulerUnavailable
from xmml_sites.ssh import TransportError

from xmml_executors import protocol
from xmml_executors.executor import (
    Acquired,
    LastReport,
    LateComing,
    Report,
    SiteFailed,
    SiteNotice,
    SiteSuspected,
)
from xmml_executors.launch.co_allocation import CoAllocation, CoAllocationFailed, choose_strategy
from xmml_executors.launch.jobs.deferred_jobs import due_in_s, why_over
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.queue_news import QueueNews
from xmml_executors.launch.jobs.site_job import SiteJob, agent_folders
from xmml_executors.launch.jobs.site_plan import (
    USUAL_WALLTIME_S,
    cluster_of,
    launch_site,
    needs_relay,
    reached_directly,
    relay_links,
)
from xmml_executors.launch.jobs.steps_awaited import STARTS_WITHIN_S, StepsAwaited
from xmml_executors.launch.past_jobs import PastJobs
from xmml_executors.launch.preparation.builds import build_at
from xmml_executors.launch.preparation.image_check import check_images
from xmml_executors.launch.preparation.model_staging import stage_model
from xmml_executors.launch.preparation.python_check import check_python
from xmml_executors.launch.relays.coordinator_address import addresses_at
from xmml_executors.launch.relays.entries import RelayEntry
from xmml_executors.launch.relays.local_relay import LocalRelay
from xmml_executors.launch.report_queue import ReportQueue
from xmml_executors.launch.site.journal import Journal, JournalContent
from xmml_executors.launch.site.run_site import (
    POLL_FIRST_S,
    POLL_LONGEST_S,
    POLL_RUNNING_S,
    QUEUE_SILENT_S,
    RunSite,
)
from xmml_executors.launch.site.session import Gone, SiteSession, SiteTimedOut
from xmml_executors.launch.site.staging import programs_at
from xmml_executors.launch.site_pool import SitePool
from xmml_executors.launch.site_processes import SiteProcesses
from xmml_executors.launch.teardown import Teardown
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder
from xmml_executors.stop_signals import StopRequests, on_stop

#: How long the supervisors at the sites may take to end everything.
ENDS_WITHIN_S = 8.0
#: How long a queue may take to know that a job ends, and why, after the job itself has noticed.
KNOWN_WITHIN_S = 3.0
#: Pauses between the questions.
ASK_AGAIN_S = 0.3
#: How often it is looked whether the relay of this machine lives.
RELAY_LOOK_S = 0.2

#: Failures at sites whose own text is reported.
EXPECTED = (CoAllocationFailed, TransportError, SiteError, SiteTimedOut, SchedulerUnavailable)


class Launcher:
    """The jobs of a run at sites other than this machine."""

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        journal: Journal,
        past: JournalContent | None = None,
        *,
        is_direct: bool = False,
        strategy: str | None = None,
        stop: StopRequests | None = None,
        pool: SitePool | None = None,
    ) -> None:
        """
        Args:
            past: what an earlier launcher of this run has left, if one was interrupted.
            is_direct: every site can reach the coordinator's addresses as they are.
            strategy: how the jobs are got together; `None`: as the sites allow it best.
            stop: stops the run; `None`: signals do.
            pool: what the run shares with others; `None`: nothing.
        """
        self.past = past
        self.is_direct = is_direct
        self.strategy = strategy
        self._stop = stop
        self.plan = plan
        self.folder = folder
        self.journal = journal
        self.jobs: dict[str, SiteJob] = {}
        self.sites: dict[str, RunSite] = {}
        self.is_acquired = False
        self.late: frozenset[str] = frozenset()
        self.relay: LocalRelay | None = None
        self._co_allocations: dict[str, CoAllocation] = {}
        #: The jobs, by their members, whose agents were ordered to begin.
        self._begun: set[str] = set()
        self._wanted: dict[str, asyncio.Event] = {}
        #: The folders of agents that have reported their end, and of jobs that are over.
        self._agents_over: set[str] = set()
        self._over: set[str] = set()
        #: The folders of jobs that ended without an order, or seem to have.
        self._lost_jobs: set[str] = set()
        #: Those among them whose agent or node no longer answers.
        self._silent_jobs: set[str] = set()
        self._is_closing = False
        self._ended = asyncio.Event()
        self._reports = ReportQueue()
        self._pool = SitePool() if pool is None else pool
        self._loop = self._pool.loop
        self._tasks: list[asyncio.Task[None]] = []
        self._queue_news = QueueNews()
        self._explained: set[tuple[str, str]] = set()
        self._steps_awaited = StepsAwaited(self._loop, self._notice)
        self._acquiring: list[asyncio.Task[None]] = []
        self._entries: list[tuple[RunSite, RelayEntry]] = []
        self._pool.join(self._notice)
        reached = reached_directly(plan)
        for name, (job, site) in remote_jobs(plan).items():
            cluster = cluster_of(plan, site)
            self.sites.setdefault(cluster.name, RunSite(cluster, folder.run_id, journal, self._pool.login(cluster)))
            walltime_s = job.walltime_s or site.walltime_s or USUAL_WALLTIME_S
            instances = (plan.by_name[each] for each in job.instances)
            nodes = JobNodes(job, site, instances, is_reached_directly=name in reached)
            self.jobs[name] = SiteJob(name, cluster.name, site, job, walltime_s, nodes)
        self.processes = SiteProcesses(plan, folder, self.jobs, self.sites, self._loop)
        self._past_jobs = PastJobs(past, self.sites)
        self._teardown = Teardown(plan, folder, self.jobs, self._reports.put)
        self._first, self._later = first_and_later(remote_jobs(plan))
        self.late = self.processes.names_of(member for wave in self._later for member in wave)

    def fileno(self) -> int:
        """A descriptor to wait on for reports."""
        return self._reports.fileno()

    def take_reports(self) -> list[Report]:
        """Return what has been reported, without waiting."""
        return self._reports.take()

    def open_relay(self) -> str | None:
        """Start the relay of this machine if instances need one; return where processes here find it.

        Raises:
            SiteError: it cannot be started.
        """
        if not needs_relay(self.plan, is_direct=self.is_direct):
            return None
        site = launch_site(self.plan)
        clear_from = relay_links(self.plan, site).clear_from
        is_open = any(each.site.is_here for each in self.sites.values())
        self.relay = self._pool.open_relay(site, self.folder, is_open=is_open, clear_from=clear_from)
        return self.relay.address

    # --- orders of the run's loop -----------------------------------------------------------------------------------

    def acquire(self, coordinator: Sequence[str]) -> None:
        """Begin to get all jobs; `Acquired`, or `SiteFailed`, says what became of it.

        Args:
            coordinator: the addresses of the coordinator.
        """
        self._soon(lambda: self._begin(coordinator))

    def hasten(self, names: Collection[str]) -> None:
        """Submit the jobs of late instances now, because an instance waits for them."""
        members = {self.processes.job_of[name] for name in names if name in self.processes.job_of}
        for member in members & self._wanted.keys():
            self._soon(self._wanted[member].set)

    def close(self, on_report: Callable[[LastReport], None]) -> None:
        """Stop everything at the sites, fetch the results, and clean up.

        What stops a run also ends the fetching. What has not arrived stays at its site.

        Args:
            on_report: is called, in this thread, with each notice, and with what still lies at a site.
        """
        future = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        try:
            with on_stop(lambda: self._soon(self._teardown.interrupt), self._stop):
                for report in self._reports.take_until(future):
                    if isinstance(report, LastReport):
                        on_report(report)
                future.result()
        finally:
            self._pool.leave(self._notice, self.folder.run_id)
            for report in self._reports.close():
                if isinstance(report, LastReport):
                    on_report(report)

    # --- in the thread ----------------------------------------------------------------------------------------------

    def _soon(self, what: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(what)

    def _notice(self, text: str, site: str = "") -> None:
        self._reports.put(SiteNotice(text, site))

    def _failed(self, error: BaseException, gone: Sequence[str] = (), inside: Sequence[str] = ()) -> None:
        """Report a failure of the run.

        Args:
            gone: the instances from which no report will come any more.
            inside: the failure does not count if all of these have ended well by now; without any it always counts.
        """
        site = getattr(error, "site", None)
        reason = str(error) or type(error).__name__
        self._reports.put(SiteFailed(reason, site, list(gone), list(inside)))

    def _begin(self, coordinator: Sequence[str]) -> None:
        self._acquiring.append(self._loop.create_task(self._report_failure_of(self._acquire(coordinator))))

    async def _acquire(self, coordinator: Sequence[str]) -> None:
        if self.relay is not None:
            self._tasks.append(self._loop.create_task(self._keep(self._keep_relay(self.relay))))
        await together(self._prepare(site, coordinator) for site in self.sites.values())
        if self.jobs:
            self._tasks.append(self._loop.create_task(self._keep(self._watch_queues())))
        if self._first:
            await self._get(self._first)
        self.is_acquired = True
        self._reports.put(Acquired())
        begun = self._loop.time()
        for wave in self._later:
            self._acquiring.append(self._loop.create_task(self._report_failure_of(self._get_later(wave, begun))))

    async def _report_failure_of(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work that gets jobs; report to the run what keeps us from it."""
        try:
            await work
        except EXPECTED as error:
            self._failed(error)
        except Exception as error:  # a mistake of ours must not leave the run waiting
            self._failed(SiteError(f"the launch failed: {type(error).__name__}: {error}"))
            raise

    async def _get(self, group: Sequence[str]) -> None:
        """Get the jobs of a group together, and let them begin."""
        jobs = {name: self.jobs[name] for name in group}
        described = {name: site.site for name, site in self.sites.items()}
        strategy = choose_strategy(jobs.values(), described, self.strategy)
        strategy.adopt(self._past_jobs.adopt(jobs), self._loop.time(), self._past_jobs.spent(jobs))
        co_allocation = CoAllocation(strategy, jobs, self.sites, self._notice)
        self._co_allocations |= dict.fromkeys(jobs, co_allocation)
        await co_allocation.gather()
        for job in jobs.values():
            self.processes.open_job(job)
        self._begun |= jobs.keys()

    async def _get_later(self, group: Sequence[str], begun: float) -> None:
        """Get the jobs of a later group when they are due, or when an instance waits for one of theirs."""
        wanted = asyncio.Event()
        self._wanted |= dict.fromkeys(group, wanted)
        due_s = due_in_s([self.jobs[name] for name in group], self.plan)
        self._notice(f"{', '.join(group)}: submitted in {due_s:.0f} s, or as soon as an instance waits for one of them")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, begun + due_s - self._loop.time())):
                await wanted.wait()
        await self._get(group)
        self.late -= self.processes.names_of(group)
        self._reports.put(LateComing())

    async def _prepare(self, site: RunSite, coordinator: Sequence[str]) -> None:
        """Everything that a site needs before its job is submitted."""
        if site.site.allocation is None:
            self._notice("connecting", site.name)
        parts = {job.part.name for job in self.jobs.values() if job.site == site.name}
        left = self.past.sites.get(site.name) if self.past is not None else None
        if left is not None and self.past is not None:
            await site.locate()
            await site.recover_job_ids(left.jobs)
            await site.clean_shared(left, self.past.launcher)
        if left is not None and (left.has_begun or left.reservations):
            await site.clean(site.job_ids, list(left.reservations))
            left.jobs.clear()
        elif left is not None and left.folder:
            await site.end_builds(left.folder)
        await site.prepare(self.folder.secret.hex())
        await site.query_limits([job for job in self.jobs.values() if job.site == site.name])
        checks = [check_python(site, parts, self.plan), check_images(site, parts, self.plan)]
        await together([stage_model(site, parts, self.plan, self._notice), *checks])
        await build_at(site, parts, self.plan, self.folder, self._notice)
        await site.note_programs(programs_at(self.plan, parts))
        links = relay_links(self.plan, site.name)
        variables, entry = await addresses_at(
            site,
            coordinator,
            self.relay,
            links,
            self._pool.relay_entries(site.login),
            is_direct=self.is_direct,
            relay_key=self.folder.relay_key,
        )
        self.processes.reach_coordinator(site.name, variables)
        if entry is not None:
            self._entries.append((site, entry))
            self._tasks.append(self._loop.create_task(self._keep(entry.watch())))
        channel = site.open_session(
            lambda job, report: self._on_report(site, job, report),
            self._notice,
            is_direct=self.is_direct or site.shares_files,
        )
        self._tasks.append(self._loop.create_task(self._keep(self._keep_channel(site, channel))))

    async def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            # Also what nobody thought of: a run must not wait for something that nobody keeps any more.
            is_known = isinstance(error, (SiteTimedOut, SiteError, TransportError))
            if not self._is_closing:
                self._failed(error if is_known else SiteError(f"{type(error).__name__}: {error}"))

    async def _keep_channel(self, site: RunSite, channel: SiteSession) -> None:
        """Speak with a site until it is given up, and with it what runs there."""
        try:
            await channel.keep()
        except SiteTimedOut as error:
            site.is_given_up = True
            if not self._is_closing:
                here = self.processes.names_of(job.member for job in self.jobs.values() if job.site == site.name)
                self._failed(error, gone=sorted(here))

    async def _keep_relay(self, relay: LocalRelay) -> None:
        """Start the relay of this machine again when it ends; those who use it come back to it.

        Raises:
            SiteError: it cannot be started again.
        """
        while True:
            await asyncio.sleep(RELAY_LOOK_S)
            if relay.has_ended and not self._is_closing and await relay.start_again():
                self._pool.tell("the relay of this machine has ended and is started again")

    def _on_report(self, site: RunSite, agent: str, report: protocol.AgentReport | Gone) -> None:
        folder, _, node = agent.rpartition("/")
        member, _, attempt = folder.rpartition(".")
        job, co_allocation = self.jobs.get(member), self._co_allocations.get(member)
        if job is None or co_allocation is None:
            return
        match report:
            case protocol.Over():
                self._agents_over.add(agent)
                if all(each in self._agents_over for each in agent_folders(folder, job.nodes)):
                    self._over.add(folder)
                self._ended.set()
                if member in self._begun:
                    self._doubt(site, job, agent, report)
            case protocol.StepFailed():
                self._tasks.append(self._loop.create_task(self._keep(self._on_failed_step(site, job, agent, report))))
            case protocol.Killed() | Gone():
                self._doubt(site, job, agent, report)
            case protocol.Ready():
                co_allocation.on_report(job, int(attempt), int(node), report)
                if len(job.about) == 1 and not job.is_ready:
                    self._tasks.append(self._loop.create_task(self._keep(self._await_nodes(site, job))))
            case protocol.TimedOut():
                co_allocation.on_report(job, int(attempt), int(node), report)
            case protocol.LeaseExpired():
                co_allocation.on_report(job, int(attempt), int(node), report)
                if member in self._begun:
                    self._failed(
                        SiteError(
                            f"the lease of the run at {site.name} expired: it received nothing from xmml-run, and ended"
                        )
                    )
            case _ if self.processes.job_of.get(report.name) != member:
                told = (
                    f"the agent of job {member} at {site.name} reports about {report.name!r}, which does not run there"
                )
                self._failed(SiteError(told))
            case _ if folder == job.folder and folder not in self._silent_jobs:
                self._steps_awaited.on_report(report)
                if isinstance(report, protocol.Ended) and report.status == 0:
                    self._teardown.ended_well.add(report.name)
                self._reports.put(report)

    async def _await_nodes(self, site: RunSite, job: SiteJob) -> None:
        """Report if not all nodes of a job begin soon after the first one."""
        folder = job.folder
        await asyncio.sleep(STARTS_WITHIN_S)
        if folder == job.folder and not job.is_ready and folder not in self._over | self._lost_jobs:
            missing = ", ".join(str(each.node) for each in job.nodes.agents if each.node not in job.about)
            said = await site.last_words_of(folder)
            self._notice(
                f"nothing has started on node {missing} of job {job.id} for {STARTS_WITHIN_S:.0f} s"
                f"{f'; its script says: {said}' if said else ''}",
                job.site,
            )

    async def _on_failed_step(self, site: RunSite, job: SiteJob, agent: str, report: protocol.StepFailed) -> None:
        """The agent of a node has not begun, or has failed: the job is of no use. Another one that cannot begin is not
        either."""
        folder, _, node = agent.rpartition("/")
        if self._is_closing or folder != job.folder or folder in self._lost_jobs:
            return
        self._lost_jobs.add(folder)
        attempt, has_begun = job.attempt, int(node) in job.about
        said = await site.last_words_of(folder)
        why = f"what starts programs on node {node} ended with status {report.status}{f': {said}' if said else ''}"
        with contextlib.suppress(TransportError):
            await site.cancel(job, attempt)
        self._lost(site, job, attempt, why, for_good=not has_begun)

    def _doubt(self, site: RunSite, job: SiteJob, agent: str, report: protocol.Killed | protocol.Over | Gone) -> None:
        """Handle the end, or the apparent end, of a job or of a part of it that was not ordered."""
        folder, _, node = agent.rpartition("/")
        if self._is_closing or folder != job.folder or folder in self._lost_jobs:
            return
        if isinstance(report, Gone) and agent in self._agents_over:
            return
        self._lost_jobs.add(folder)
        if job.member in self._begun:
            self._reports.put(SiteSuspected())
        why, within_s = "it was ended from outside", KNOWN_WITHIN_S
        if isinstance(report, Gone):
            within_s = 0.0  # a queue may believe in a dead node for minutes
            why = f"{report.why} ({job.about[int(node)].host})"
            self._silent_jobs.add(folder)
        self._tasks.append(self._loop.create_task(self._keep(self._find_out(site, job, why, within_s))))

    async def _find_out(self, site: RunSite, job: SiteJob, why: str, within_s: float) -> None:
        """Ask its queue why a job ends, until that knows."""
        attempt, until = job.attempt, self._loop.time() + within_s
        while True:
            with contextlib.suppress(SchedulerUnavailable, TransportError):
                status = (await site.status([job])).get(job.id)
                if status is not None and (status.state.is_over or status.ends_as is not None):
                    why, _ = await site.why_ended(job, status)
                    break
            if self._loop.time() > until:
                break
            await asyncio.sleep(ASK_AGAIN_S)
        if job.member not in self._begun:  # its other nodes would keep the next attempt waiting
            with contextlib.suppress(TransportError):
                await site.cancel(job, attempt)
        self._lost(site, job, attempt, why)

    # --- watching the queues ----------------------------------------------------------------------------------------

    async def _watch_queues(self) -> None:
        await together(self._watch(site) for site in self.sites.values())

    async def _watch(self, site: RunSite) -> None:
        """Ask a queue about our jobs, one command for all of them, less and less often."""
        pause, silent_since = POLL_FIRST_S, None
        while True:
            await asyncio.sleep(pause)
            pause = min(1.3 * pause, POLL_RUNNING_S if self.is_acquired else POLL_LONGEST_S)
            jobs = [job for job in self.jobs.values() if job.site == site.name and job.id]
            attempts = {job.id: job.attempt for job in jobs}
            try:
                found = await site.status(jobs)
                silent_since = None
            except (SchedulerUnavailable, TransportError) as error:
                silent_since = silent_since or self._loop.time()
                if self._loop.time() - silent_since > QUEUE_SILENT_S:
                    self._failed(SiteError(f"the queue of {site.name} does not answer: {error}"))
                    return
                continue
            for job in jobs:
                status = found.get(job.id)
                if status is None or attempts.get(job.id) != job.attempt or job.folder in self._over:
                    continue
                if told := self._queue_news.of(job, status, self._loop.time()):
                    self._notice(told, job.site)
                beyond = await self._beyond_limits(site, job, status, jobs)
                if status.can_never_run or (status.may_never_run and beyond):
                    with contextlib.suppress(TransportError):  # it stays in the queue for ever unless it is taken out
                        await site.cancel(job, job.attempt)
                    self._lost(site, job, job.attempt, f"it will never start: {status.reason}{beyond}", for_good=True)
                elif status.state.is_over and job.folder not in self._lost_jobs:
                    attempt = job.attempt
                    why, for_good = await site.why_ended(job, status)
                    await asyncio.sleep(0.3)  # what its agent said last may still be on its way
                    if job.folder not in self._over | self._lost_jobs:
                        self._lost(site, job, attempt, why, for_good=for_good)

    async def _beyond_limits(self, site: RunSite, job: SiteJob, status: JobStatus, jobs: Sequence[SiteJob]) -> str:
        """Return what a job, or another part of it, asks for that its queue gives to none, to be told after the reason
        for which it waits; empty: nothing is known of that. Nodes that do not work are told, since only the site knows
        when they will. The queue is asked once for each reason."""
        is_open = status.can_never_run or status.may_never_run or status.waits_for_nodes
        if not is_open or (job.folder, status.reason) in self._explained:
            return ""
        self._explained.add((job.folder, status.reason))
        if status.waits_for_nodes:
            if broken := await site.broken_nodes(job):
                self._notice(f"job {job.id} pending ({status.reason}): {broken}", job.site)
            return ""
        parts = [each for each in jobs if each.id == job.id]
        beyond = await site.beyond_limits(parts, status.reason)
        return f"; {beyond}" if beyond else ""

    def _lost(self, site: RunSite, job: SiteJob, attempt: int, why: str, *, for_good: bool = False) -> None:
        """A job is over that should not be; `for_good`: another one would end in the same way."""
        if self._is_closing or attempt != job.attempt or job.member not in self._co_allocations:
            return
        self._lost_jobs.add(job.folder)
        self._over.add(job.folder)
        self.journal.write("over", site=site.name, job=job.folder)
        self._co_allocations[job.member].on_job_over(job, attempt, why, for_good=for_good)
        if job.member in self._begun:
            inside = [name for name, member in self.processes.job_of.items() if member == job.member]
            gone = inside if job.folder in self._silent_jobs else []
            expected = [self.jobs[each] for wave in self._later for each in wave if each not in self._begun]
            self._failed(SiteError(why_over(job, why, expected)), gone, inside)

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _close(self) -> None:
        self._is_closing = True
        for task in self._acquiring:
            task.cancel()
        await asyncio.gather(*self._acquiring, return_exceptions=True)
        await self._end_jobs()
        co_allocations = list(dict.fromkeys(self._co_allocations.values()))
        try:
            await asyncio.wait_for(asyncio.gather(*(each.settle() for each in co_allocations)), ENDS_WITHIN_S)
        except TimeoutError:
            self._notice("a site does not answer; what is left there ends by itself")
        # Whoever keeps something alive would start it again in the midst of the cleaning.
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._leave_entries()
        await self._teardown.leave(list(self.sites.values()), has_results=self.is_acquired)

    async def _end_jobs(self) -> None:
        """Let the supervisors end everything, and wait until they have."""
        going = [each for each in self.jobs.values() if each.member in self._begun and self._hears(each.site)]
        for job in going:
            session = self.sites[job.site].session
            for agent in job.agents:
                if session is not None and agent not in self._agents_over and job.folder not in self._over:
                    session.send_order(agent, protocol.Quit())
        until = self._loop.time() + ENDS_WITHIN_S
        while any(job.folder not in self._over for job in going) and self._loop.time() < until:
            self._ended.clear()
            try:
                await asyncio.wait_for(self._ended.wait(), until - self._loop.time())
            except TimeoutError:
                break

    def _hears(self, site: str) -> bool:
        """Whether what a site says still arrives."""
        at = self.sites[site]
        return not at.is_given_up and at.session is not None and not at.session.has_failed

    async def _leave_entries(self) -> None:
        """Leave the relays of sites, or end them, before their logs come back and the run's folder goes."""
        ending = [entry.remove_run(self.folder.run_id, is_given_up=site.is_given_up) for site, entry in self._entries]
        with contextlib.suppress(TimeoutError):  # it ends by itself
            await asyncio.wait_for(asyncio.gather(*ending, return_exceptions=True), ENDS_WITHIN_S)


async def together(work: Any) -> None:
    """Do things at the same time; the first failure cancels the others, and is raised when they have ended."""
    tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
