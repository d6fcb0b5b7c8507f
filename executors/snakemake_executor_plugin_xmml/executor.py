"""The executor: hands each job of Snakemake to where it runs, and tells Snakemake how it ended."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from xmml_planner.sites import Site, SiteCatalogue, SitesError, read_sites

from snakemake_executor_plugin_xmml.coupled import CoupledRun, NeedsShell, coupled_run
from snakemake_executor_plugin_xmml.local_process import LocalProcess
from snakemake_executor_plugin_xmml.placement import MB, SITE, DoesNotFit, Needs, is_this_machine, needs_of, place
from snakemake_executor_plugin_xmml.rule_jobs import RuleJob, RuleJobs, unreachable_paths
from snakemake_executor_plugin_xmml.settings import ExecutorSettings
from snakemake_executor_plugin_xmml.shared_launcher import SharedLauncher
from snakemake_executor_plugin_xmml.slurm_resources import KEYS, UNUSED, slurm_settings, with_slurm_settings
from snakemake_executor_plugin_xmml.tasks import MEANING, XMML_RUN, AdoptedRun, CommandTask, Ended, Process, Task
from xmml.problems import printable

#: How often the executor looks after its jobs; on this machine that costs next to nothing.
LOOK_EVERY_S = 0.2
#: Where what jobs write goes that is not redirected.
LOGS = Path(".snakemake/xmml/logs")
#: Where the files of jobs at sites arrive before they get their places: on the same disk, most likely.
ARRIVING = Path(".snakemake/xmml/arriving")
#: After so long people are told what is waited for when jobs are cancelled, in these words.
SAID_AFTER_S = 3.0
WAITS = "waiting until all runs have released their sites (Ctrl-C once more: do not wait)"
WAYS_TO_SEE = "`xmml status` and `xmml cancel` know the folders of runs that are not over"
#: Options of `xmml-run` that a run in a shared process cannot have.
NEEDS_OWN_PROCESS = ("--detach", "--debug")
#: The folder of what the runs of a workflow share.
SHARED = Path(".snakemake/xmml/shared")
#: How the external id of a job at a site begins; the site and the job's tag follow.
SITE_JOB = "site:"


class LocalCores:
    """The processor cores of this machine that jobs may use; a job that wants more than there are gets all."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._used: dict[int, int] = {}

    def take(self, job: int, threads: int) -> bool:
        """Take cores for a job; False: it has to wait."""
        wanted = min(max(threads, 1), self.cores)
        if sum(self._used.values()) + wanted > self.cores:
            return False
        self._used[job] = wanted
        return True

    def give_back(self, job: int) -> None:
        """A job has ended."""
        self._used.pop(job, None)


