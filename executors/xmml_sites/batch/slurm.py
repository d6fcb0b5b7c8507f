"""Slurm, by its commands (known to work with 22.05). JSON is avoided: its shape changes from version to version."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from xmml_sites.batch.job_script import STDERR, STDOUT, all_steps, body, captured
from xmml_sites.batch.queue_limits import ACCOUNT, PARTITION, QOS, Limits, QueueLimits
from xmml_sites.batch.scheduler import (
    CLOCK,
    JobRejected,
    JobScript,
    JobState,
    JobStatus,
    ReservationRefused,
    ReservationRequest,
    ReservationState,
    SchedulerUnavailable,
    hours_minutes_seconds,
    quoted,
)
from xmml_sites.ssh.command_result import CommandResult

#: What squeue calls a state (man squeue, JOB STATE CODES).
STATES = {
    "PENDING": JobState.WAITING,
    "REQUEUED": JobState.WAITING,
    "REQUEUE_FED": JobState.WAITING,
    "REQUEUE_HOLD": JobState.HELD,
    "SPECIAL_EXIT": JobState.HELD,
    "RESV_DEL_HOLD": JobState.HELD,
    "CONFIGURING": JobState.RUNNING,
    "RUNNING": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "COMPLETING": JobState.ENDING,
    "STAGE_OUT": JobState.ENDING,
    "COMPLETED": JobState.ENDED,
    "FAILED": JobState.FAILED,
    "OUT_OF_MEMORY": JobState.FAILED,
    "LAUNCH_FAILED": JobState.FAILED,
    "RECONFIG_FAIL": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
    "REVOKED": JobState.CANCELLED,
    "PREEMPTED": JobState.CANCELLED,
    "TIMEOUT": JobState.WALLTIME_EXPIRED,
    "DEADLINE": JobState.WALLTIME_EXPIRED,
    "NODE_FAIL": JobState.NODE_FAILED,
    "BOOT_FAIL": JobState.NODE_FAILED,
}

#: Variables that srun takes for options of a step. In an allocation they hold the options of the whole job, and some
#: versions of srun would apply these to each step: an agent would have one core only.
FORGET_TASKS = (
    "unset SLURM_NTASKS SLURM_NPROCS ${!SLURM_NTASKS_PER_*} SLURM_CPUS_PER_TASK SLURM_CPUS_PER_GPU SLURM_TRES_PER_TASK "
    "SLURM_GPUS ${!SLURM_GPUS_PER_*} ${!SLURM_MEM_PER_*} SLURM_DISTRIBUTION SLURM_HINT SLURM_THREADS_PER_CORE "
    "SLURM_EXCLUSIVE SLURM_EXACT SLURM_EXPORT_ENV"
)

#: Reasons for which a pending job waits until somebody changes it or the site (man squeue, JOB REASON CODES).
HELD_REASONS = {"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "launch failed requeued held"}
NEVER_REASONS = {
    "AccountNotAllowed",
    "BadConstraints",
    "DependencyNeverSatisfied",
    "InvalidAccount",
    "InvalidQOS",
    "PartitionConfig",
    "PartitionTimeLimit",
    "QOSNotAllowed",
    "ReservationDeleted",
}
#: The same, of limits of an account (association) or a QOS on each job.
_NEVER = re.compile(r"(Assoc|QOS)Max\w*PerJob\w*|(Assoc|QOS)MaxWallDuration\w*|QOSMin\w+")
#: Limits that all jobs of a user, an account or a QOS share, and one that Slurm also names where nodes are down: the
#: job may have to wait only.
_PERHAPS_NEVER = re.compile(r"(Assoc|QOS)(Grp|Max)\w+|PartitionNodeLimit")
#: Nodes are in use, or do not work. squeue writes the last one with underscores.
_FOR_NODES = re.compile(r"Resources|ReqNodeNotAvail.*|Nodes.required.for.job.are.DOWN.*")

#: What the reason says of a job that is completing.
ENDING_REASONS = {"TimeLimit": JobState.WALLTIME_EXPIRED, "NodeDown": JobState.NODE_FAILED}

#: What is asked of sacctmgr, and how long it may take [s].
_QOS_FIELDS = ("Name", "MaxWall", "MaxTRES", "MaxTRESPerUser", "GrpTRES")
_ACCOUNT_FIELDS = ("Account", "DefaultQOS", "QOS", "MaxWall", "MaxTRES", "GrpTRES")
ACCOUNTING_S = 10.0
#: States of nodes on which no job starts until somebody has done something; a `*` marks those that do not answer.
_BROKEN = re.compile(r"down|drain|fail|error|maint|unk|.*\*$")

#: The daemon could not be asked: nothing is known about jobs.
_UNAVAILABLE = re.compile(
    r"unable to contact|connection refused|timed out|connect failure|communication|controller.*(down|standby)|"
    r"Zero Bytes were transmitted|Protocol authentication error|: (?:command )?not found$|"
    r"Resource temporarily unavailable",
    re.IGNORECASE | re.MULTILINE,
)
_UNKNOWN_JOB = "Invalid job id specified"
_ERROR = re.compile(r"^(?:sbatch|squeue|scontrol)?:?\s*(?:error:)?\s*", re.IGNORECASE)
_CLOCK = re.compile(r"(\d+) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\n")


class Slurm:
    """Slurm on the machine where the commands run."""

    name = "slurm"
    can_reserve = True
    has_heterogeneous_jobs = True

    def version_command(self) -> str:
        """The client's version, and whether the controller answers it."""
        return "sbatch --version && scontrol ping"

    def parse_version(self, answer: CommandResult) -> str:
        """For example `Slurm 22.05.8`."""
        found = re.search(r"slurm\S* (\d+\.\S+)", answer.stdout)
        if not found:
            raise SchedulerUnavailable(f"Slurm's sbatch is not there: {answer.said}")
        if " is UP" not in answer.stdout:
            raise SchedulerUnavailable(f"Slurm {found[1]} is there, but its controller does not answer: {answer.said}")
        return f"Slurm {found[1]}"

    def render(self, job: JobScript) -> str:
        """The script, with its options as `#SBATCH` lines."""
        return (
            "\n".join(["#!/bin/bash -l", *_common(job), *_resources(job)]) + "\n" + body(self.with_steps_started(job))
        )

    def render_together(self, jobs: Sequence[JobScript]) -> str:
        """A heterogeneous job: the script runs on the first part's first node and starts the other parts from there.

        Each part tells of itself in its own folder. `XMML_HET_GROUP` is its number, for `srun --het-group`.
        """
        first = jobs[0]
        lines = ["#!/bin/bash -l", *_common(first), *_resources(first)]
        for job in jobs[1:]:
            lines += ["#SBATCH hetjob", f"#SBATCH {_time(job)}", *_resources(job)]
        lines.append(FORGET_TASKS)
        for number, job in enumerate(jobs):
            end = f"XMML_PART_{number}"
            lines += [
                f"srun --het-group={number} --nodes=1 --ntasks=1 --ntasks-per-node=1 --overlap --kill-on-bad-exit=0"
                f" setsid --wait bash -l -c \"$(cat <<'{end}'",
                f"export XMML_HET_GROUP={number}",
                captured(job.folder),
                body(self.with_steps_started(job)).rstrip("\n"),
                end,
                ')" &',
            ]
        return "\n".join([*lines, "wait"]) + "\n"

    def asking_for(self, job: JobScript) -> list[str]:
        """`#SBATCH` lines."""
        return _resources(job)

    def with_steps_started(self, job: JobScript) -> JobScript:
        """Steps of srun.

        One that has cores has them to itself (`--exact`): without, the first one would have all, and the others would
        wait for its end. `--mem=0` leaves the memory of the job to all of them. What uses cores of others runs beside
        them, and without a step on the node on which the script runs.
        """
        if not job.steps:
            return job
        starts = []
        for step in job.steps:
            if step.node == 0 and not step.cores and job.starts_on_first_node:
                starts.append(f"bash -c {shlex.quote(step.command)}")
                continue
            options = [
                "${XMML_HET_GROUP:+--het-group=$XMML_HET_GROUP}",
                "--nodes=1",
                "--ntasks=1",
                f'--nodelist="${{xmml_nodes[{step.node}]}}"',
                f"--exact --cpus-per-task={step.cores}" if step.cores else "--overlap",
                "--mem=0",
                "--kill-on-bad-exit=0",
            ]
            if job.gpus and step.cores:
                options.append(f"--gres=gpu:{step.gpus}" if step.gpus else "--gres=none")
            starts.append(f"srun {' '.join(options)} bash -c {shlex.quote(step.command)}")
        nodes = [
            'xmml_nodelist="SLURM_JOB_NODELIST${XMML_HET_GROUP:+_HET_GROUP_$XMML_HET_GROUP}"',
            'xmml_nodes=($(scontrol show hostnames "${!xmml_nodelist}")) || exit $?',
        ]
        lines = [
            *([f"xmml_nodes=({quoted(job.hosts)})"] if job.hosts else nodes),
            'export XMML_NODES="${xmml_nodes[*]}"',
            FORGET_TASKS,
            all_steps(job, starts),
        ]
        return replace(job, command="\n".join(lines))

    def submit_command(self, path: str) -> str:
        """`sbatch --parsable`."""
        return f"sbatch --parsable {shlex.quote(path)}"

    def parse_submit(self, answer: CommandResult) -> str:
        """The id: `12`, or `12;cluster` where several clusters share one database."""
        _must_be_taken(answer)
        found = re.search(r"^(?:Submitted batch job )?(\d+)(;\S+)?$", answer.stdout, re.MULTILINE)
        if not found:
            raise SchedulerUnavailable(f"sbatch gave no job id: {answer.said}")
        return found[1]

    def status_command(self, ids: Iterable[str]) -> str:
        """One squeue for all of them, also those that have ended lately."""
        return f"{CLOCK}; squeue -h -t all -o '%i|%T|%r|%S|%N' -j {shlex.quote(','.join(ids))}"

    def parse_status(self, answer: CommandResult, ids: Iterable[str]) -> dict[str, JobStatus]:
        """One row for each job; a heterogeneous one has several, of which the most telling counts."""
        if answer.status != 0 and _UNKNOWN_JOB not in answer.stderr:
            raise SchedulerUnavailable(f"squeue: {answer.said}")
        now, text = _clock(answer.stdout)
        rows: dict[str, list[JobStatus]] = {}
        for line in text.splitlines():
            fields = line.split("|")
            if len(fields) == 5:
                rows.setdefault(re.split(r"[+_]", fields[0])[0], []).append(_status(*fields[1:], now=now))
        return {id: _together(rows.get(id, [])) for id in ids}

    def cancel_command(self, ids: Iterable[str]) -> str:
        """`scancel`, which is quiet about jobs that are over."""
        return f"scancel -Q {quoted(ids)}"

    def release_command(self, ids: Iterable[str]) -> str:
        """`scontrol release`."""
        return f"scontrol release {quoted(ids)}"

    def estimate_command(self, path: str) -> str:
        """`sbatch --test-only`, which any user may ask."""
        return f"{CLOCK}; sbatch --test-only {shlex.quote(path)}"

    def parse_estimate(self, answer: CommandResult) -> float | None:
        """From `Job N to start at T`; jobs that end before their time limit make it sooner."""
        now, _ = _clock(answer.stdout)
        found = re.search(r"to start at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", answer.stderr + answer.stdout)
        if found:
            return _in_seconds(found[1], now)
        _must_be_taken(answer)
        return None

    def reserve_command(self, wish: ReservationRequest) -> str:
        """`scontrol create reservation`; only operators may, at most sites."""
        words = [
            f"ReservationName={wish.name}",
            f"Duration={max(1, math.ceil(wish.duration_s / 60))}",
            f"Users={wish.user}",
            f"NodeCnt={wish.nodes}",
        ]
        if wish.partition:
            words.append(f"PartitionName={wish.partition}")
        if wish.idle_s is not None:
            words.append(f"Flags=PURGE_COMP={hours_minutes_seconds(wish.idle_s)}")
        start = f'StartTime="$(date -d @{wish.starts_at} +%Y-%m-%dT%H:%M:%S)"'
        return f"scontrol create reservation {quoted(words)} {start}"

    def parse_reserve(self, answer: CommandResult, wish: ReservationRequest) -> str:
        """Its name."""
        if answer.status != 0:
            if _UNAVAILABLE.search(answer.stderr):
                raise SchedulerUnavailable(f"scontrol: {answer.said}")
            raise ReservationRefused(f"Slurm does not reserve {wish.nodes} nodes for {wish.user}: {answer.said}")
        found = re.search(r"Reservation created: (\S+)", answer.stdout)
        return found[1] if found else wish.name

    def reservation_command(self, id: str) -> str:
        """`scontrol show reservation`."""
        return f"scontrol -o show reservation {shlex.quote(id)}"

    def parse_reservation(self, answer: CommandResult) -> ReservationState:
        """Slurm confirms at once or refuses."""
        if answer.status != 0:
            if _UNAVAILABLE.search(answer.stderr):
                raise SchedulerUnavailable(f"scontrol: {answer.said}")
            return ReservationState.GONE
        return ReservationState.ACTIVE if " State=ACTIVE" in answer.stdout else ReservationState.CONFIRMED

    def unreserve_command(self, id: str) -> str:
        """`scontrol delete`."""
        return f"scontrol delete ReservationName={shlex.quote(id)}"

    def limits_command(self) -> str:
        """The partitions with their nodes, and, with accounting, the associations of this user and all QOSs."""
        account = ",".join(_ACCOUNT_FIELDS)
        qos = ",".join(_QOS_FIELDS)
        return (
            "scontrol -o show partition; sinfo -h -e -o 'NODES|%R|%c|%m|%G|%D|%T'; "
            f'timeout {ACCOUNTING_S:.0f} sacctmgr -nP show assoc where user="$(id -un)" format={account} 2>/dev/null'
            f" | sed 's/^/ACCOUNT|/' && timeout {ACCOUNTING_S:.0f} sacctmgr -nP show qos format={qos} 2>/dev/null"
            " | sed 's/^/QOS|/'"
        )

    def parse_limits(self, answer: CommandResult) -> QueueLimits:
        """From the lines of all of them. Without a default time Slurm gives a job the longest one."""
        lines = answer.stdout.splitlines()
        partitions = [dict(re.findall(r"\b(\w+)=(\S*)", line)) for line in lines if line.startswith("PartitionName=")]
        rows = [line.split("|") for line in lines]
        nodes = [fields for kind, *fields in rows if kind == "NODES"]
        accounts, qos = (
            [
                dict(zip(names, fields, strict=True))
                for each, *fields in rows
                if each == kind and len(fields) == len(names)
            ]
            for kind, names in (("ACCOUNT", _ACCOUNT_FIELDS), ("QOS", _QOS_FIELDS))
        )
        own = next(iter(accounts), {})
        return QueueLimits(
            tuple(_partition_limits(each, nodes) for each in partitions),
            default=next((each["PartitionName"] for each in partitions if each.get("Default") == "YES"), ""),
            others=(
                *(_trackable_limits(ACCOUNT, each["Account"], each) for each in accounts),
                *(_trackable_limits(QOS, each["Name"], each) for each in qos),
            ),
            default_account=own.get("Account", ""),
            default_qos=own.get("DefaultQOS", ""),
        )

    def free_command(self, partition: str) -> str:
        """The processors of a partition by use; the partition that Slurm takes by default when none is named."""
        return f"sinfo -h -o '%P|%C' {'-p ' + shlex.quote(partition) if partition else ''}".rstrip()

    def parse_free(self, answer: CommandResult) -> tuple[int, int] | None:
        """From allocated/idle/other/total."""
        rows = re.findall(r"^([^|\s]+)\|(?:.*\|)?(\d+)/(\d+)/(\d+)/(\d+)$", answer.stdout, re.MULTILINE)
        if answer.status != 0 or not rows:
            return None
        chosen = [row for row in rows if row[0].endswith("*")] or rows
        return sum(int(row[2]) for row in chosen), sum(int(row[4]) for row in chosen)


