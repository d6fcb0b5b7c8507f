"""One site of a run: its folder there, its jobs, and the channel to them."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xmml_planner.sites import Site
from xmml_sites.batch import (
    JobScript,
    JobState,
    JobStatus,
    umask_of_this_process,
)
from xmml_sites.job import no_room
from xmml_sites.program import NAME as PROGRAM
from xmml_sites.program import command_at, install_program, lasting_command_at, link_program
from xmml_sites.ssh import Forwarding, RemoteFileError, TransportError
from xmml_sites.transfer.staging import STORE, FileToStage, stage

from xmml_executors import protocol
from xmml_executors.executor import Tell
from xmml_executors.launch.jobs.site_job import SiteJob, agent_folder, agent_folders
from xmml_executors.launch.site.journal import Journal, SiteRecord, is_alive
from xmml_executors.launch.site.login import SiteLogin
from xmml_executors.launch.site.paths import below_home, site_folder
from xmml_executors.launch.site.reservations import Reservations
from xmml_executors.launch.site.session import OnReport, SiteSession
from xmml_executors.launch.site.staging import MODEL
from xmml_executors.launch.site.timeouts import lease_s, site_timeout_s
from xmml_executors.outcome import SiteError
from xmml_executors.protocol import AgentStatus
from xmml_executors.typed_json import check_type, parsed

#: How long the supervisor of a job may take to stop all processes before the scheduler cancels the job [s].
ENDS_WITHIN_S = 8.0
#: How often a queue is asked about our jobs: at first, and at most, growing with the time since somebody cared. While
#: the run goes on, the queue may be the only one who knows that a job is over, and the others are to be released soon.
POLL_FIRST_S, POLL_LONGEST_S, POLL_RUNNING_S = 1.0, 30.0, 6.0
#: For how long we believe what a queue has told of a job: whoever watches it asks sooner than that.
TOLD_HOLDS_S = 2 * POLL_LONGEST_S
#: A site's folder of runs goes with the last run in it, maybe just when we make ours.
MAKING_ATTEMPTS = 5
REMOVING_ATTEMPTS = 20
#: Pauses before a port is asked for again.
FORWARDED_AGAIN_S = (0.2, 0.5)
#: How long a site may take to hash the programs that will run.
HASHED_WITHIN_S = 600.0
#: How long a queue may give no answer before we believe that it is gone.
QUEUE_SILENT_S = 600.0
#: Stands for no time limit: what runs in an allocation ends with it, and without a queue only `walltime` of the site
#: limits what runs there.
LONGEST_S = 10.0 * 365 * 86_400


class RunSite:
    """A cluster or machine that is reached by a transport, as far as it concerns one run. Its parts (`like`) share its
    files, so they share the folder of the run."""

    def __init__(self, site: Site, run_id: str, journal: Journal, login: SiteLogin | None = None) -> None:
        """
        Args:
            login: to the site; `None`: one for this run alone.

        Raises:
            ConfigurationProblem: the description of the site leads nowhere.
        """
        self.site = site
        self.name = site.name
        self.run_id = run_id
        self.login = login or SiteLogin(site)
        self.scheduler = self.login.scheduler
        self.transport = self.login.transport
        self.queue = self.login.queue
        self.journal = journal
        self.home = ""
        self.work = ""
        self.folder = ""
        self.python = site.python
        self.session: SiteSession | None = None
        self.is_given_up = False
        self._given_up_after_s = lease_s()
        self._attempts: dict[str, str] = {}
        self._forwardings: list[Forwarding] = []
        self.reservations = Reservations(self.name, run_id, self.transport, self.scheduler, journal)
        self._asking = asyncio.Lock()

    # --- the folder -------------------------------------------------------------------------------------------------

    @property
    def site_command(self) -> str:
        """The command that serves the run on the login node."""
        return command_at(self.folder)

    @property
    def gateway_command(self) -> str:
        """Shell text that becomes the site gateway."""
        return lasting_command_at(self.folder, f"{self.work}/{STORE}")

    async def forwarded_port(self, host: str, port: int) -> int:
        """Return a port of the login node's loopback device that leads to one that we can reach. The site chooses it,
        and sometimes finds at first that somebody else has just taken it.

        Raises:
            TransportError: the site does not open one.
        """
        for pause_s in FORWARDED_AGAIN_S:
            try:
                forwarding = await self.transport.forward_remote(host, port)
                break
            except TransportError:
                await asyncio.sleep(pause_s)
        else:
            forwarding = await self.transport.forward_remote(host, port)
        self._forwardings.append(forwarding)
        return forwarding.port

    async def leave(self) -> None:
        """Close what this run alone has opened to the site."""
        await self.login.leave(self._forwardings)

    async def locate(self) -> None:
        """Find out where the run's folder is to be.

        Raises:
            TransportError: the site cannot be reached.
        """
        await self.transport.connect()
        self.home = home = await self.transport.home()
        self.work = below_home(self.site.work, home)
        self.python = below_home(self.site.python, home)
        self.folder = site_folder(self.site, home, self.run_id, self.journal.path.parent)

    async def prepare(self, secret: str) -> None:
        """Make the folder of the run, with the program that serves it and the run's secret.

        Raises:
            TransportError: the site cannot be reached or written, or has no program that can be used.
        """
        await self.locate()
        self.journal.write("prepare", site=self.name, folder=self.folder)
        for attempt in range(MAKING_ATTEMPTS):
            try:
                await self._make_folder(secret)
                if self.shares_files:
                    await link_program(self.transport, self.folder)
                else:
                    await install_program(self.transport, self.folder, f"{self.work}/{STORE}", self.python)
                break
            except RemoteFileError:
                if attempt == MAKING_ATTEMPTS - 1:
                    raise

    async def _make_folder(self, secret: str) -> None:
        noting = ' && cat > "$f/.secret.new" && mv -f "$f/.secret.new" "$f/.secret"'
        done = await self.transport.run(
            f"umask 077; f={shlex.quote(self.folder)}; "
            f'mkdir -p "$f/jobs" "$f/instances" "$f/model" "$f/relays"{"" if self.shares_files else noting}',
            secret,
        )
        if done.status != 0:
            raise RemoteFileError(self.name, f"making {self.folder}", done.said)

    @property
    def shares_files(self) -> bool:
        """Whether its nodes see the folders of the model and of the run as they are here."""
        return self.site.allocation is not None

    @property
    def shell(self) -> str:
        """The shell in whose environment programs and builds run: a login shell, but for one in a job, which has the
        environment that its script has made."""
        return "bash -c" if self.shares_files else "bash -lc"

    async def link_model(self, folder: str) -> None:
        """Let the folder of the model, which the site sees as it is here, be the one of the run's folder there.

        Raises:
            TransportError: it cannot be written.
        """
        model = shlex.quote(f"{self.folder}/model")
        done = await self.transport.run(
            f"[ -L {model} ] || {{ rmdir {model} && ln -s {shlex.quote(folder)} {model}; }}"
        )
        if done.status != 0:
            raise RemoteFileError(self.name, f"making {self.folder}/model", done.said)

    async def end_builds(self, folder: str) -> None:
        """End the builds that an earlier launcher has begun in the run's folder and that still go on.

        Raises:
            TransportError: the site cannot be reached.
        """
        await self.locate()
        program = shlex.quote(f"{folder}/{PROGRAM}")
        await self.transport.run(f"[ ! -x {program} ] || exec {command_at(folder)} end-builds", timeout_s=60.0)

    async def stage(self, files: Sequence[FileToStage], images: Collection[str] = ()) -> Mapping[str, Any]:
        """Copy the files of the model to the site.

        Args:
            images: the paths of images among them.

        Raises:
            TransportError: it did not work.
        """
        staged = await stage(self.transport, self.work, self.site_command, MODEL, files, images, lease_s=lease_s())
        self.journal.write("staged", site=self.name, sha256=staged["sha256"])
        return staged

    async def note_programs(self, paths: Sequence[str]) -> None:
        """Note in the journal the hashes of the programs that will run here, as staging and builds have left them.

        Args:
            paths: relative to the folder of the model.

        Raises:
            TransportError, SiteError: it did not work.
        """
        if paths:
            order = json.dumps({"files": list(paths)})
            done = await self.transport.run(f"{self.site_command} hash", order, timeout_s=HASHED_WITHIN_S)
            if done.status != 0:
                raise RemoteFileError(self.name, "reading the programs that will run", done.said)
            source = f"site {self.name}"
            hashes = check_type(Mapping[str, str | None], parsed(done.stdout, source), source, "the list of hashes")
            self.journal.write("programs", site=self.name, sha256=hashes)

    def open_session(self, on_report: OnReport, tell_people: Tell, *, is_direct: bool) -> SiteSession:
        """Open the session with the agents of the jobs; somebody must `keep` it.

        Args:
            on_report, tell_people: see `SiteSession`.
            is_direct: instances reach the coordinator without ssh.
        """
        self._given_up_after_s = site_timeout_s(is_direct=is_direct)
        self.session = SiteSession(self.login.gateway, self.folder, self.gateway_command, on_report, tell_people)
        return self.session

    # --- jobs -------------------------------------------------------------------------------------------------------

    async def query_limits(self, jobs: Sequence[SiteJob]) -> None:
        """Complete the time limits of jobs of which neither the plan nor the file of sites knows enough.

        Raises:
            TransportError: the site cannot be reached.
        """
        asked = [job for job in jobs if job.part.walltime_s is None and job.part.submits_jobs]
        if asked:
            told = await self.queue.limits()
            for job in asked:
                limits = told.partition(job.part.partition or "")
                if limits is None:
                    continue
                job.longest_s = limits.longest_s
                if not job.planned.walltime_s and limits.default_s is not None:
                    job.walltime_s = limits.default_s

    async def beyond_limits(self, jobs: Sequence[SiteJob], reason: str) -> str:
        """Return in words what jobs ask for that their queue gives to none: each value, where it comes from, the limit,
        and what would do; empty: nothing is known.

        Args:
            reason: why they are refused or wait, in the queue's words.
        """
        limits = await self.queue.known_limits()
        found = [each for job in jobs for each in limits.exceeded(self._as_asked(job), job.given, reason)]
        return "; ".join(dict.fromkeys(found))

    async def broken_nodes(self, job: SiteJob) -> str:
        """Return in words that a job needs nodes that do not work at present; empty: nothing is known of it."""
        return (await self.queue.known_limits()).broken_nodes(self._as_asked(job), job.given)

    def _as_asked(self, job: SiteJob) -> JobScript:
        script = self.script(job, job.attempt, 0.0, 0.0)
        return replace(script, walltime_s=job.limit_s or script.walltime_s)

    def script(self, job: SiteJob, attempt: int, slack_s: float, patience_s: float, reservation: str = "") -> JobScript:
        """Return the script of a placeholder; its programs run in the Python that its part of the cluster has."""
        name = f"xmml-{self.run_id}-{job.member}"
        python = below_home(job.part.python, self.home)
        return placeholder(job, attempt, name, self.folder, python, slack_s, patience_s, reservation)

    async def submit(
        self, jobs: Sequence[SiteJob], attempt: int, slack_s: float, patience_s: float, reservation: str
    ) -> None:
        """Submit a placeholder, or several that start together. One that hears nothing of us for as long as a lease
        lasts ends also if it is to be more patient.

        Raises:
            JobRejected: the queue does not take it.
            SchedulerUnavailable, TransportError: nobody knows.
        """
        assert self.session is not None
        patience_s = min(patience_s, lease_s())
        scripts = [self.script(job, attempt, slack_s, patience_s, reservation) for job in jobs]
        for job, script in zip(jobs, scripts, strict=True):
            job.attempt, job.id, job.limit_s, job.about = attempt, "", script.walltime_s, {}
        await self.transport.mkdir(*[f"{self.folder}/jobs/{agent}" for job in jobs for agent in job.agents])
        text = self.scheduler.render(scripts[0]) if len(jobs) == 1 else self.scheduler.render_together(scripts)
        path = f"{scripts[0].folder}/job.sh"
        await self.transport.put_text(path, text, mode=0o700)
        for job in jobs:
            for folder in job.agents:
                self.session.follow_reports(folder)
            self.journal.write("submit", site=self.name, job=job.folder)
        id = await self.queue.submit(path, [script.folder for script in scripts])
        for job in jobs:
            job.id = id
            self._attempts[job.folder] = job.id
            self.journal.write("submitted", site=self.name, job=job.folder, id=job.id)

    async def recover_job_ids(self, jobs: dict[str, str]) -> None:
        """Adopt the jobs that an earlier launcher has submitted. Ask the queue for ids that it was killed before it
        received.

        Args:
            jobs: the id of each by its folder below `jobs/`; empty: not known yet.

        Raises:
            TransportError: the site cannot be reached.
        """
        unknown = {f"{self.folder}/jobs/{folder}": folder for folder, id in jobs.items() if not id}
        if unknown:
            for path, id in (await self.queue.find(list(unknown))).items():
                jobs[unknown[path]] = id
                self.journal.write("submitted", site=self.name, job=unknown[path], id=id)
        self._attempts |= {folder: id for folder, id in jobs.items() if id}

    @property
    def job_ids(self) -> list[str]:
        """The ids of all jobs that may be in the queue, also those of an earlier launcher."""
        return list(dict.fromkeys(self._attempts.values()))

    def adopt(self, job: SiteJob, attempt: int, id: str) -> None:
        """Take over a placeholder that an earlier launcher has submitted. Orders are counted from the clock: they come
        after that launcher's."""
        assert self.session is not None
        job.attempt, job.id = attempt, id
        self._attempts[job.folder] = id
        for folder in job.agents:
            self.session.follow_reports(folder, number=int(time.time()))

    def watch(self, job: SiteJob, node: int) -> None:
        """Hold a connection to an agent that is ready, from the login node."""
        assert self.session is not None
        self.session.watch(job.agent(node), job.about[node].host, job.about[node].port)

    def hold(self, job: SiteJob, seconds: float) -> None:
        """Let a placeholder wait for so long."""
        assert self.session is not None
        for folder in job.agents:
            self.session.send_order(folder, protocol.Hold(round(seconds, 3)))

    def go(self, job: SiteJob) -> None:
        """Order a placeholder to begin."""
        assert self.session is not None
        self.journal.write("go", site=self.name, job=job.folder, id=job.id, host=job.about[0].host)
        for folder in job.agents:
            self.session.send_order(folder, protocol.Go())
        self.session.site_timeout_s = self._given_up_after_s

    async def cancel(self, job: SiteJob, attempt: int) -> None:
        """Take a job out of its queue, or end it."""
        assert self.session is not None
        folder = f"{job.member}.{attempt}"
        for each in agent_folders(folder, job.nodes):
            self.session.send_order(each, protocol.Abort())
        if id := self._attempts.get(folder):
            await self.queue.cancel([id])
        self.journal.write("over", site=self.name, job=folder)

    async def status(self, jobs: Sequence[SiteJob]) -> dict[str, JobStatus]:
        """Return what the queue says of jobs, by their ids; one command for all.

        Raises:
            SchedulerUnavailable, TransportError: it says nothing.
        """
        return await self.queue.status([job.id for job in jobs if job.id])

    async def estimates(self, jobs: Sequence[SiteJob]) -> dict[str, float | None]:
        """Return in how many seconds each job will start, by its member: a queued one, else one that were submitted
        now. `None`: the site does not say. The queue is not asked anew about jobs of which it has just told.

        Raises:
            SchedulerUnavailable, TransportError: the site does not answer.
        """
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if any(job.id and not self._has_told(job.id, now) for job in jobs):
                await self.status(jobs)
        waiting = {job.member: self.queue.told[job.id] for job in jobs if job.id in self.queue.told}
        waiting = {member: told for member, told in waiting.items() if not told[1].state.is_over}
        absent = [job for job in jobs if job.member not in waiting]
        now = asyncio.get_running_loop().time()
        starts = {
            member: None if status.starts_in_s is None else max(0.0, status.starts_in_s - (now - told_at))
            for member, (told_at, status) in waiting.items()
        }
        scripts = {job.member: f"{self.folder}/jobs/{job.folder}/job.sh" for job in absent}
        return {**starts, **dict.fromkeys(scripts), **await self.queue.estimates(scripts)}

    def _has_told(self, id: str, now: float) -> bool:
        """Return whether the last answer of the queue about a job is recent enough."""
        if id not in self.queue.told:
            return False
        told_at, status = self.queue.told[id]
        is_open = status.state in (JobState.WAITING, JobState.HELD) and status.starts_in_s is None
        return now - told_at <= (POLL_FIRST_S if is_open else TOLD_HOLDS_S)

    async def why_ended(self, job: SiteJob, status: JobStatus) -> tuple[str, bool]:
        """Return why a job is over, by its own words if it left any, else by the queue's; and whether another one would
        end in the same way."""
        end = await self.queue.end_of(f"{self.folder}/jobs/{job.folder}", status)
        if end.why or end.result is None:
            return end.why, end.is_lasting
        if end.result.status == AgentStatus.UNWRITABLE:
            return f"its agent on {end.result.host} {no_room(self.folder)}", False
        return f"its agent ended with exit status {end.result.status} on {end.result.host}", False

    async def last_words_of(self, job: str) -> str:
        """Return the last line that a job has written to its standard error, if it can be read.

        Args:
            job: its folder below `jobs/`.
        """
        return await self.queue.last_words_of(f"{self.folder}/jobs/{job}")

    # --- the end ----------------------------------------------------------------------------------------------------

    async def remains(self, reservations: Sequence[str]) -> list[str]:
        """Return what an earlier launcher has left at the site, in words for people: its jobs that are known,
        reservations, the run's folder.

        Raises:
            SchedulerUnavailable, TransportError: the site does not say.
        """
        found = []
        if jobs := self.job_ids:
            told = await self.queue.status(jobs)
            found += [f"job {id}" for id, status in told.items() if not status.state.is_over]
        found += [f"reservation {id}" for id in await self.reservations.existing(reservations)]
        if await self.transport.exists(self.folder):
            found.append(self.folder)
        return found

    async def clean(
        self, jobs: Sequence[str] = (), reservations: Sequence[str] = (), *, keeps_folder: bool = False
    ) -> None:
        """End what is left there and remove the run's folder.

        Args:
            jobs: ids of jobs that may still be in the queue.
            reservations: of an earlier launcher; those of this one, which it has not given back yet, are known.
            keeps_folder: results are in the run's folder that are nowhere else: it stays.

        Raises:
            TransportError: the site cannot be reached.
            SiteError: something is left.
        """
        await self.queue.cancel(jobs)
        if self.folder:
            ending = []
            if await self.transport.exists(f"{self.folder}/{PROGRAM}"):
                await self.queue.wait_until_over(jobs, ENDS_WITHIN_S)  # their last words go into the folder that goes
                ending = [f"{self.site_command} end"]
            # The program does not remove the folder: on NFS the file of what runs would stay behind. Without a program,
            # a command that was to install it may just be ending.
            if not keeps_folder:
                ending.append(_removing(self.folder))
            if ending:
                done = await self.transport.run("; ".join(ending), timeout_s=60.0)
                if done.status != 0:
                    raise SiteError(f"site {self.name}: {done.said}")
        for id in sorted({*reservations, *self.reservations.unreleased}):  # not before their jobs are gone
            await self.reservations.give_back(id)
        if keeps_folder:
            return  # for the journal the site is not clean: `xmml cancel` removes the folder
        if not self.shares_files:
            await self.transport.run(f"rmdir {shlex.quote(self.work + '/runs')} 2>/dev/null; true")
        self.journal.write("clean", site=self.name)

    async def clean_shared(self, left: SiteRecord, launcher: tuple[int, str]) -> None:
        """Remove what an earlier launcher has had there for several runs, unless it lives and has it for others still.

        Args:
            launcher: its process id and start.

        Raises:
            TransportError: the site cannot be reached.
        """
        if left.shared and not is_alive(launcher):
            await self.transport.run(f"{command_at(left.shared)} end", timeout_s=60.0)
            await self.transport.remove(left.shared)


