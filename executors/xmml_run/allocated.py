"""What the command line does with the allocation of the job in which it runs."""

from __future__ import annotations

import contextlib
import math
import os
import socket
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xmml_executors.outcome import ExitStatus
from xmml_executors.peers import user_of
from xmml_planner import NoPlan, Plan, plan

from xmml.graphs.quantity_text import value_text
from xmml.model import Model
from xmml.units import Dimension

if TYPE_CHECKING:
    from xmml_planner.problems import NodesWanted
    from xmml_planner.sites import SiteCatalogue
    from xmml_planner.sites.allocation import Allocation

#: Names the job, in the environment of Slurm and of PBS.
JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID")
#: More cores than any model needs.
PLENTY = 1 << 20
#: Names that are tried where other users have taken those of a claim.
MOST_NAMES = 16
#: Held by this process for the allocations that it has claimed.
_claims: list[socket.socket] = []


class AllocationProblem(Exception):
    """The nodes of the job cannot be used; the text says why, and what to do.

    Attributes:
        exit_status: that the command returns.
    """

    def __init__(self, text: str, exit_status: ExitStatus) -> None:
        super().__init__(text)
        self.exit_status = exit_status


def allocation_of(options: Namespace) -> Allocation | None:
    """Return the allocation whose nodes are to be used; `None`: there is none, or it is not wanted.

    Raises:
        AllocationProblem: the batch system does not say what the job has, or has started several copies of us.
    """
    if not job_of_this_process():
        return None
    if options.no_allocation or options.model.endswith(".json") or getattr(options, "by_hand", None):
        return None
    from xmml_sites.batch import SchedulerUnavailable
    from xmml_sites.batch.allocation import allocation_here, copies_started, place_among_copies

    if (copies := copies_started(os.environ)) > 1:
        # Of many copies of one line the user wants to see one.
        text = (
            f"it was started {copies} times, by srun or mpirun: start it once, without them, as the last line of the "
            "batch script; it starts the programs of the model on all nodes of the job itself"
        )
        raise AllocationProblem(text if place_among_copies(os.environ) == 0 else "", ExitStatus.USAGE)
    try:
        allocation = allocation_here(os.environ)
    except SchedulerUnavailable as error:
        raise AllocationProblem(
            f"what job {job_of_this_process()} has is not known: {error}; "
            "try again, or with --no-allocation run on this machine alone",
            ExitStatus.SITE_FAILED,
        ) from None
    if allocation is not None and getattr(options, "debug", None) and allocation.is_this_machine:
        return None  # a debugger needs the terminal
    return allocation


def job_of_this_process() -> str:
    """Return the id of the job in which this process runs; empty: it is in none."""
    return next((os.environ[name] for name in JOB_VARIABLES if os.environ.get(name)), "")


def claimed(allocation: Allocation) -> bool:
    """Claim an allocation for this process as long as it lives; return whether no other one of this user has. Each
    would count on all of its cores."""
    name = f"\0xmml-allocation-{os.getuid()}-{allocation.name}"
    for number in range(MOST_NAMES):
        if (is_ours := _claim(f"{name}-{number}")) is not None:
            return is_ours
    return True  # somebody else has all of the names, which means nothing


def _claim(name: str) -> bool | None:
    """Take a name for this process; return whether it has it. `None`: another user has, as anybody may."""
    with contextlib.ExitStack() as closing:
        claim = closing.enter_context(socket.socket(socket.AF_UNIX))
        try:
            claim.bind(name)
            claim.listen()
        except OSError:
            return False if _holder_of(name) == os.getuid() else None
        _claims.append(claim)
        closing.pop_all()
    return True