class Executor(RemoteExecutor):
    """Runs coupled models over the sites of a catalogue, and other rules where they fit."""

    def __init__(self, workflow: Any, logger: Any) -> None:
        """Called by Snakemake. The base class starts the thread that looks after jobs: what that needs comes first."""
        settings = workflow.executor_settings
        self.settings: ExecutorSettings = settings if settings is not None else ExecutorSettings()
        self._catalogue = _catalogue(self.settings.sites)
        self._options = _options(self.settings.options)
        self._sites = RuleJobs()
        self._launcher = SharedLauncher(SHARED)
        self._cores = LocalCores(workflow.resource_settings.local_cores or os.cpu_count() or 1)
        self._tasks: dict[int, Task] = {}
        self._said: set[tuple[str, str]] = set()
        self._waiting: deque[tuple[SubmittedJobInfo, int, Callable[[], Task]]] = deque()
        super().__init__(workflow, logger)

    def __post_init__(self) -> None:
        """Called by the base class when the executor is complete."""
        self.next_seconds_between_status_checks = LOOK_EVERY_S

    # --- beginning --------------------------------------------------------------------------------------------------

    def run_job(self, job: JobExecutorInterface) -> None:
        """Begin a job, or queue it until cores are free."""
        try:
            run = _coupled(job)
            if run is not None:
                self._begin_coupled(job, run)
                return
            needs = needs_of(job.threads, job.resources)
            site = place(needs, self._cores.cores, self._catalogue)
            if site is None or is_this_machine(site):
                self._say_unused(job, KEYS, "it runs on this machine")
                self._begin_here(job)
            else:
                self._begin_at_site(job, site, needs)
        except (DoesNotFit, NeedsShell) as error:
            why = str(error)
            if job.is_group():  # of which Snakemake repeats no reason
                self.logger.error(f"{_name(job)}: {why}")
            self._start(SubmittedJobInfo(job), lambda: Failed(why))

    def _begin_coupled(self, job: JobExecutorInterface, run: CoupledRun) -> None:
        earlier = self.dag.incomplete_external_jobid(job)
        given = run.value_of("-o")
        folder = Path(given) if given else self.settings.runs / f"{job.name}-{job.jobid}-{uuid.uuid4().hex[:8]}"
        info = SubmittedJobInfo(job, external_jobid=str(folder.absolute()))
        complete = run.with_default("-o", str(folder))
        complete = complete.with_options(self._of_jobs(job, run)).with_options(self._options)
        complete = complete.with_default("--sites", str(self.settings.sites) if self.settings.sites else None)

        def start() -> Task:
            if folder.is_dir() and not given:
                shutil.rmtree(folder)
            process = self._process(complete, self._log(job))
            remove = None if given or self.settings.keep_runs else folder
            return CommandTask("xmml-run", process, MEANING, lambda: _remove(remove))

        if earlier is not None:
            self.logger.info(f"job {job.jobid}: goes on with the run in {earlier}")
            info = SubmittedJobInfo(job, external_jobid=earlier)
            self._tasks[id(info)] = AdoptedRun(Path(earlier), start)
            self.report_job_submission(info)
            return
        self.workflow.async_run(job.prepare())  # as a Snakemake of the job's own would: folders made, old outputs gone
        if complete.has("--sites"):
            self._start(info, start)  # the work is done elsewhere
        else:
            self._queue(info, job.threads, start)

    def _process(self, run: CoupledRun, log: Path) -> Process:
        """Begin a coupled run; all that are over sites share a process."""
        if run.has("--sites") and not any(run.has(option) for option in NEEDS_OWN_PROCESS):
            return self._launcher.begin(run.arguments, log, run.redirected)
        return LocalProcess([*XMML_RUN, *run.arguments], log, run.redirected, has_sites=True)

    def _of_jobs(self, job: JobExecutorInterface, run: CoupledRun) -> list[str]:
        """Return the options of `xmml-run` by which the jobs of a run get the resources of its rule."""
        catalogue = self._catalogue
        if own := run.with_options(self._options).value_of("--sites"):
            try:
                catalogue = read_sites(own)
            except SitesError as error:
                raise DoesNotFit(str(error)) from None
        sites = [site for site in catalogue.sites.values() if site.has_queue] if catalogue is not None else []
        needs, settings = needs_of(job.threads, job.resources), slurm_settings(job.resources)
        if not any(site.scheduler == "slurm" for site in sites):
            self._say_unused(job, KEYS, "no site has a queue of Slurm")
        if sites:
            self._say_unused(job, (*UNUSED, "gpu", "gpus"), "the jobs of a coupled run are as large as its model needs")
        self._say_unused(job, (SITE,), "a coupled run is placed as a whole: write --place INSTANCE=SITE in its command")
        common = [("walltime", f"{needs.runtime_s} s")] if needs.runtime_s is not None else []
        if needs.memory_bytes and not _is_guess(job):
            common.append(("memory", f"{needs.memory_bytes // MB} MiB"))
        words = []
        for site in sites:
            for key, value in (*common, *(settings if site.scheduler == "slurm" else ())):
                words += ["--job", f"{site.name}.{key}={value}"]
        return words

    def _say_unused(self, job: JobExecutorInterface, names: Iterable[str], why: str) -> None:
        """Warn once for each rule of resources that it has and that are not used."""
        unused, who = [name for name in names if job.resources.get(name)], _name(job)
        if unused and (who, why) not in self._said:
            self._said.add((who, why))
            self.logger.warning(f"{who}: resources without effect: {', '.join(unused)}: {why}")

    def _begin_here(self, job: JobExecutorInterface) -> None:
        """Run a job on this machine, by a Snakemake of its own, as every executor does."""
        command = self.format_job_exec(job)
        log = self._log(job)

        def start() -> Task:
            return CommandTask(_name(job), LocalProcess(["/bin/sh", "-c", command], log))

        self._queue(SubmittedJobInfo(job), job.threads, start)

    def _begin_at_site(self, job: JobExecutorInterface, site: Site, needs: Needs) -> None:
        """Run a job at a site, without a Snakemake there."""
        if job.is_group() or job.shellcmd is None:
            what = "a group of jobs" if job.is_group() else "a rule without shell:"
            raise DoesNotFit(f"{what} can only run on this machine; at {site.name} that would need a Snakemake")
        if site.scheduler == "slurm":
            site = with_slurm_settings(site, slurm_settings(job.resources))
        else:
            self._say_unused(job, KEYS, f"{site.name} has no queue of Slurm")
        self._say_unused(
            job, UNUSED, "a job at a site has one node; threads, mem_mb, runtime, gpu and slurm_extra count"
        )
        prefix = f"{SITE_JOB}{site.name}/"
        earlier = self.dag.incomplete_external_jobid(job) or ""
        resumed = earlier.startswith(prefix)
        tag = earlier.removeprefix(prefix) if resumed else f"{job.name}-{job.jobid}-{uuid.uuid4().hex[:8]}"
        inputs, outputs, logs = (tuple(map(str, each)) for each in (job.input, job.output, job.log))
        rule_job = RuleJob(tag, job.shellcmd, needs, inputs, outputs, logs, self._log(job), ARRIVING / tag)
        if outside := unreachable_paths(rule_job):
            raise DoesNotFit(
                f"{', '.join(outside)} cannot be taken to {site.name}: write paths relative to the working folder"
            )
        if not resumed:
            self.workflow.async_run(job.prepare())
        info = SubmittedJobInfo(job, external_jobid=prefix + tag)
        self._start(info, lambda: self._sites.begin(site, rule_job, resumed=resumed))

    def _queue(self, info: SubmittedJobInfo, threads: int, start: Callable[[], Task]) -> None:
        if not self._waiting and self._cores.take(id(info), threads):
            self._start(info, start)
        else:
            self._waiting.append((info, threads, start))
            self.report_job_submission(info)

    def _start(self, info: SubmittedJobInfo, start: Callable[[], Task]) -> None:
        self._tasks[id(info)] = self._started(start)
        self.report_job_submission(info)

    def _started(self, start: Callable[[], Task]) -> Task:
        try:
            return start()
        except OSError as error:
            return Failed(f"it cannot be started: {error.filename or ''}: {error.strerror}")

    def _log(self, job: JobExecutorInterface) -> Path:
        name = f"group-{job.groupid}" if job.is_group() else job.name
        return (LOGS / name / f"{job.jobid}-{job.attempt}.log").absolute()

    # --- looking after ----------------------------------------------------------------------------------------------

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Tell which jobs have ended; yield the others."""
        ended: dict[int, Ended] = {}
        for info in active_jobs:
            task = self._tasks.get(id(info))
            if task is not None and (end := task.ended()) is not None:
                ended[id(info)] = end
                del self._tasks[id(info)]
                self._cores.give_back(id(info))
        self._start_waiting()
        for info in active_jobs:
            end = ended.get(id(info))
            if end is None:
                yield info
            elif end.failure:
                why = "\n".join(map(printable, end.failure.split("\n")))  # last words of programs are in it
                self.report_job_error(info, msg=f"{why}. ", aux_logs=list(end.logs))
            else:
                self.report_job_success(info)

    def _start_waiting(self) -> None:
        while self._waiting and self._cores.take(id(self._waiting[0][0]), self._waiting[0][1]):
            info, _, start = self._waiting.popleft()
            self._tasks[id(info)] = self._started(start)

    # --- stopping ---------------------------------------------------------------------------------------------------

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Stop every job and wait until all that they held is released, or until a second Ctrl-C."""
        self._waiting.clear()
        tasks = list(self._tasks.values())
        uninterrupted = deque(tasks)
        try:
            while uninterrupted:
                uninterrupted.popleft().interrupt()
            said = threading.Timer(SAID_AFTER_S, self.logger.warning, [WAITS])
            said.daemon = True
            said.start()
            try:
                for task in tasks:
                    task.wait()
            finally:
                said.cancel()
        except KeyboardInterrupt:
            self.logger.warning(f"not waited for: runs release their sites by themselves; {WAYS_TO_SEE}")
            for task in uninterrupted:
                task.interrupt()
            for task in tasks:
                task.leave()

    def shutdown(self) -> None:
        """Called by Snakemake when no job runs any more."""
        super().shutdown()
        self._sites.close()
        self._launcher.close()

    def get_python_executable(self) -> str:
        """Return the interpreter for jobs that Snakemake itself runs on this machine, as a word for the shell."""
        return shlex.quote(sys.executable)


