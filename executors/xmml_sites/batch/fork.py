"""A site without a batch system: a job is a process group in a session of its own, begun at once.

Its id is `host:process:start`: the start time (in the kernel's ticks) keeps a number that was used again from being
taken for the job, and the host tells when a login lands on another machine of the same name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from xmml_sites.batch.job_script import body, captured
from xmml_sites.batch.queue_limits import QueueLimits
from xmml_sites.batch.scheduler import (
    JobRejected,
    JobScript,
    JobState,
    JobStatus,
    NotSupported,
    ReservationRefused,
    ReservationRequest,
    ReservationState,
    SchedulerUnavailable,
    quoted,
)
from xmml_sites.ssh.command_result import CommandResult

#: How long a cancelled job may take before it is killed [s]; longer than its script takes to end it
#: (`job_script.GRACE_S`).
KILL_AFTER_S = 5

_STATES = {"running": JobState.RUNNING, "gone": JobState.GONE, "elsewhere": JobState.RUNNING}

#: `xmml_start PID` prints when a process started; nothing if there is none, or its end has only not been noticed yet.
START_OF = (
    'xmml_start() { [ -r "/proc/$1/stat" ] && '
    'sed -n "s/.*) \\([^ZX]\\)/\\1/p" "/proc/$1/stat" 2>/dev/null | cut -d " " -f 20; }; '
)
#: Takes an id in $1 apart and says whether its process is still that process.
_LOOK = (
    START_OF + "xmml_look() { host=${1%%:*}; rest=${1#*:}; pid=${rest%%:*}; start=${rest#*:}; "
    'if [ "$host" != "$(hostname)" ]; then found=elsewhere; '
    'elif [ "$(xmml_start "$pid")" = "$start" ]; then found=running; else found=gone; fi; }; '
)
_ID = re.compile(r"^([\w.-]+:\d+:\d+)$", re.MULTILINE)


class Fork:
    """Processes on the machine where the commands run."""

    name = "local"
    can_reserve = False
    has_heterogeneous_jobs = False

    def version_command(self) -> str:
        """What a site without a batch system must have."""
        return "bash --version | head -n 1; setsid --version"

    def parse_version(self, answer: CommandResult) -> str:
        """Says that there is no batch system."""
        if answer.status != 0:
            raise SchedulerUnavailable(f"bash or setsid is not there: {answer.said}")
        return "none"

    def render(self, job: JobScript) -> str:
        """The script, which also sees to the things that a batch system would: output, begin, time limit."""
        if job.is_held:
            raise NotSupported("a site without a batch system cannot hold a job")
        job = self.with_steps_started(job)
        lines = ["#!/bin/bash", captured(job.folder)]
        if job.starts_after_s > 0:
            lines.append(f"sleep {job.starts_after_s:.3f}")
        # In our own process group, so that it ends with us. Told to end, the script sees by the clock why.
        until = f"tail -f --pid={job.owner} /dev/null; {job.before_end}" if job.owner else f"sleep {_whole_s(job)}"
        lines.append(f"( trap - TERM; {until}; kill -TERM $$ ) &")
        if job.component:
            lines.append(f"export XMML_HET_GROUP={shlex.quote(job.component)}")
        return "\n".join(lines) + "\n" + body(job, last="kill -KILL 0  # nothing that the command left goes on")

    def asking_for(self, job: JobScript) -> list[str]:
        """Nothing to ask for."""
        return []

    def with_steps_started(self, job: JobScript) -> JobScript:
        """None: there is one node."""
        if job.steps:
            raise NotSupported("a site without a batch system has one node")
        return job

    def render_together(self, jobs: Sequence[JobScript]) -> str:
        """Not here."""
        raise NotSupported("a site without a batch system has no heterogeneous jobs")

    def submit_command(self, path: str) -> str:
        """Start the script in a session of its own; print its id."""
        return (
            START_OF + f"setsid /bin/bash -l {shlex.quote(path)} </dev/null >/dev/null 2>&1 & "
            'echo "$(hostname):$!:$(xmml_start $!)"'
        )

    def parse_submit(self, answer: CommandResult) -> str:
        """The id."""
        found = _ID.search(answer.stdout)
        if answer.status != 0 or not found:
            raise JobRejected(f"the job could not be started: {answer.said}")
        return found[1]

    def status_command(self, ids: Iterable[str]) -> str:
        """One line for each."""
        return _LOOK + f'for id in {quoted(ids)}; do xmml_look "$id"; echo "$id|$found"; done; echo complete'

    def parse_status(self, answer: CommandResult, ids: Iterable[str]) -> dict[str, JobStatus]:
        """Running or gone; nothing else is known."""
        if answer.status != 0 or not answer.stdout.rstrip().endswith("complete"):
            raise SchedulerUnavailable(f"the processes could not be looked at: {answer.said}")
        found = dict(line.split("|", 1) for line in answer.stdout.splitlines() if "|" in line)
        status = {}
        for id in ids:
            word = found.get(id, "gone")
            host = id.partition(":")[0]
            reason = f"it runs on {host}, the login led elsewhere" if word == "elsewhere" else ""
            state = _STATES[word]
            status[id] = JobStatus(state, reason=reason, nodes=host if state is JobState.RUNNING else "")
        return status

    def cancel_command(self, ids: Iterable[str]) -> str:
        """Terminate jobs, wait, and kill what is left of their process groups."""
        return (
            _LOOK
            + f'left=; for id in {quoted(ids)}; do xmml_look "$id"; '
            + '[ "$found" = elsewhere ] && { echo "$id runs on another machine than $(hostname)" >&2; continue; }; '
            + 'case $found in running) kill -TERM "$pid" 2>/dev/null;; *) continue;; esac; left="$left $pid"; done; '
            + f"end=$(($(date +%s) + {KILL_AFTER_S})); "
            + "for pid in $left; do "
            + 'while kill -s 0 -- "-$pid" 2>/dev/null && [ "$(date +%s)" -lt "$end" ]; do sleep 0.05; done; '
            + 'kill -s KILL -- "-$pid" 2>/dev/null; done; true'
        )

    def release_command(self, ids: Iterable[str]) -> str:
        """Nothing is ever held."""
        return "true"

    def estimate_command(self, path: str) -> str:
        """Nothing to ask."""
        return "true"

    def parse_estimate(self, answer: CommandResult) -> float | None:
        """At once."""
        return 0.0

    def reserve_command(self, wish: ReservationRequest) -> str:
        """Not here."""
        raise ReservationRefused("a site without a batch system has no reservations")

    def parse_reserve(self, answer: CommandResult, wish: ReservationRequest) -> str:
        """Not here."""
        raise ReservationRefused("a site without a batch system has no reservations")

    def reservation_command(self, id: str) -> str:
        """Not here."""
        return "true"

    def parse_reservation(self, answer: CommandResult) -> ReservationState:
        """There is none."""
        return ReservationState.GONE

    def unreserve_command(self, id: str) -> str:
        """Nothing to do."""
        return "true"

    def limits_command(self) -> str:
        """Nothing to ask."""
        return "true"

    def parse_limits(self, answer: CommandResult) -> QueueLimits:
        """There are none."""
        return QueueLimits()

    def free_command(self, partition: str) -> str:
        """Processors, and how busy they have been in the last minute."""
        # nproc counts no more than OpenMP may use, if that is limited.
        return "unset OMP_NUM_THREADS OMP_THREAD_LIMIT; nproc && cut -d ' ' -f 1 /proc/loadavg"

    def parse_free(self, answer: CommandResult) -> tuple[int, int] | None:
        """Processors less the load, rounded."""
        found = re.match(r"(\d+)\n([\d.]+)", answer.stdout)
        if answer.status != 0 or not found:
            return None
        cores = int(found[1])
        return max(0, cores - round(float(found[2]))), cores


def _whole_s(job: JobScript) -> int:
    """Return the time limit of a job in whole seconds."""
    return max(1, int(job.walltime_s))
