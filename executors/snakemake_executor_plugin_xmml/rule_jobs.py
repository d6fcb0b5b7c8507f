"""Rules at a site: their files are taken there, the command runs in a job, its results are brought back.

Nothing of Snakemake is needed at the site. Files travel as those of a run do: to the site by way of its store of staged
files; from there through a folder beside the outputs, in which they arrive whole before they get their places. All
sites are served by one event loop in a thread of its own; each has one connection, and its queue is asked once a round
for all jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import glob
import shlex
import shutil
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path, PurePosixPath
from typing import Any

from xmml_planner.sites import Site
from xmml_sites.batch import (
    STDERR,
    STDOUT,
    JobRejected,
    JobScript,
    JobStatus,
    SchedulerUnavailable,
    by_name,
    umask_of_this_process,
)
from xmml_sites.job import JobQueue
from xmml_sites.lease import LEASE_S
from xmml_sites.program import command_at, install_program
from xmml_sites.ssh import RemoteFileError, Transport, TransportError, open_transport
from xmml_sites.transfer.results import fetch_listed
from xmml_sites.transfer.site_files import SILENT_S, fetched_patiently
from xmml_sites.transfer.staging import STORE, FileToStage, file_to_stage, stage

from snakemake_executor_plugin_xmml.placement import Needs
from snakemake_executor_plugin_xmml.tasks import Ended
from xmml.files import FileUnreadable
from xmml.late_dataclass import dataclass

#: How often a queue is asked; a job is found to have ended that much later at most.
ASK_EVERY_S = 5.0
#: Time limit of a job whose rule has no `runtime` and whose site has none.
WALLTIME_S = 3600.0
#: Where the files of a job are, below its folder: there `mto site results` looks for results.
FILES = "work"
#: A site's folder of jobs goes with the last workflow that has some in it, maybe just when we make ours.
MAKING_ATTEMPTS = 5
#: How long the site may take to remove it.
CLOSED_WITHIN_S = 10.0
#: So much of the standard error of a failed command is looked at for its last line [bytes].
LAST_WORDS_B = 65536
#: So often in a row a queue or a connection may give no answer before a job is given up.
SILENT_ROUNDS = 12


@dataclass(frozen=True)
class RuleJob:
    """A rule's command and its files.

    Attributes:
        tag: names it among all jobs of this user at the site.
        command: shell text; its paths are relative to the folder that Snakemake works in.
        inputs: files and folders that it reads.
        outputs: files and folders that it must have written when it ends well.
        logs: files that are brought back if they are there, however it ended.
        output_to: takes what it writes to standard output and error.
        arriving: the folder here where its files arrive; removed when they have their places.
    """

    tag: str
    command: str
    needs: Needs
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    logs: tuple[str, ...]
    output_to: Path
    arriving: Path


class RuleJobFailed(Exception):
    """A job that did not do what it should; the text says at which site and why."""


def script_of(job: RuleJob, site: Site, folder: str) -> JobScript:
    """Return what is submitted for a rule.

    Args:
        folder: of the job at the site.
    """
    needs = job.needs
    return JobScript(
        name=job.tag,
        folder=folder,
        command=f"cd {FILES} && exec bash -c {shlex.quote('set -euo pipefail; ' + job.command)}",
        cores=needs.threads,
        memory=needs.memory_bytes,
        gpus=needs.gpus,
        walltime_s=needs.runtime_s or site.walltime_s or WALLTIME_S,
        partition=site.partition or "",
        account=site.account or "",
        qos=site.qos or "",
        reservation=site.reservation or "",
        modules=site.modules,
        setup=site.setup,
        env=site.env,
        umask=umask_of_this_process(),  # outputs come back with the modes that they would have had here
        options=site.options,
    )


def given(needs: Needs, site: Site) -> dict[str, str]:
    """Return where what a job asks for comes from, in words, by the keys of a file of sites."""
    words = {**site.given, "cores": "threads of the rule"}
    words |= {"memory": "mem_mb of the rule"} if needs.memory_bytes else {}
    words |= {"gpus": "gpu of the rule"} if needs.gpus else {}
    if needs.runtime_s:
        words["walltime"] = "runtime of the rule"
    elif site.walltime_s is None:
        words["walltime"] = "the default: the rule has no runtime"
    return words


def unreachable_paths(job: RuleJob) -> list[str]:
    """Return the paths that cannot be taken to a site because they lie outside of the working folder."""
    paths = (*job.inputs, *job.outputs, *job.logs)
    return [each for each in paths if PurePosixPath(each).is_absolute() or ".." in PurePosixPath(each).parts]


@dataclass(frozen=True)
class _Request:
    """What is asked of a queue for a job, and where its values come from, by the keys of a file of sites."""

    script: JobScript
    given: Mapping[str, str]


@dataclass(frozen=True)
class _Queued:
    """A job in its queue, and what has become of it."""

    request: _Request
    over: asyncio.Future[JobStatus]


class RuleTask:
    """A job at a site, as the executor looks after it."""

    def __init__(self, future: Future[Ended], cancel: Callable[[], object]) -> None:
        self._future, self._cancel = future, cancel

    def ended(self) -> Ended | None:
        """See `Task`."""
        return self._future.result() if self._future.done() else None

    def interrupt(self) -> None:
        """See `Task`."""
        self._cancel()

    def wait(self) -> None:
        """See `Task`."""
        self._future.result()

    def leave(self) -> None:
        """See `Task`. What was not taken out of its queue yet stays there."""


class RuleJobs:
    """The jobs at all sites."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rules at sites", daemon=True)
        self._thread.start()
        self._places: dict[str, _RuleSite] = {}

    def begin(self, site: Site, job: RuleJob, *, resumed: bool = False) -> RuleTask:
        """Carry out a job, or go on with one that was submitted before.

        Args:
            site: as the job sees it: jobs may ask their queue for different things.
        """
        place = self._places.setdefault(site.name, _RuleSite(site))
        done: Future[Ended] = Future()
        made: Future[asyncio.Task[None]] = Future()

        async def follow() -> None:
            try:
                await place.carry_out(site, job, resumed)
                done.set_result(Ended())
            except asyncio.CancelledError:
                done.set_result(Ended(f"cancelled at {site.name}"))
            except (RuleJobFailed, TransportError, JobRejected, SchedulerUnavailable, OSError) as error:
                why = str(error)
                place_named = why if site.name in why else f"{site.name}: {why}"
                done.set_result(Ended(place_named, (str(job.output_to),)))
            except BaseException as error:
                done.set_exception(error)
                raise

        def start() -> None:
            made.set_result(self._loop.create_task(follow()))

        self._loop.call_soon_threadsafe(start)
        return RuleTask(done, lambda: self._loop.call_soon_threadsafe(made.result().cancel))

    def close(self) -> None:
        """Close every connection and end the thread."""

        async def end() -> None:
            for place in self._places.values():
                await place.close()

        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(60)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)