class Failed:
    """A job that did not come to run."""

    def __init__(self, why: str) -> None:
        self._why = why

    def ended(self) -> Ended:
        """See `Task`."""
        return Ended(self._why)

    def interrupt(self) -> None:
        """See `Task`."""

    def wait(self) -> None:
        """See `Task`."""

    def leave(self) -> None:
        """See `Task`."""


def _coupled(job: JobExecutorInterface) -> CoupledRun | None:
    """Return the coupled run that a job is; `None`: it is none.

    Raises:
        NeedsShell: it has one in it, but is not one.
        DoesNotFit: it is a group that has one in it.
    """
    if not job.is_group():
        return coupled_run(job.shellcmd)
    for each in job.jobs:
        if coupled_run(each.shellcmd) is not None:
            raise DoesNotFit(
                f'rule "{each.name}" is a coupled run, which has its own jobs at several sites and cannot be in a '
                "group of jobs: take it out of the group"
            )
    return None


def _name(job: JobExecutorInterface) -> str:
    return f"group {job.groupid}" if job.is_group() else f"rule {job.name}"


def _is_guess(job: JobExecutorInterface) -> bool:
    """Whether nobody has said how much memory a job needs: where --default-resources names other resources only,
    Snakemake guesses from the size of the input."""
    given = job.rule.resources.get("mem_mb")
    guess = min(max(2 * job.input.size_mb, 1000), 8000)
    return not isinstance(getattr(given, "raw", given), int | float | str) and job.resources["mem_mb"] == int(guess)


def _options(text: str | None) -> list[str]:
    try:
        return shlex.split(text or "")
    except ValueError as error:
        raise WorkflowError(f"--xmml-options cannot be split into words: {error}: {text}") from None


def _catalogue(path: Path | None) -> SiteCatalogue | None:
    if path is None:
        return None
    try:
        return read_sites(path)
    except SitesError as error:
        raise WorkflowError(f"--xmml-sites: {error}") from None


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