def _common(job: JobScript) -> list[str]:
    """The options that hold for all of a job."""
    options = [
        f"--job-name={job.name}",
        f"--output={job.folder}/{STDOUT}",
        f"--error={job.folder}/{STDERR}",
        "--no-requeue",  # a job that comes back alone, without its partners, is of no use
        _time(job),
    ]
    options += [f"--begin=now+{math.ceil(job.starts_after_s)}"] if job.starts_after_s > 0 else []
    options += ["--hold"] if job.is_held else []
    return [f'#SBATCH "{option}"' if " " in option else f"#SBATCH {option}" for option in options]


def _time(job: JobScript) -> str:
    return f"--time={hours_minutes_seconds(job.walltime_s)}"


def _resources(job: JobScript) -> list[str]:
    """The options that each part of a heterogeneous job has for itself."""
    tasks = job.cores // job.task_cores
    options = [f"--nodes={job.nodes}", f"--ntasks-per-node={tasks}", f"--cpus-per-task={job.task_cores}"]
    options += [f"--mem={math.ceil(job.memory / 2**20)}M"] if job.memory else []
    options += [f"--gres=gpu:{job.gpus}"] if job.gpus else []
    for option, value in [
        ("partition", job.partition),
        ("account", job.account),
        ("qos", job.qos),
        ("reservation", job.reservation),
    ]:
        options += [f"--{option}={value}"] if value else []
    return [f"#SBATCH {option}" for option in (*options, *job.options)]