def _holder_of(name: str) -> int | None:
    """Return the user who listens under a name; `None`: nobody does."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.setblocking(False)
            asking.connect(name)
            return user_of(asking)
        except OSError:
            return None


def plan_in_allocation(model: Model, hosts: int | None, allocation: Allocation) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of a run on the nodes of an allocation, and what people have to know of it.

    Raises:
        ModelError: something cannot be started or wired.
        NoPlan: the model does not fit there.
        SolverMissing: the nodes differ, and OR-Tools, which then finds out who runs where, is not installed.
    """
    from xmml_planner.several_sites import plan_over_sites
    from xmml_planner.sites.allocation import allocation_catalogue

    used = f"{_sentence(allocation)}; --no-allocation uses this machine alone"
    catalogue = allocation_catalogue(allocation, _needs(model))
    try:
        return plan_over_sites(model, catalogue, hosts=hosts), (used,)
    except NoPlan as error:
        if allocation.is_this_machine and _lacks_cores_only(model, catalogue, hosts):
            wanted = f" of the {error.would_do.cores} that are wanted at the same time" if error.would_do else ""
            few = f"{allocation.name} has {_counted(allocation.nodes[0].cores, 'core')}{wanted}: programs share cores"
            return plan(model, hosts=hosts), (few + _advice(allocation, error.would_do),)
        raise NoPlan(f"{_sentence(allocation)}\n{error}{_advice(allocation, error.would_do)}") from None


def allocated_sites(catalogue: SiteCatalogue, allocation: Allocation) -> tuple[SiteCatalogue, tuple[str, ...]]:
    """Return the sites of a file with the nodes of an allocation in the place of the one at which they are, and what
    people have to know of that."""
    from xmml_planner.sites.allocation import with_allocation

    made, name = with_allocation(catalogue, allocation)
    if name is None:
        queued = [each.name for each in catalogue.sites.values() if each.scheduler == allocation.scheduler]
        if not queued:
            return made, ()
        cluster = f" of cluster {allocation.cluster}" if allocation.cluster else ""
        note = (
            f"the nodes of job {allocation.job}{cluster} are not used: it is at none of the sites {', '.join(queued)}, "
            "as far as their names, ssh destinations and partitions tell"
        )
        return made, (note,)
    note = f"site {name}: {_sentence(allocation)}; nothing is submitted there, unless you say --no-allocation"
    return made, (note,)


def _needs(model: Model) -> list[str]:
    """Return the software that programs of a model need."""
    used = [each.definition.implementation for each in model.instances.values()]
    return list(dict.fromkeys(need for each in used if each is not None for need in each.run.needs))


def _lacks_cores_only(model: Model, catalogue: SiteCatalogue, hosts: int | None) -> bool:
    """Whether a model would fit if there were more cores."""
    from xmml_planner.several_sites import plan_over_sites

    sites = {name: replace(site, cores=PLENTY) for name, site in catalogue.sites.items()}
    try:
        plan_over_sites(model, replace(catalogue, sites=sites), hosts=hosts)
    except NoPlan:
        return False
    return True


def _sentence(allocation: Allocation) -> str:
    """Return what a job has, in words."""
    kinds: dict[str, list[str]] = {}
    for node in allocation.nodes:
        has = [_counted(node.cores, "core")]
        if node.memory_bytes is not None:
            has.append(f"{value_text(node.memory_bytes, Dimension.DATA)} of memory")
        if node.gpus:
            has.append(_counted(node.gpus, "GPU"))
        kinds.setdefault(" and ".join(filter(None, (", ".join(has[:-1]), has[-1]))), []).append(node.host)
    told = [f"{_hosts(hosts)}{', each' if len(hosts) > 1 else ''} with {has}" for has, hosts in kinds.items()]
    return f"{allocation.name} has {'; '.join(told)}"


def _hosts(hosts: Sequence[str]) -> str:
    """Return the names of nodes, the first ones of many."""
    names = ", ".join(hosts if len(hosts) <= 4 else [*hosts[:3], "..."])
    return f"{len(hosts)} nodes ({names})" if len(hosts) > 1 else f"the node {names}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _advice(allocation: Allocation, would_do: NodesWanted | None) -> str:
    """Return the lines of a batch script with which a model would fit."""
    if would_do is None:
        return ""
    from xmml_sites.batch import JobScript, by_name

    # More on as many nodes as now, if that were too few: a cluster may have no more of them.
    nodes = min(would_do.nodes, len(allocation.nodes))
    share = math.ceil(would_do.nodes / nodes)
    asked = JobScript(
        "",
        "/",
        nodes=nodes,
        cores=share * would_do.cores,
        memory=share * would_do.memory_bytes,
        gpus=share * would_do.gpus,
    )
    lines = by_name(allocation.scheduler, allocation.dialect or "openpbs").asking_for(asked)
    return "\nin a batch script, these would do:\n" + "\n".join(f"  {line}" for line in lines)
