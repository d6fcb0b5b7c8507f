"""PBS, by its commands, in two dialects: OpenPBS (and PBS Professional) and Torque.

OpenPBS is tested on answers that OpenPBS 23.06.06 gave, and with a server of it where one is installed; Torque on its
documentation only.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from xmml_sites.batch import qstat_text
from xmml_sites.batch.job_script import all_steps, body, captured
from xmml_sites.batch.queue_limits import PARTITION, Limits, QueueLimits
from xmml_sites.batch.scheduler import (
    CLOCK,
    JobRejected,
    JobScript,
    JobState,
    JobStatus,
    NotSupported,
    ReservationRefused,
    ReservationRequest,
    ReservationState,
    SchedulerUnavailable,
    hours_minutes_seconds,
    quoted,
)
from xmml_sites.ssh.command_result import CommandResult

#: What qstat calls a state (PBS Reference Guide, "Job States"; Torque's qstat(1B)). F and C are told apart by how it
#: ended.
STATES = {
    "B": JobState.RUNNING,
    "C": JobState.ENDED,
    "E": JobState.ENDING,
    "F": JobState.ENDED,
    "H": JobState.HELD,
    "M": JobState.GONE,
    "Q": JobState.WAITING,
    "R": JobState.RUNNING,
    "S": JobState.RUNNING,
    "T": JobState.WAITING,
    "U": JobState.RUNNING,
    "W": JobState.WAITING,
    "X": JobState.ENDED,
}

#: Exit statuses below zero are the server's (PBS Reference Guide, "Job Exit Status Codes"); -29 and Torque's -11: the
#: time limit.
_OUT_OF_TIME = {-29, -11}
_NODE_FAILED = {-4, -5, -6, -12, -14, -15, -18, -21}
#: 256 plus a signal: somebody ended it.
_SIGNALLED = 256

#: qstat's exit status for a job that it does not know, or knows from its history only.
_UNKNOWN = {35, 153}
_UNAVAILABLE = re.compile(
    r"cannot connect|connection refused|timed out|no route|end of file|batch protocol error|: (?:command )?not found$|"
    r"premature end of message|could not connect|server shutting down|munge",
    re.IGNORECASE | re.MULTILINE,
)
_CLOCK = re.compile(r"(\d+) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\n")
_JOB_ID = re.compile(r"^(\d+(?:\[\])?(?:\.\S+)?)\s*$", re.MULTILINE)
_RESERVATION_STATES = {
    "UNCONFIRMED": ReservationState.ASKED,
    "CONFIRMED": ReservationState.CONFIRMED,
    "WAIT": ReservationState.ASKED,
    "TIME_TO_RUN": ReservationState.ACTIVE,
    "RUNNING": ReservationState.ACTIVE,
}


class Pbs:
    """PBS on the machine where the commands run."""

    name = "pbs"
    has_heterogeneous_jobs = False

    def __init__(self, dialect: str = "openpbs") -> None:
        if dialect not in ("openpbs", "torque"):
            raise ValueError(f"{dialect!r} is no dialect of PBS; there are openpbs and torque")
        self.is_torque = dialect == "torque"
        self.can_reserve = not self.is_torque

    def version_command(self) -> str:
        """The client's version, and whether the server answers."""
        return "qstat --version 2>&1 && qstat -B -f"

    def parse_version(self, answer: CommandResult) -> str:
        """For example `OpenPBS 23.06.06`."""
        found = re.search(r"(?:pbs_version =|[Vv]ersion:)\s*(\S+)", answer.stdout)
        if not found:
            raise SchedulerUnavailable(f"the qstat of PBS is not there: {answer.said}")
        name = f"{'Torque' if self.is_torque else 'OpenPBS'} {found[1]}"
        if answer.status != 0:
            raise SchedulerUnavailable(f"{name} is there, but its server does not answer: {answer.said}")
        return name

    def render(self, job: JobScript) -> str:
        """The script, with its options as `#PBS` lines."""
        options = [
            f"-N {job.name[:15]}",
            # PBS brings what a script prints only after its end, when nobody may be there any more to read it.
            "-o /dev/null",
            "-e /dev/null",
            "-r n",  # a job that comes back alone, without its partners, is of no use
            "-S /bin/bash",
            f"-l walltime={hours_minutes_seconds(job.walltime_s)}",
            self._resources(job),
        ]
        if job.reservation or job.partition:  # a reservation is a queue
            options.append(f"-q {job.reservation or job.partition}")
        options += [f"-A {job.account}"] if job.account else []
        options += [f"-W x=QOS:{job.qos}" if self.is_torque else f"-l qos={job.qos}"] if job.qos else []
        options += ["-h"] if job.is_held else []
        options += job.options
        lines = ["#!/bin/bash -l", *(f"#PBS {option}" for option in options)]
        return "\n".join([*lines, *_begin(job), captured(job.folder), body(self.with_steps_started(job))])

    def asking_for(self, job: JobScript) -> list[str]:
        """`#PBS` lines."""
        return [f"#PBS {self._resources(job)}"]

    def _resources(self, job: JobScript) -> str:
        memory = math.ceil(job.memory / 2**20)
        if self.is_torque:
            words = f"-l nodes={job.nodes}:ppn={job.cores}" + (f":gpus={job.gpus}" if job.gpus else "")
            return words + (f" -l mem={memory * job.nodes}mb" if memory else "")
        chunk = f"{job.nodes}:ncpus={job.cores}:mpiprocs={job.cores // job.task_cores}"
        chunk += (f":mem={memory}mb" if memory else "") + (f":ngpus={job.gpus}" if job.gpus else "")
        return f"-l select={chunk}" + (" -l place=scatter" if job.nodes > 1 else "")

    def with_steps_started(self, job: JobScript) -> JobScript:
        """Steps of PBS.

        On other nodes than the first PBS starts them, which then knows and ends them, or ssh where its command is
        missing. They get the environment by a file.
        """
        if not job.steps:
            return job
        lines = [
            f"xmml_nodes=({quoted(job.hosts)})"
            if job.hosts
            else """xmml_nodes=($(awk '!seen[$0]++' "$PBS_NODEFILE")) || exit $?""",
            'export XMML_NODES="${xmml_nodes[*]}"',
            '{ export -p; umask -p; } > "$xmml_folder/environment"',
        ]
        if self.is_torque:
            lines.append('xmml_on() { pbsdsh -o -h "$1" /bin/bash "$2"; }')
        else:
            lines += [
                "if command -v pbs_tmrsh >/dev/null; then xmml_at=pbs_tmrsh; else xmml_at='ssh -o BatchMode=yes'; fi",
                'xmml_on() { $xmml_at "$1" /bin/bash "$2"; }',
            ]
        starts = []
        for step in job.steps:
            if step.node == 0:
                starts.append(f"bash -c {shlex.quote(step.command)}")
                continue
            file = f'"$xmml_folder/node-{step.node}.sh"'
            text = (
                f". {shlex.quote(f'{job.folder}/environment')}; cd {shlex.quote(job.folder)} || exit 72; {step.command}"
            )
            lines.append(f"printf '%s\\n' {shlex.quote(text)} > {file}")
            starts.append(f'xmml_on "${{xmml_nodes[{step.node}]}}" {file}')
        return replace(job, command="\n".join([*lines, all_steps(job, starts)]))

    def render_together(self, jobs: Sequence[JobScript]) -> str:
        """Not here."""
        raise NotSupported("PBS has no heterogeneous jobs")

    def submit_command(self, path: str) -> str:
        """`qsub`; a later begin, which the script states, is computed with the site's clock."""
        script = shlex.quote(path)
        return (
            f"xmml_after=$(sed -n 's/^# begin-after \\([0-9]*\\)$/\\1/p' {script} | head -n 1); "
            'qsub ${xmml_after:+-a "$(date -d "+$xmml_after seconds" +%Y%m%d%H%M.%S)"} ' + script
        )

    def parse_submit(self, answer: CommandResult) -> str:
        """The id, with the server's name."""
        if answer.status != 0:
            if _UNAVAILABLE.search(answer.stderr):
                raise SchedulerUnavailable(f"qsub: {answer.said}")
            raise JobRejected(f"PBS does not take the job: {answer.said.removeprefix('qsub: ')}")
        found = _JOB_ID.search(answer.stdout)
        if not found:
            raise SchedulerUnavailable(f"qsub gave no job id: {answer.said}")
        return found[1]

    def status_command(self, ids: Iterable[str]) -> str:
        """One qstat for all of them, also those that have ended, as long as the server remembers them."""
        ask = f"qstat -f {quoted(ids)}"
        if self.is_torque:
            return f"{CLOCK}; {ask}"
        # Without a history, as OpenPBS comes, a server answers nothing to -x, also of jobs that run.
        return (
            f"{CLOCK}; xmml_jobs=$(qstat -x -f {quoted(ids)}); xmml_status=$?; "
            f'case $xmml_jobs in "Job Id:"*) ;; *) xmml_jobs=$({ask}); xmml_status=$? ;; esac; '
            'printf "%s\\n" "$xmml_jobs"; (exit $xmml_status)'
        )

    def parse_status(self, answer: CommandResult, ids: Iterable[str]) -> dict[str, JobStatus]:
        """The status of each; the name of the server in an id does not matter."""
        if answer.status not in (0, *_UNKNOWN) or (answer.status == 153 and _UNAVAILABLE.search(answer.stderr)):
            raise SchedulerUnavailable(f"qstat: {answer.said}")
        now, text = _clock(answer.stdout)
        jobs = qstat_text.jobs(text)
        if text.strip() and not jobs:
            raise SchedulerUnavailable(f"qstat's answer is not understood: {text.strip()[:200]!r}")
        numbers = {id.partition(".")[0]: job for id, job in jobs.items()}
        found = {}
        for id in ids:
            job = jobs.get(id, numbers.get(id.partition(".")[0]))
            found[id] = JobStatus(JobState.GONE) if job is None else _status(job, now)
        return found

    def cancel_command(self, ids: Iterable[str]) -> str:
        """`qdel`, one after the other: it stops at the first that it does not know."""
        return f'for id in {quoted(ids)}; do qdel "$id" 2>/dev/null; done; true'

    def release_command(self, ids: Iterable[str]) -> str:
        """`qrls`."""
        return f"qrls {quoted(ids)}"

    def estimate_command(self, path: str) -> str:
        """PBS estimates submitted jobs only (`JobStatus.starts_in_s`)."""
        return "true"

    def parse_estimate(self, answer: CommandResult) -> float | None:
        """Not known."""
        return None

    def reserve_command(self, wish: ReservationRequest) -> str:
        """`pbs_rsub`, which any user may ask in OpenPBS."""
        if self.is_torque:
            raise ReservationRefused("Torque leaves reservations to its scheduler; name an existing one")
        start = f'"$(date -d @{wish.starts_at} +%Y%m%d%H%M.%S)"'
        chunk = f"select={wish.nodes}:ncpus={wish.cores}"
        place = " -l place=scatter" if wish.nodes > 1 else ""
        return (
            f"pbs_rsub -N {shlex.quote(wish.name[:15])} -R {start} -D {hours_minutes_seconds(wish.duration_s)} "
            f"-l {shlex.quote(chunk)}{place}"
        )

    def parse_reserve(self, answer: CommandResult, wish: ReservationRequest) -> str:
        """The name of the queue that stands for it."""
        found = re.search(r"^([RS]\d+)\S*\s+(\w+)", answer.stdout, re.MULTILINE)
        if answer.status != 0 or not found or found[2] == "DENIED":
            if _UNAVAILABLE.search(answer.stderr):
                raise SchedulerUnavailable(f"pbs_rsub: {answer.said}")
            raise ReservationRefused(f"PBS does not reserve {wish.nodes} nodes for {wish.user}: {answer.said}")
        return found[1]

    def reservation_command(self, id: str) -> str:
        """`pbs_rstat`."""
        return f"pbs_rstat -f {shlex.quote(id)}"

    def parse_reservation(self, answer: CommandResult) -> ReservationState:
        """From `reserve_state`; a state that ends it is `GONE`."""
        if _UNAVAILABLE.search(answer.stderr):
            raise SchedulerUnavailable(f"pbs_rstat: {answer.said}")
        found = re.search(r"reserve_state = RESV_(\w+)", answer.stdout)
        return _RESERVATION_STATES.get(found[1], ReservationState.GONE) if found else ReservationState.GONE

    def unreserve_command(self, id: str) -> str:
        """`pbs_rdel`."""
        return f"pbs_rdel {shlex.quote(id)}"

    def limits_command(self) -> str:
        """What the server says of itself and of its queues."""
        return "qstat -B -f; qstat -Q -f"

    def parse_limits(self, answer: CommandResult) -> QueueLimits:
        """From `resources_max` and `resources_default` of the queues that are open. Those of the server hold where a
        queue has none of its own; one that it has counts even if it is larger."""
        server, *texts = re.split(r"^Queue: ", answer.stdout, flags=re.MULTILINE)
        of_server = _facts(server)
        common = {key: value for key, value in of_server.items() if key.startswith("resources_")}
        queues = {text.partition("\n")[0].strip(): {**common, **_facts(text)} for text in texts}
        return QueueLimits(
            tuple(_queue_limits(name, facts) for name, facts in queues.items() if facts.get("enabled") != "False"),
            default=of_server.get("default_queue", ""),
        )

    def free_command(self, partition: str) -> str:
        """What the nodes have and what is taken of it."""
        return "pbsnodes -a" if self.is_torque else "pbsnodes -a -F json"

    def parse_free(self, answer: CommandResult) -> tuple[int, int] | None:
        """The processors of nodes that work; Torque says too little."""
        if answer.status != 0 or self.is_torque:
            return None
        try:
            nodes = json.loads(answer.stdout, strict=False)["nodes"].values()
        except (ValueError, KeyError, AttributeError):
            return None
        free = total = 0
        for node in nodes:
            all_of_it = int(node.get("resources_available", {}).get("ncpus", 0))
            total += all_of_it
            if node.get("state") in ("free", "job-busy"):
                free += max(0, all_of_it - int(node.get("resources_assigned", {}).get("ncpus", 0)))
        return free, total