class _RuleSite:
    """One site: its connection, its queue, and who waits for which job."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.transport: Transport = open_transport(site)
        self.queue = JobQueue(self.transport, by_name(site.scheduler, site.dialect or "openpbs"))
        self._work = self._folder_of_all = ""
        self._bringing, self._has_program = asyncio.Lock(), False
        self._queued: dict[str, _Queued] = {}
        #: Jobs, and reasons for which they wait although they ask for nothing beyond the limits of the queue.
        self._within_limits: set[tuple[str, str]] = set()
        self._asking: asyncio.Task[None] | None = None

    async def carry_out(self, site: Site, job: RuleJob, resumed: bool) -> None:
        """Take files there, run, bring files back; whatever happens, leave nothing there."""
        folder = await self._folder(job)
        request = _Request(script_of(job, site, folder), given(job.needs, site))
        number = (await self.queue.find([folder])).get(folder, "") if resumed else ""
        try:
            if number:
                await self._install_program(folder)  # that of the launcher before may have been another release
            else:
                await self._stage_in(job, folder)
                number = await self._submit_wholly(request)
            await self._fetch_outputs(job, folder, number, await self._until_over(number, request))
        except asyncio.CancelledError:
            await _in_any_case(self._cancel(number))
            raise
        finally:
            await _in_any_case(self.transport.remove(folder))

    async def _folder(self, job: RuleJob) -> str:
        work = self.site.work
        if work == "~" or work.startswith("~/"):
            work = await self.transport.home() + work[1:]
        self._work, self._folder_of_all = work, f"{work}/snakemake"
        return f"{self._folder_of_all}/{job.tag}"

    async def _stage_in(self, job: RuleJob, folder: str) -> None:
        files = await asyncio.to_thread(_files_to_stage, job.inputs)
        made = {str(PurePosixPath(f"{folder}/{FILES}/{name}").parent) for name in (*job.outputs, *job.logs)}
        for attempt in range(MAKING_ATTEMPTS):
            try:
                await self.transport.mkdir(f"{folder}/{FILES}", *sorted(made))
                break
            except RemoteFileError:
                if attempt == MAKING_ATTEMPTS - 1:
                    raise
        await self._install_program(folder)
        if files:
            await stage(self.transport, self._work, command_at(folder), FILES, files, lease_s=LEASE_S)

    async def _install_program(self, folder: str) -> None:
        """Install our program for a job; the first one brings it, for all that begin at the same time."""
        async with self._bringing if not self._has_program else contextlib.nullcontext():
            await install_program(self.transport, folder, f"{self._work}/{STORE}", self.site.python)
            self._has_program = True

    async def _submit_wholly(self, request: _Request) -> str:
        """Submit; if that is cancelled in its midst, take the job out of the queue again as soon as it has a number."""
        submitting = asyncio.ensure_future(self._submit(request))
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:
            with contextlib.suppress(JobRejected, SchedulerUnavailable, TransportError):
                await _in_any_case(self._cancel(await submitting))
            raise

    async def _submit(self, request: _Request) -> str:
        script = request.script
        path = f"{script.folder}/job.sh"
        await self.transport.put_text(path, self.queue.scheduler.render(script), mode=0o700)
        try:
            return await self.queue.submit(path, [script.folder])
        except JobRejected as error:
            raise JobRejected(f"{error}{await self._beyond_limits(request, str(error))}") from None

    async def _beyond_limits(self, request: _Request, reason: str) -> str:
        """Return what a job asks for that its queue gives to none, to be told after the reason for which it is refused
        or waits; empty: nothing is known of that."""
        limits = await self.queue.known_limits()
        return "".join(f"; {each}" for each in limits.exceeded(request.script, request.given, reason))

    async def _why_never(self, number: str, request: _Request, status: JobStatus) -> str:
        """Return why a job will never start; empty: it may. The queue is asked for its limits once for each reason that
        may pass."""
        may_pass = status.may_never_run and (number, status.reason) not in self._within_limits
        beyond = await self._beyond_limits(request, status.reason) if status.can_never_run or may_pass else ""
        if may_pass and not beyond:
            self._within_limits.add((number, status.reason))
        return f"{status.reason}{beyond}" if status.can_never_run or beyond else ""

    async def _until_over(self, number: str, request: _Request) -> JobStatus:
        """Wait until a job is over, and return what the queue says of it then.

        Raises:
            RuleJobFailed: it will never start.
        """
        queued = self._queued[number] = _Queued(request, asyncio.get_running_loop().create_future())
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        try:
            return await queued.over
        finally:
            del self._queued[number]

    async def _ask(self) -> None:
        """Ask the queue for all jobs as long as there are some."""
        silent = 0
        while waiting := [number for number, each in self._queued.items() if not each.over.done()]:
            try:
                for number, status in (await self.queue.status(waiting)).items():
                    queued = self._queued.get(number)
                    if queued is None:
                        continue
                    if status.state.is_over:
                        _settle(queued.over, status)
                    elif why := await self._why_never(number, queued.request, status):
                        await self.queue.cancel([number])  # it would stay in the queue for ever
                        _settle(queued.over, RuleJobFailed(f"job {number} at {self.site.name} will never start: {why}"))
                silent = 0
            except Exception as error:
                silent += 1
                is_silence = isinstance(error, (TransportError, SchedulerUnavailable))
                if not is_silence or silent == SILENT_ROUNDS:
                    for each in self._queued.values():
                        _settle(each.over, error)  # nobody else would end their waiting
                    return
            await asyncio.sleep(ASK_EVERY_S if self.site.has_queue else ASK_EVERY_S / 10)

    async def _fetch_outputs(self, job: RuleJob, folder: str, number: str, status: JobStatus) -> None:
        end = await self.queue.end_of(folder, status)
        if end.result is None:
            raise RuleJobFailed(f"job {number} at {self.site.name} ended without a result: {end.why}")
        result = end.result
        outputs = job.outputs if result.status == 0 else ()
        try:
            found = await self._fetch(job, folder, (*job.logs, *outputs))
            placing = asyncio.ensure_future(asyncio.to_thread(_put_into_places, job, found))
            try:
                last_words = await asyncio.shield(placing)
            finally:
                await asyncio.wait([placing])
        finally:
            shutil.rmtree(job.arriving, ignore_errors=True)
        missing = [name for name in outputs if not any(_is_in(path, (name,)) for path in found)]
        if missing:
            raise RuleJobFailed(f"the command ended well at {self.site.name} without writing {', '.join(missing)}")
        if result.status != 0:
            lines = [line.strip() for line in last_words.splitlines() if line.strip()]
            why = f": {lines[-1][:500]}" if lines else ""
            told = end.why or f"the command ended with exit status {result.status} on {result.host}"
            raise RuleJobFailed(f"{told} at {self.site.name}{why}")

    async def _fetch(self, job: RuleJob, folder: str, names: Sequence[str]) -> list[str]:
        """Have files arrive here: what the command has written to standard output and error, however much that is, and
        those that have these names or lie in folders of these names; return the paths of the latter.

        Raises:
            RuleJobFailed: nothing comes.
            TransportError: the site cannot be reached, or lists or gives something else.
        """
        order = {
            "files": [STDOUT, STDERR],
            "folders": {"": [glob.escape(name) for name in names]} if names else {},
            "most_bytes": 0,
            "follow_links": True,
        }

        wanted = [f"{FILES}/{name}" for name in names]

        async def fetch_once(on_piece: Callable[[], None]) -> list[str]:
            job.arriving.mkdir(parents=True, exist_ok=True)
            listing = await fetch_listed(
                self.transport,
                command_at(folder),
                "fetching outputs",
                order,
                job.arriving,
                is_wanted=lambda path: path in (STDOUT, STDERR) or _is_in(path, wanted),
                make_folder=lambda each: (job.arriving / each).mkdir(parents=True, exist_ok=True),
                lease_s=LEASE_S,
                on_piece=on_piece,
                on_begin=on_piece,
            )
            return [path.removeprefix(f"{FILES}/") for path in listing.found if path not in (STDOUT, STDERR)]

        try:
            # Until it begins, the files of other jobs may have all channels to the site.
            return await fetched_patiently(fetch_once, begins_within_s=None)
        except TimeoutError:
            raise RuleJobFailed(f"nothing has come from {self.site.name} for {SILENT_S:g} s") from None

    async def _cancel(self, number: str) -> None:
        if number:
            await self.queue.cancel([number])

    async def _remove_folder_of_all(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSED_WITHIN_S):
                await self.transport.run(f"rmdir {shlex.quote(self._folder_of_all)} 2>/dev/null; true")

    async def close(self) -> None:
        """Remove the folder of all jobs, unless others have jobs in it, and close the connection."""
        if self._asking is not None:
            self._asking.cancel()
        if self._folder_of_all:
            await _in_any_case(self._remove_folder_of_all())
        await _in_any_case(self.transport.close())


async def _in_any_case(step: Coroutine[Any, Any, None] | Awaitable[None]) -> None:
    """Take a step of the clean-up to its end, also when cancelled, and whether or not it succeeds."""
    task = asyncio.ensure_future(step)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
    except (TransportError, SchedulerUnavailable):
        pass


def _settle(over: asyncio.Future[JobStatus], end: JobStatus | Exception) -> None:
    """Say what has become of a job, unless nobody waits for it any more."""
    if over.done():
        return  # also if whoever waited was cancelled while the queue was asked
    if isinstance(end, Exception):
        over.set_exception(end)
    else:
        over.set_result(end)


def _is_in(path: str, names: Iterable[str]) -> bool:
    """Whether a path has one of these names or lies in a folder of one."""
    parts, wanted = PurePosixPath(path).parts, (PurePosixPath(name).parts for name in names)
    return any(parts[: len(each)] == each for each in wanted)


def _files_to_stage(names: Iterable[str]) -> list[FileToStage]:
    """Return files, and all files of folders, with their hashes.

    Raises:
        RuleJobFailed: one cannot be read.
    """
    files = dict.fromkeys(path for name in names for path in _files(Path(name)))
    found = []
    for file in files:
        try:
            found.append(file_to_stage(file, file.as_posix()))
        except FileUnreadable as error:
            raise RuleJobFailed(f"{file} cannot be read: {error}") from None
    return found


def _files(path: Path) -> list[Path]:
    """Return a file, or all files of a folder."""
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if each.is_file())
    return [path]


def _put_into_places(job: RuleJob, paths: Iterable[str]) -> str:
    """Give what has arrived its places: what the command has written to standard output and error in one file, and its
    files; return the end of what it has written to standard error."""
    job.output_to.parent.mkdir(parents=True, exist_ok=True)
    last_words = b""
    with open(job.output_to, "wb") as together:
        for each in (STDOUT, STDERR):
            with contextlib.suppress(FileNotFoundError), open(job.arriving / each, "rb") as opened:  # made by no queue
                shutil.copyfileobj(opened, together)
                if each == STDERR:
                    opened.seek(max(0, opened.tell() - LAST_WORDS_B))
                    last_words = opened.read()
    for path in paths:
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        _move(job.arriving / FILES / path, place)
    return last_words.decode(errors="replace")


def _move(file: Path, place: Path) -> None:
    """Give a file another place, where it appears whole or not at all, also on another disk."""
    try:
        file.replace(place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        part = place.with_name(f"{place.name}.part")
        try:
            shutil.copy2(file, part)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
