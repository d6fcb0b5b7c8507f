"""Processes at sites: orders of the run's loop are translated to what holds there, and go to the agent of the node."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xmml_planner import Plan, PlannedInstance

from xmml_executors import protocol
from xmml_executors.executor import ProcessStart
from xmml_executors.launch.jobs.job_nodes import is_mpirun
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.site.paths import SitePaths
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.mpi_sessions import SESSION_FOLDER_OF_MPI
from xmml_executors.run_folder import RunFolder


class SiteProcesses:
    """The instances, ranks and shared processes of a run that are in jobs at sites.

    Attributes:
        job_of: the job of each, by the member of its group.
    """

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        jobs: Mapping[str, SiteJob],
        sites: Mapping[str, RunSite],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Begin when no job runs.

        Args:
            plan: of the run.
            folder: of the run, here.
            jobs: by their members.
            sites: by their names.
            loop: of the thread in which sites are spoken with.
        """
        self._plan = plan
        self._folder = folder
        self._jobs = jobs
        self._sites = sites
        self._loop = loop
        self._addresses: dict[str, Mapping[str, str]] = {}
        self._paths: dict[str, SitePaths] = {}
        self.job_of = {name: member for member, job in jobs.items() for name in job.planned.instances}
        for instance in plan.instances:
            if instance.rank_of is not None and instance.rank_of in self.job_of:
                self.job_of[instance.name] = self.job_of[instance.rank_of]
            if instance.process is not None and instance.name in self.job_of:
                self.job_of[instance.process] = self.job_of[instance.name]

    def __contains__(self, name: str) -> bool:
        """Whether an instance, or a process that instances share, is in a job at a site."""
        return name in self.job_of

    def names_of(self, members: Iterable[str]) -> frozenset[str]:
        """Return the instances, ranks and shared processes of jobs."""
        wanted = set(members)
        return frozenset(name for name, member in self.job_of.items() if member in wanted)

    def writes_logs_here(self, name: str) -> bool:
        """Whether what an instance, or a process that instances share, writes goes into the run's folder here itself:
        its nodes see that folder."""
        return self._sites[self._job(name).site].shares_files

    # --- what is known of the sites ---------------------------------------------------------------------------------

    def reach_coordinator(self, site: str, variables: Mapping[str, str]) -> None:
        """Take the variables by which processes at a site find the coordinator."""
        self._addresses[site] = variables

    def open_job(self, job: SiteJob) -> None:
        """A job runs: processes can be started in it."""
        site, model, run = self._sites[job.site], self._plan.model_folder, str(self._folder.path)
        self._paths[job.member] = SitePaths(
            model,
            run,
            run if site.shares_files else site.folder,
            job.about[0].python,
            job.about[0].path,
            job.part.mpi,
            job.part.python,
            site.home,
            model if site.shares_files else "",
        )

    # --- orders of the run's loop -----------------------------------------------------------------------------------

    def start(self, process: ProcessStart) -> None:
        """Start a process at its site, with the folders that instances in it work in."""
        job = self._job(process.name)
        paths = self._paths[job.member]
        for name in process.hosted:
            planned = self._plan.by_name[name]
            folder = paths.file(self._folder.path / self._folder.work(planned))
            self._tell(job, planned.node, protocol.Prepare(folder, list(planned.stage_in)))
        env = {**process.env}
        if "XMML_COORDINATOR" in env:
            env |= self._addresses[job.site]
            relay, coordinator = env.get("XMML_RELAY", ""), env["XMML_COORDINATOR"]
            if listen := job.nodes.where_to_listen(job.about[0].nodes, relay, coordinator):
                env["XMML_LISTEN"] = listen
        instance = self._plan.by_name.get(process.name)
        inside = [self._plan.by_name[name] for name in process.hosted or [process.name]]
        command, more_files = paths.command(process.command), dict[str, str]()
        if job.nodes.is_mpi(inside[0]):
            command, variables, more_files = job.nodes.mpi_command(
                inside[0], command, job.about[0], paths.file(self._folder.path / inside[0].folder)
            )
            env |= variables | self._mpi_session(job, inside[0], command, env)
        translated = replace(
            process.order(),
            command=command,
            env={**job.nodes.variables(inside), **paths.env(env)},
            folder=paths.file(self._folder.path / process.folder),
            stdout=paths.file(self._folder.path / process.stdout),
            stderr=paths.file(self._folder.path / process.stderr),
            terminal=None,
            files={
                **{
                    paths.file(self._folder.path / file): paths.text(self._folder.files.read(str(file)).decode())
                    for file in process.files
                },
                **more_files,
            },
            stage_in=list(instance.stage_in) if instance is not None else [],
            **job.nodes.devices(inside),
        )
        self._tell(job, job.nodes.agent_of(inside[0]), translated)

    def _mpi_session(
        self, job: SiteJob, instance: PlannedInstance, command: Sequence[str], env: Mapping[str, str]
    ) -> dict[str, str]:
        """Give `mpirun` a folder of its own (see `xmml_executors.mpi_sessions`) where agents can remove it."""
        nodes = {share.node for share in instance.shares} or {0}
        has_agents = nodes <= {agent.node for agent in job.nodes.agents}
        if SESSION_FOLDER_OF_MPI in env or not is_mpirun(command) or not has_agents:
            return {}
        own = hashlib.sha256(self._folder.secret + instance.folder.encode()).hexdigest()[:16]
        folder = f"/tmp/xmml-mpi-{own}"  # on the disk of each node; and sockets need short paths
        for node in nodes:
            self._tell(job, node, protocol.Remove(folder))
        return {SESSION_FOLDER_OF_MPI: folder}

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process group of an instance."""
        job = self._job(name)
        self._tell(job, self._node_of(job, name), protocol.Signal(name, int(number)))

    def watch(self, name: str, pid: int) -> None:
        """Have the process watched that has joined as an instance."""
        job = self._job(name)
        self._tell(job, self._node_of(job, name), protocol.Watch(name, pid))

    def _job(self, name: str) -> SiteJob:
        return self._jobs[self.job_of[name]]

    def _node_of(self, job: SiteJob, name: str) -> int:
        """Return the node whose agent has started an instance, or what it is a rank of or runs in."""
        instance = self._plan.by_name.get(name) or next(each for each in self._plan.instances if each.process == name)
        return job.nodes.agent_of(self._plan.by_name[instance.rank_of or instance.name])

    def _tell(self, job: SiteJob, node: int, order: protocol.Order) -> None:
        session = self._sites[job.site].session
        if session is not None:
            self._loop.call_soon_threadsafe(lambda: session.send_order(job.agent(node), order))