def _must_be_taken(answer: CommandResult) -> None:
    if answer.status == 0:
        return
    if _UNAVAILABLE.search(answer.stderr):
        raise SchedulerUnavailable(f"sbatch: {answer.said}")
    raise JobRejected(f"Slurm does not take the job: {_ERROR.sub('', answer.said)}")


def _clock(text: str) -> tuple[tuple[int, datetime] | None, str]:
    """The site's clock, if it stands before the answer, and the answer."""
    found = _CLOCK.match(text)
    if not found:
        return None, text
    return (int(found[1]), datetime.fromisoformat(found[2])), text[found.end() :]


def _in_seconds(moment: str, now: tuple[int, datetime] | None) -> float | None:
    """How far a local time of the site lies ahead; `None` for `N/A` or where the site's clock is not known."""
    if now is None:
        return None
    try:
        return max(0.0, (datetime.fromisoformat(moment) - now[1]).total_seconds())
    except ValueError:
        return None


def _duration(text: str) -> float | None:
    """Return `[days-]hours:minutes:seconds` or `minutes:seconds` in seconds; `None` for `infinite` and `n/a`."""
    found = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", text)
    if not found:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _partition_limits(facts: Mapping[str, str], node_rows: Iterable[Sequence[str]]) -> Limits:
    """Return the limits of a partition.

    Args:
        facts: as `scontrol show partition` tells them.
        node_rows: of all partitions: name, processors, memory in MiB, devices, number of nodes, state.
    """
    name = facts["PartitionName"]
    nodes = [row for row in node_rows if len(row) == 6 and row[0] == name]
    counts = [each for each in (_whole(facts.get("MaxNodes")), _whole(facts.get("TotalNodes"))) if each is not None]
    node_cores = [_whole(facts.get("MaxCPUsPerNode")), max((int(row[1]) for row in nodes), default=None)]
    longest_s = _duration(facts.get("MaxTime", ""))
    return Limits(
        PARTITION,
        name,
        default_s=_duration(facts.get("DefaultTime", "")) or longest_s,
        longest_s=longest_s,
        nodes=min(counts, default=None),
        node_cores=min((each for each in node_cores if each is not None), default=None),
        node_memory_bytes=max((int(row[2]) * 2**20 for row in nodes), default=None),
        node_gpus=max((_gpus(row[3]) for row in nodes), default=None),
        accounts=_names(facts.get("AllowAccounts", "")),
        qos=_names(facts.get("AllowQos", "")),
        working_nodes=sum(int(row[4]) for row in nodes if not _BROKEN.match(row[5])) if nodes else None,
    )