def _facts(text: str) -> dict[str, str]:
    return dict(re.findall(r"^[ \t]+(\S+) = (.*)$", text, re.MULTILINE))


def _queue_limits(name: str, facts: Mapping[str, str]) -> Limits:
    longest_s = _time_s(facts.get("resources_max.walltime"))
    nodes = facts.get("resources_max.nodect", facts.get("resources_max.nodes", ""))
    return Limits(
        PARTITION,
        name,
        word="queue",
        default_s=_time_s(facts.get("resources_default.walltime")) or longest_s,
        longest_s=longest_s,
        nodes=_whole(nodes),
        cores=_whole(facts.get("resources_max.ncpus")),
        memory_bytes=_size(facts.get("resources_max.mem")),
        gpus=_whole(facts.get("resources_max.ngpus")),
    )


def _time_s(text: str | None) -> float | None:
    found = re.fullmatch(r"(?:(\d+):)?(\d+):(\d+)", text or "")
    return float(3600 * int(found[1] or 0) + 60 * int(found[2]) + int(found[3])) if found else None


def _size(text: str | None) -> int | None:
    """Return bytes of `64gb`; words (`w`) are of eight bytes."""
    found = re.fullmatch(r"(\d+)([kmgtp]?)([bw]?)", (text or "").lower())
    return (
        int(found[1]) * 2 ** (10 * " kmgtp".index(found[2] or " ")) * (8 if found[3] == "w" else 1) if found else None
    )


