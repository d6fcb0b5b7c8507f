"""Jobs at a site, from the submission to why they ended: for runs, and for rules of workflows.

A job has a folder of its own there, in which its script leaves what it says of itself (`batch.job_script`). The number
that the queue gives it is noted in that folder before the answer travels. Whoever submits may be killed, or cut off,
before having heard the number; who goes on or cleans up later finds it there.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence

from xmml.late_dataclass import dataclass
from xmml_sites.batch import (
    RESULT,
    STDERR,
    JobRejected,
    JobResult,
    JobState,
    JobStatus,
    QueueLimits,
    Scheduler,
    SchedulerUnavailable,
    read_result,
)
from xmml_sites.ssh import RemoteFileError, Transport, TransportError
from xmml_sites.ssh.batched_queries import answers_of, batched
from xmml_sites.ssh.command_result import CommandResult

#: Holds what the queue has answered, in the folder of each job; empty while the queue is being asked.
ANSWER = "submitted"
#: How long `find` waits for a submission that is still going on [s]: after that its command was ended
#: (`Transport.run`), or was lost with its node.
ASKED_FOR_S = 75
_PAUSES_PER_S = 5
#: How it is told that a job has reached its limit.
WALLTIME_EXPIRED = "its time was over"
#: What is written to find out whether there is room [bytes].
_SMALL_FILE = 8192


@dataclass(frozen=True)
class JobEnd:
    """How a job has ended.

    Attributes:
        why: in words; empty: its command has ended, as `result` says.
        result: what its script has said last; `None`: nothing that can be read.
        is_lasting: another job would end in the same way.
    """

    why: str
    result: JobResult | None = None
    is_lasting: bool = False


class JobQueue:
    """The jobs of a user in the queue of a site. One command carries each question, for however many jobs.

    Attributes:
        pause_s: the least time between two questions about jobs.
        told: what the queue has said of each job, and when, by the clock of the event loop.
    """

    def __init__(self, transport: Transport, scheduler: Scheduler) -> None:
        self._transport = transport
        self.scheduler = scheduler
        self.pause_s = 0.0
        self.told: dict[str, tuple[float, JobStatus]] = {}
        self._asked_at = -math.inf
        self._ids: set[str] = set()
        self._next: asyncio.Task[dict[str, JobStatus]] | None = None

    async def submit(self, script: str, folders: Sequence[str]) -> str:
        """Submit a script that is there, and return the number that the queue has given.

        Args:
            script: its path.
            folders: of the jobs that it begins; in each the number is noted.

        Raises:
            JobRejected: the queue does not take it.
            SchedulerUnavailable, TransportError: nobody knows.
        """
        command = noting(self.scheduler.submit_command(script), folders)
        return self.scheduler.parse_submit(await self._transport.run(command))

    async def find(self, folders: Sequence[str]) -> dict[str, str]:
        """Return the numbers of jobs that were submitted before, by their folders; without those that were not.

        Raises:
            TransportError: the site cannot be reached, or has not answered about all of them.
        """
        asked = query_noted_ids(folders)
        said = await self._transport.run(asked, timeout_s=60.0 + len(folders) * ASKED_FOR_S)
        answers = noted(said)
        if len(answers) < len(folders):  # whoever takes a job for not submitted submits it again, or leaves it there
            ended = f"the command that looks for submitted jobs ended early, with exit status {said.status}"
            raise TransportError(self._transport.site, ended)
        found = {}
        for folder, answer in zip(folders, answers, strict=True):
            if answer is not None:
                with contextlib.suppress(JobRejected, SchedulerUnavailable):
                    found[folder] = self.scheduler.parse_submit(answer)
        return found

    async def status(self, ids: Sequence[str]) -> dict[str, JobStatus]:
        """Return what the queue says of jobs, by their numbers. The queue is queried after this call, so the answer is
        never older; calls that wait at the same time share one query.

        Raises:
            SchedulerUnavailable, TransportError: it says nothing.
        """
        if not ids:
            return {}
        self._ids.update(ids)
        if self._next is None:
            self._next = asyncio.ensure_future(self._ask())
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())  # all may have gone away
        found = await asyncio.shield(self._next)
        return {id: found[id] for id in ids if id in found}

    async def _ask(self) -> dict[str, JobStatus]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._asked_at + self.pause_s - loop.time()))
        ids, self._ids, self._next = sorted(self._ids), set(), None
        self._asked_at = loop.time()
        found = self.scheduler.parse_status(await self._transport.run(self.scheduler.status_command(ids)), ids)
        now = loop.time()
        self.told |= {id: (now, status) for id, status in found.items()}
        return found

    async def estimates(self, scripts: Mapping[str, str]) -> dict[str, float]:
        """Return in how many seconds jobs would start that were submitted now; without those of which the site does not
        say it.

        Args:
            scripts: the paths of their scripts there, by any key.

        Raises:
            TransportError: the site cannot be reached.
        """
        starts: dict[str, float] = {}
        if scripts:
            answer = await self._transport.run(
                batched([self.scheduler.estimate_command(each) for each in scripts.values()])
            )
            for key, each in zip(scripts, answers_of(answer), strict=False):
                with contextlib.suppress(JobRejected, SchedulerUnavailable):
                    if (start := self.scheduler.parse_estimate(each)) is not None:
                        starts[key] = start
        return starts

    async def limits(self) -> QueueLimits:
        """Return what the queue gives to jobs.

        Raises:
            TransportError: the site cannot be reached.
        """
        return self.scheduler.parse_limits(await self._transport.run(self.scheduler.limits_command()))

    async def known_limits(self) -> QueueLimits:
        """Return what the queue gives to jobs; none are known of a site that cannot be reached."""
        try:
            return await self.limits()
        except TransportError:
            return QueueLimits()

    async def cancel(self, ids: Iterable[str]) -> None:
        """Take jobs out of the queue, or end them.

        Raises:
            TransportError: the site cannot be reached.
        """
        if ids := list(ids):
            await self._transport.run(self.scheduler.cancel_command(ids))
            for id in ids:
                self.told.pop(id, None)

    async def wait_until_over(self, ids: Sequence[str], within_s: float) -> None:
        """Wait until jobs are over, not longer than for some time.

        Raises:
            TransportError: the site cannot be reached.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        pause = 0.05
        while ids and loop.time() < until:
            with contextlib.suppress(SchedulerUnavailable):
                if all(each.state.is_over for each in (await self.status(ids)).values()):
                    return
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def end_of(self, folder: str, status: JobStatus) -> JobEnd:
        """Return how a job has ended: by its own words if it left any, else by the queue's.

        Args:
            folder: of the job.
            status: what the queue says of it.
        """
        try:
            text = await self._transport.get_text(f"{folder}/{RESULT}")
            result = read_result(text) if text is not None else None
        except (TransportError, ValueError):
            result = None
        # A job that was told to end does not know why; its queue does.
        state = status.ends_as or status.state
        queue_knows = state in (JobState.WALLTIME_EXPIRED, JobState.NODE_FAILED, JobState.CANCELLED)
        if result is not None and not (result.phase == "stopped" and queue_knows):
            return _end_by_result(result)
        if not queue_knows and await self._is_full(folder):  # so it could not leave a word
            return JobEnd(f"it {no_room(folder)}")
        words = {
            JobState.WALLTIME_EXPIRED: WALLTIME_EXPIRED,
            JobState.NODE_FAILED: "its node failed",
            JobState.CANCELLED: "it was cancelled",
            JobState.GONE: "the queue does not know it any more",
        }
        said = words.get(state, f"the queue calls it {state.value}")
        return JobEnd(f"{said} ({status.reason})" if status.reason else said)

    async def last_words_of(self, folder: str) -> str:
        """Return the last line that a job has written to its standard error, if it can be read."""
        file = shlex.quote(f"{folder}/{STDERR}")
        try:
            # What srun says of a step that has failed comes after what the step itself has said.
            after = "'^srun: error: .*: Exited with exit code|^$'"
            said = await self._transport.run(f"tail -c 1000 {file} | grep -Ev {after} | tail -n 1")
        except TransportError:
            return ""
        return said.stdout.strip()

    async def _is_full(self, folder: str) -> bool:
        """Whether there is no room for a small file in a folder."""
        trial = f"{folder}/.room"
        try:
            await self._transport.put_text(trial, "x" * _SMALL_FILE)
            await self._transport.remove(trial)
        except RemoteFileError as error:
            return error.is_full
        except TransportError:
            return False
        return False