def _trackable_limits(kind: str, name: str, facts: Mapping[str, str]) -> Limits:
    """Return the limits of an association or a QOS: of those on a job, on a user and on all together the least."""

    def least(resource: str) -> int | None:
        found = [
            _amount(match[1])
            for field in ("MaxTRES", "MaxTRESPerUser", "GrpTRES")
            if (match := re.search(rf"(?:^|,){resource}=([^,]+)", facts.get(field, "")))
        ]
        return min(found, default=None)

    return Limits(
        kind,
        name,
        longest_s=_duration(facts.get("MaxWall", "")),
        nodes=least("node"),
        cores=least("cpu"),
        memory_bytes=least("mem"),
        gpus=least("gres/gpu"),
        qos=_names(facts.get("QOS", "")),
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _names(text: str) -> tuple[str, ...]:
    return () if text in ("", "ALL", "N/A") else tuple(text.split(","))


def _gpus(devices: str) -> int:
    """Return how many GPUs `gpu:a100:4(S:0-1),gpu:2` are."""
    return sum(int(count) for count in re.findall(r"\bgpu:(?:[^:,()]+:)?(\d+)", devices))


def _amount(text: str) -> int:
    """Return `8` or `64G` as a whole number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)", text)
    return int(float(found[1]) * 2 ** (10 * " KMGTP".index(found[2] or " "))) if found else 0


def _status(state: str, reason: str, start: str, nodes: str, *, now: tuple[int, datetime] | None) -> JobStatus:
    known = STATES.get(state, JobState.RUNNING)
    if known is JobState.WAITING and reason in HELD_REASONS:
        known = JobState.HELD
    waits = known is JobState.WAITING
    is_never = reason in NEVER_REASONS or _NEVER.fullmatch(reason) is not None
    return JobStatus(
        known,
        reason="" if reason == "None" else reason,
        can_never_run=waits and is_never,
        may_never_run=waits and not is_never and _PERHAPS_NEVER.fullmatch(reason) is not None,
        waits_for_nodes=waits and _FOR_NODES.fullmatch(reason) is not None,
        starts_in_s=_in_seconds(start, now) if waits else None,
        nodes=nodes,
        ends_as=ENDING_REASONS.get(reason) if known is JobState.ENDING else None,
    )


#: Of the parts of a job the first of these tells how it stands.
_TELLING = [
    JobState.NODE_FAILED,
    JobState.WALLTIME_EXPIRED,
    JobState.FAILED,
    JobState.CANCELLED,
    JobState.HELD,
    JobState.WAITING,
    JobState.RUNNING,
    JobState.ENDING,
    JobState.ENDED,
]


def _together(parts: Sequence[JobStatus]) -> JobStatus:
    """Return the status of the part that tells most. One that can never start tells more than any other that waits."""

    def rank(part: JobStatus) -> tuple[int, bool]:
        state = JobState.HELD if part.can_never_run else part.state
        return _TELLING.index(state), not part.can_never_run

    return min(parts, key=rank, default=JobStatus(JobState.GONE))