def _removing(folder: str) -> str:
    """Return shell text that removes a folder. A process that is just ending may still write: its last file comes
    between listing and removing."""
    path = shlex.quote(folder)
    again = f"[ $i = {REMOVING_ATTEMPTS} ] || {{ sleep 0.1; i=$((i + 1)); false; }}"
    return f"i=0; until rm -rf {path} 2>/dev/null || {again}; do :; done; [ ! -e {path} ] || rm -rf {path}"


def placeholder(
    job: SiteJob,
    attempt: int,
    name: str,
    folder: str,
    python: str,
    slack_s: float,
    patience_s: float,
    reservation: str = "",
) -> JobScript:
    """Return the job that is submitted for a job of the plan: it asks for all its cores, and starts the agents.

    Args:
        name: shown in the queue.
        folder: of the run at the site.
        python: that its programs run in.
        slack_s: how much longer than the run it is asked for.
        patience_s: how long the agent waits if nobody speaks to it.
        reservation: that it runs in; without it, the one that the site's description names.
    """
    site, planned = job.part, job.planned
    own = f"{job.member}.{attempt}"
    agents = {
        each.node: f"exec {command_at(folder)} agent --python {shlex.quote(python)} "
        f"{shlex.quote(agent_folder(own, each.node))} {patience_s:.0f}"
        for each in job.nodes.agents
    }
    longest_s = min((each for each in (site.walltime_s, job.longest_s) if each is not None), default=math.inf)
    walltime_s = min(job.walltime_s + slack_s, longest_s)
    nodes = max(1, planned.nodes)
    allocation = site.allocation
    if not site.has_queue:
        walltime_s = site.walltime_s or LONGEST_S
    if allocation is not None:
        walltime_s = LONGEST_S
        agents = {node: f"{_sees(folder)}; {command}" for node, command in agents.items()}
    return JobScript(
        name=name[:100],
        folder=f"{folder}/jobs/{own}",
        command=agents[0],
        steps=job.nodes.steps(agents),
        nodes=nodes,
        cores=max(1, planned.cores_per_node),
        task_cores=job.nodes.task_cores,
        hosts=allocation.hosts if allocation is not None else (),
        starts_on_first_node=allocation is None or allocation.has_launcher,
        component=allocation.component if allocation is not None else "",
        owner=os.getpid() if allocation is not None else 0,
        before_end=f"{command_at(folder)} forsake" if allocation is not None else ":",
        memory=planned.memory_per_node_bytes,
        gpus=planned.gpus_per_node,
        walltime_s=walltime_s,
        partition=site.partition or "",
        account=site.account or "",
        qos=site.qos or "",
        reservation=reservation or site.reservation or "",
        modules=site.modules,
        setup=site.setup,
        env=dict(site.env),
        umask=umask_of_this_process(),
        options=site.options,
    )


def _sees(folder: str) -> str:
    """Return shell text for a node of an allocation that ends, and says why, where it does not see the folders of the
    run and of its model."""
    run = os.path.dirname(folder)
    return (
        f"f={shlex.quote(folder)}; "
        'xmml_unseen() { echo "$(hostname) does not see the folder of $1: all nodes of a job must see it; $2" >&2; '
        "exit 72; }; "
        f'[ -e "$f/jobs" ] || xmml_unseen {shlex.quote(f"the run, {run}")} "name another one with -o"; '
        '[ -e "$f/model/." ] || xmml_unseen "the model, $(readlink "$f/model")" "copy it to a shared file system"'
    )