def no_room(folder: str) -> str:
    """Return in words that nothing can be written in a folder."""
    return f"cannot write in {folder}: the disk is full, or a quota"


def _end_by_result(result: JobResult) -> JobEnd:
    if result.phase in ("module", "setup"):
        what = "module" if result.phase == "module" else "line of its setup"
        why = f"the {what} {result.detail!r} failed on {result.host} with exit status {result.status}"
        return JobEnd(why, result, is_lasting=True)
    if result.phase == "walltime":
        return JobEnd(WALLTIME_EXPIRED, result)
    return JobEnd("" if result.phase == "command" else "it was ended from outside", result)


def noting(command: str, folders: Sequence[str]) -> str:
    """Return a command that submits, and notes what the queue has answered.

    Args:
        command: submits.
        folders: of the jobs that are submitted by it; each gets the same answer.
    """
    files = [shlex.quote(f"{folder}/{ANSWER}") for folder in folders]
    asking = "; ".join(f": > {file}" for file in files)
    answered = "; ".join(
        f"""printf '%s\\n' "$xmml_answer" > {file}.part && mv -f {file}.part {file}""" for file in files
    )
    refused = f"rm -f {' '.join(files)}"
    return (
        f"{asking}; xmml_answer=$({command}\n); xmml_status=$?; "
        f"if [ $xmml_status = 0 ]; then {answered}; else {refused}; fi; "
        """printf '%s\\n' "$xmml_answer"; exit $xmml_status"""
    )


def query_noted_ids(folders: Sequence[str]) -> str:
    """Return a command that tells what queues have answered about jobs, by their folders; `noted` reads its answer."""
    return batched([_ask(shlex.quote(f"{folder}/{ANSWER}")) for folder in folders])


def _ask(file: str) -> str:
    return (
        f"n=0; while [ -e {file} ] && [ ! -s {file} ] && [ $n -lt {ASKED_FOR_S * _PAUSES_PER_S} ]; "
        f"do sleep {1 / _PAUSES_PER_S:g}; n=$((n + 1)); done; "
        f"if [ -s {file} ]; then head -c 4096 {file}; else false; fi"
    )


def noted(answer: CommandResult) -> list[CommandResult | None]:
    """Return what the queue has answered about each job; `None`: it was never asked, or has not taken it."""
    return [each if each.status == 0 else None for each in answers_of(answer)]