def _begin(job: JobScript) -> list[str]:
    return [f"# begin-after {math.ceil(job.starts_after_s)}"] if job.starts_after_s > 0 else []


def _clock(text: str) -> tuple[datetime | None, str]:
    """The site's local time, if it stands before the answer, and the answer."""
    found = _CLOCK.match(text)
    return (datetime.fromisoformat(found[2]), text[found.end() :]) if found else (None, text)


def _status(job: Mapping[str, str], now: datetime | None) -> JobStatus:
    state = STATES.get(job.get("job_state", ""), JobState.RUNNING)
    exit_status = _whole(job.get("Exit_status", job.get("exit_status")))
    reason = job.get("comment", "")
    if state is JobState.ENDED:
        state = _how_it_ended(exit_status, reason)
    return JobStatus(
        state,
        reason=reason,
        can_never_run=state is JobState.WAITING and reason.startswith("Can Never Run"),
        starts_in_s=_expected(job.get("estimated.start_time", ""), now) if state is JobState.WAITING else None,
        nodes=re.sub(r"/\d+(\*\d+)?", "", job.get("exec_host", "")),
        exit_status=exit_status,
    )


def _how_it_ended(status: int | None, comment: str) -> JobState:
    if status in _OUT_OF_TIME or "exceeded resource walltime" in comment:
        return JobState.WALLTIME_EXPIRED
    if status in _NODE_FAILED:
        return JobState.NODE_FAILED
    if "terminated by" in comment or (status is not None and status > _SIGNALLED):
        return JobState.CANCELLED
    return JobState.FAILED if status else JobState.ENDED


def _expected(start_time: str, now: datetime | None) -> float | None:
    if now is None:
        return None
    try:
        start = datetime.strptime(start_time, "%a %b %d %H:%M:%S %Y")
    except ValueError:
        return None
    return max(0.0, (start - now).total_seconds())


def _whole(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
