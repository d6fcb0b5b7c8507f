"""The allocation in which this process runs: what the batch system says of the nodes of its job.

The environment names the job; what it has on each node, `scontrol` and `qstat` tell.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from xmml_planner.sites.allocation import AllocatedNode, Allocation

from xmml_sites.batch import qstat_text
from xmml_sites.batch.scheduler import SchedulerUnavailable
from xmml_sites.ssh.command_result import CommandResult

#: How long a batch system may take to answer.
ANSWERS_WITHIN_S = 60.0
#: Steps of Slurm from here on are none that srun has started (slurm.h, SLURM_MAX_NORMAL_STEP_ID).
SPECIAL_STEPS = 0xFFFFFFF0

Ask = Callable[[Sequence[str]], CommandResult]


def allocation_here(env: Mapping[str, str]) -> Allocation | None:
    """Return the allocation in which this process runs; `None`: it is in no job.

    Args:
        env: its environment.

    Raises:
        SchedulerUnavailable: the batch system does not say what the job has.
    """
    if "SLURM_JOB_ID" in env:
        return slurm_allocation(env, _answer_of, time.time())
    if "PBS_JOBID" in env and "PBS_NODEFILE" in env:
        return pbs_allocation(env, _answer_of, socket.gethostname(), time.time())
    return None


def copies_started(env: Mapping[str, str]) -> int:
    """Return how many processes like this one the launcher of a batch system or of MPI has started together."""
    if is_step(env):
        if "SLURM_PTY_PORT" in env and place_among_copies(env) == 0:
            return 1  # at the terminal of `srun --pty`, which only the first task has
        # What mpirun starts on another node is below its daemon there, in a step of one task.
        return max(int(env.get("SLURM_STEP_NUM_TASKS", 1)), int(env.get("OMPI_COMM_WORLD_SIZE", 1)))
    return int(env.get("OMPI_COMM_WORLD_SIZE", env.get("PMI_SIZE", 1)))


def is_step(env: Mapping[str, str]) -> bool:
    """Whether srun has started this process as a step of a job. What it starts without a program (`salloc`) is none."""
    return int(env.get("SLURM_STEP_ID", SPECIAL_STEPS)) < SPECIAL_STEPS


def place_among_copies(env: Mapping[str, str]) -> int:
    """Return which of them this process is, counted from 0."""
    return int(env.get("OMPI_COMM_WORLD_RANK", env.get("SLURM_PROCID", env.get("PMI_RANK", 0))))


def _answer_of(command: Sequence[str]) -> CommandResult:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWERS_WITHIN_S, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise SchedulerUnavailable(f"{command[0]} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise SchedulerUnavailable(f"{command[0]} has not answered within {ANSWERS_WITHIN_S:g} s") from None
    return CommandResult(done.returncode, done.stdout, done.stderr)


def _told(ask: Ask, *command: str) -> str:
    answer = ask(command)
    if answer.status != 0:
        raise SchedulerUnavailable(f"{' '.join(command)}: {answer.said}")
    return answer.stdout


# --- Slurm ----------------------------------------------------------------------------------------------------------

_COMPONENT = re.compile(r"^JobId=\d+(?: HetJobId=\d+ HetJobOffset=(\d+))?", re.MULTILINE)
_NODES = re.compile(r"^\s+Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)", re.MULTILINE)
_GPUS = re.compile(r"\bgpu(?::[^:(,]+)?:(\d+)")


def slurm_allocation(env: Mapping[str, str], ask: Ask, now: float) -> Allocation:
    """Return the allocation of a Slurm job, or of a step of it that srun has started.

    Args:
        ask: runs a command and returns its answer.
        now: in seconds since 1970.

    Raises:
        SchedulerUnavailable: Slurm does not say what the job has.
    """
    job = env["SLURM_JOB_ID"]
    told = _told(ask, "scontrol", "show", "job", "-d", job)
    nodes = [node for text in re.split(r"\n\n+", told) for node in _nodes_of(text, env, ask)]
    if not nodes:
        raise SchedulerUnavailable(f"scontrol show job -d {job} names no nodes")
    step = env["SLURM_STEP_ID"] if is_step(env) else ""
    if step:
        hosts = _told(ask, "scontrol", "show", "hostnames", env["SLURM_STEP_NODELIST"]).split()
        nodes = [node for node in nodes if node.host in hosts]
    if step and len(nodes) == 1:
        own = int(env["SLURM_CPUS_ON_NODE"]), int(env.get("SLURM_GPUS_ON_NODE", 0))
        nodes = [replace(nodes[0], cores=own[0], gpus=own[1])]
    ends_at = _ends_at(told)
    return Allocation(
        scheduler="slurm",
        job=job,
        step=step,
        nodes=tuple(nodes),
        launch_host=env.get("SLURMD_NODENAME", ""),
        cluster=env.get("SLURM_CLUSTER_NAME", ""),
        partition=env.get("SLURM_JOB_PARTITION", ""),
        submit_host=env.get("SLURM_SUBMIT_HOST", ""),
        ends_at=ends_at,
        ends_in_s=None if ends_at is None else max(1.0, ends_at - now),
    )


def _nodes_of(text: str, env: Mapping[str, str], ask: Ask) -> Iterator[AllocatedNode]:
    """Yield the nodes of a job, or of a component, from what `scontrol show job -d` says of it."""
    found = _COMPONENT.search(text)
    component = int(found[1] or 0) if found else 0
    for names, cpus, memory, gres in _NODES.findall(text):
        hosts = _told(ask, "scontrol", "show", "hostnames", names).split()
        cores = sum(_counted(each) for each in cpus.split(","))
        memories = _memories(hosts, cores, int(memory), env, ask)
        gpus = sum(map(int, _GPUS.findall(gres)))
        yield from (AllocatedNode(host, cores, memories[host], gpus, component) for host in hosts)


def _counted(numbers: str) -> int:
    """Return how many numbers `3` or `0-3` are."""
    first, _, last = numbers.partition("-")
    return int(last or first) - int(first) + 1


def _memories(
    hosts: Sequence[str], cores: int, megabytes: int, env: Mapping[str, str], ask: Ask
) -> Mapping[str, int | None]:
    """Return what a job may use of the memory of its nodes: what it has been given, else, where Slurm gives no memory,
    what it has asked for, else all that the node has."""
    asked = int(env.get("SLURM_MEM_PER_NODE", 0)) or cores * int(env.get("SLURM_MEM_PER_CPU", 0))
    if megabytes or asked:
        return dict.fromkeys(hosts, (megabytes or asked) * 2**20)
    told = _told(ask, "scontrol", "show", "node", "-o", ",".join(hosts))
    found = dict(re.findall(r"^NodeName=(\S+).*? RealMemory=(\d+)", told, re.MULTILINE))
    return {host: int(found[host]) * 2**20 if int(found.get(host, 0)) > 1 else None for host in hosts}


def _ends_at(text: str) -> float | None:
    """Return when a job has to end, in seconds since 1970; `None`: at any time, or not known."""
    found = re.search(r" EndTime=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", text)
    limit = re.search(r" TimeLimit=(\S+)", text)
    if not found or (limit and limit[1] == "UNLIMITED"):
        return None
    return datetime.fromisoformat(found[1]).timestamp()  # Slurm tells the local time


# --- PBS --------------------------------------------------------------------------------------------------------------

_SIZES = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40}


def pbs_allocation(env: Mapping[str, str], ask: Ask, host: str, now: float) -> Allocation:
    """Return the allocation of a job of PBS, in either dialect.

    Args:
        ask: runs a command and returns its answer.
        host: the name of this machine.
        now: in seconds since 1970.

    Raises:
        SchedulerUnavailable: PBS does not say what the job has.
    """
    job = env["PBS_JOBID"]
    try:
        lines = Path(env["PBS_NODEFILE"]).read_text(encoding="utf-8").split()
    except OSError as error:
        raise SchedulerUnavailable(
            f"the file of nodes {env['PBS_NODEFILE']} cannot be read: {error.strerror}"
        ) from None
    if not lines:
        raise SchedulerUnavailable(f"the file of nodes {env['PBS_NODEFILE']} is empty")
    is_torque = "PBS_NUM_PPN" in env or env.get("PBS_VERSION", "").startswith("TORQUE")
    facts = qstat_text.facts(_told(ask, "qstat", "-f", job))
    has = _of_hosts(facts)
    # One line for each core with Torque, for each rank of MPI with OpenPBS.
    of_rank = 1 if is_torque else max(1, int(env.get("NCPUS", 1)) // max(1, lines.count(lines[0])))
    nodes = [
        AllocatedNode(each, *has.get(_short(each), (lines.count(each) * of_rank, None, 0)))
        for each in dict.fromkeys(lines)
    ]
    left_s = _pbs_left_s(facts)
    return Allocation(
        scheduler="pbs",
        dialect="torque" if is_torque else "openpbs",
        job=job,
        nodes=tuple(nodes),
        launch_host=next((node.host for node in nodes if _short(node.host) == _short(host)), ""),
        partition=env.get("PBS_QUEUE", ""),
        submit_host=env.get("PBS_O_HOST", ""),
        ends_at=None if left_s is None else now + left_s,
        ends_in_s=left_s,
    )


def _short(host: str) -> str:
    return host.partition(".")[0]


def _of_hosts(facts: Mapping[str, str]) -> Mapping[str, tuple[int, int | None, int]]:
    """Return cores, memory and GPUs of a job by the short name of the host, as OpenPBS tells them."""
    chunks = re.findall(r"\(([^)]*)\)", facts.get("exec_vnode", ""))
    hosts = [each.partition("/")[0] for each in facts.get("exec_host", "").split("+")]
    if len(chunks) != len(hosts):
        return {}
    found: dict[str, tuple[int, int | None, int]] = {}
    for host, chunk in zip(map(_short, hosts), chunks, strict=True):
        cores, memory, gpus = found.get(host, (0, 0, 0))
        cores += sum(map(int, re.findall(r":ncpus=(\d+)", chunk)))
        gpus += sum(map(int, re.findall(r":ngpus=(\d+)", chunk)))
        own = sum(int(number) * _SIZES[unit] for number, unit in re.findall(r":mem=(\d+)([kmgt]?b)", chunk))
        found[host] = cores, (memory + own) if memory is not None and own else None, gpus
    return found


def _pbs_left_s(facts: Mapping[str, str]) -> float | None:
    """Return how long a job may still run; `None`: not known."""
    if "Resource_List.walltime" not in facts:
        return None
    limit, used = (_seconds(facts.get(f"{each}.walltime", "0:0:0")) for each in ("Resource_List", "resources_used"))
    return max(1.0, limit - used)


def _seconds(text: str) -> float:
    hours, minutes, seconds = text.split(":")
    return 3600.0 * int(hours) + 60.0 * int(minutes) + int(seconds)
