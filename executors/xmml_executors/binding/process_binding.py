"""Binding the processes of a run on this machine to cores, so that two that are coupled never share one.

Two coupled processes on one core take turns: each message costs two switches between them, and the kernel, to which
the core looks half idle, leaves them there. What a process is bound to, no other run binds (`leases`). A run that gets
no cores of its own is not bound, and goes on all the same. Nor is one whose cores other programs use (`contention`),
unless the user has asked for it, or a batch system has given it its cores.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from xmml_planner import Plan, PlannedInstance
from xmml_planner.hosting import members
from xmml_planner.programs import MPI_LAUNCHER

from xmml.late_dataclass import dataclass
from xmml.run_options import BINDINGS, cpu_numbers
from xmml_executors.binding.assignment import Demand, Ties, assign
from xmml_executors.binding.contention import why_busy
from xmml_executors.binding.leases import CpuLeases, LeaseError
from xmml_executors.binding.topology import Core, cpu_limit, cpu_text, devices_folder, job_cpus, own_cpus, read_cores

#: What keeps the threads of a process on its cores, each on one, as at sites.
THREADS_STAY = {"OMP_PLACES": "cores", "OMP_PROC_BIND": "close"}
#: Have mpirun (OpenMPI to 4, OpenMPI from 5, Intel MPI) leave cores to the kernel: each binds its ranks to the first.
UNBOUND = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "I_MPI_PIN": "off",
}


class BindingError(Exception):
    """A binding that this machine cannot give; the text says why.

    Attributes:
        instance: that asks for it.
    """

    def __init__(self, instance: PlannedInstance, text: str) -> None:
        super().__init__(text)
        self.instance = instance


@dataclass(frozen=True)
class Binding:
    """What the processes of a run are bound to.

    Attributes:
        cpus: by process; none: it is bound to nothing.
        reason: why nothing is bound, if that is worth a word.
        is_asked_for: the user asked for a binding.
        is_watched: it lasts only as long as no other program uses the cores.
        launchers: processes that are MPI launchers.
    """

    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    reason: str = ""
    is_asked_for: bool = False
    is_watched: bool = False
    launchers: frozenset[str] = frozenset()

    def variables(self, process: str) -> dict[str, str]:
        """Return what is added to the environment of a process, unless the user has set it."""
        if not self.cpus.get(process):
            return {}
        found = {**THREADS_STAY, **(UNBOUND if process in self.launchers else {})}
        return {name: value for name, value in found.items() if name not in os.environ}


def check_bindings(plan: Plan) -> None:
    """Check that this machine has what the instances of a plan ask for.

    Raises:
        BindingError: it has not.
    """
    asking = [each for each in _started_here(plan, ()).values() if _bind_of(each) not in ("", "none")]
    ours = own_cpus()
    for instances in asking:
        missing = set(_listed(instances)) - set(ours)
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            text = f"{_cpus(missing)} {verb} not there, or not for this process, which may use {_cpus(ours)}"
            raise BindingError(instances[0], text)
    for wanted in dict.fromkeys(map(_bind_of, asking)):
        own = [instances for instances in asking if _bind_of(instances) == wanted]
        needed = sum(each.cores for instances in own for each in instances)
        there = _listed(own[0]) or ours
        if needed > len(there):
            text = f"{_processes(len(own), needed)}, and {_there(len(there))}: {_cpus(there)}"
            raise BindingError(own[0][0], text)


def bind(plan: Plan, by_hand: Collection[str], leases: CpuLeases) -> Binding:
    """Choose cores for the processes of a run, and lease them.

    Args:
        plan: with the instances of this machine only.
        by_hand: instances that somebody else starts.
    """
    started = _started_here(plan, by_hand)
    demands = [_demand(name, instances) for name, instances in started.items() if _bind_of(instances) != "none"]
    is_asked_for = any(_bind_of(instances) not in ("", "none") for instances in started.values())
    if not is_asked_for and len(demands) < 2:
        return Binding()
    launchers = frozenset(
        name for name, instances in started.items() if os.path.basename(instances[0].command[0]) == MPI_LAUNCHER
    )
    # These bind their ranks themselves, to the first cores, which are kept free for them.
    unaided = frozenset(name for name in launchers if not _bind_of(started[name]))
    try:
        is_watched = not is_asked_for and job_cpus() is None
        _check_machine(demands, is_watched)
        cpus, reason = _leased(demands, unaided, _ties(plan, started), leases), ""
    except _NotBound as error:
        cpus, reason = {}, str(error)
        is_watched = False
    return Binding(cpus, reason, is_asked_for, is_watched, launchers)


class _NotBound(Exception):
    """Why no process of a run is bound."""


def _check_machine(demands: Sequence[Demand], may_be_busy: bool) -> None:
    """Look whether this machine has cores for processes, whoever has leased them.

    Args:
        may_be_busy: nobody has given us these cores: other programs may use them.

    Raises:
        _NotBound: it has not.
    """
    ours = own_cpus()
    needed = sum(demand.cores for demand in demands)
    text = _processes(len(demands), needed)
    if needed > len(ours):
        raise _NotBound(f"{text}, and {_there(len(ours))}")
    limit = cpu_limit()
    if limit is not None and needed > limit:
        raise _NotBound(f"{text}, and the control group of this run has the time of {limit:g}")
    of_job = job_cpus()
    if of_job is not None and of_job != len(ours):
        raise _NotBound(f"the job has {of_job} CPUs of this node, and the batch system does not say which")
    if may_be_busy and (busy := why_busy()):
        raise _NotBound(f"this machine is busy: {busy}")


def _leased(
    demands: Sequence[Demand], unaided: Collection[str], ties: Ties, leases: CpuLeases
) -> dict[str, tuple[int, ...]]:
    """Choose and lease cores, and return those of each process but the `unaided` ones.

    Raises:
        _NotBound: too few are free.
    """
    ours = own_cpus()
    cores = read_cores(devices_folder(), ours)
    demands = _with_first_cores(demands, unaided, cores)
    try:
        with leases.choosing(cpu for core in cores for cpu in core.siblings) as free:
            whole = [core for core in cores if free.issuperset(core.siblings)]
            threads = [thread for core in cores for thread in core.threads() if thread.cpus[0] in free]
            found = assign(whole, demands, ties) or assign(threads, demands, ties)
            leases.keep([cpu for own in (found or {}).values() for core in own for cpu in core.siblings])
    except LeaseError as error:
        raise _NotBound(str(error)) from None
    if found is None:
        text = _processes(len(demands), sum(demand.cores for demand in demands))
        taken = sorted(set(ours) - free)
        if not taken:
            raise _NotBound(f"{text}, and too few CPUs are left for some of them")
        holders = ", ".join(map(str, leases.holders(taken)))
        raise _NotBound(f"{text}; other runs have leased {_cpus(taken)}" + (f" (process {holders})" if holders else ""))
    return {
        name: tuple(sorted(cpu for core in own for cpu in core.cpus))
        for name, own in found.items()
        if name not in unaided
    }


def _with_first_cores(demands: Sequence[Demand], names: Collection[str], cores: Sequence[Core]) -> list[Demand]:
    """Return demands of which these have the first cores of the machine together."""
    count = sum(demand.cores for demand in demands if demand.name in names)
    first = sorted(cores, key=lambda core: core.cpus)[:count]
    cpus = tuple(sorted(cpu for core in first for cpu in core.cpus))
    return [replace(demand, cpus=cpus) if demand.name in names else demand for demand in demands]


def _processes(count: int, cores: int) -> str:
    who = "1 process needs" if count == 1 else f"{count} processes need"
    return f"{who} {cores} core{'s' * (cores != 1)}"


def _there(count: int) -> str:
    return "there is 1" if count == 1 else f"there are {count}"


def _cpus(cpus: Collection[int]) -> str:
    return f"CPU{'s' * (len(cpus) != 1)} {cpu_text(cpus)}"


def _started_here(plan: Plan, by_hand: Collection[str]) -> dict[str, Sequence[PlannedInstance]]:
    """Return the processes that are started, each with its instances."""
    own = {each.name: (each,) for each in plan.instances if each.process is None and each.rank_of is None}
    return {name: alone for name, alone in own.items() if name not in by_hand} | dict(members(plan))


def _bind_of(instances: Sequence[PlannedInstance]) -> str:
    """Return what a process is bound to; instances that share one differ in `none` only, which then does not count."""
    return next((each.bind for each in instances if each.bind != "none"), "none")


def _listed(instances: Sequence[PlannedInstance]) -> tuple[int, ...]:
    wanted = _bind_of(instances)
    return () if wanted in ("", *BINDINGS) else cpu_numbers(wanted)


def _demand(name: str, instances: Sequence[PlannedInstance]) -> Demand:
    wanted = _bind_of(instances)
    cores = sum(each.cores for each in instances)
    says_how_many = cores > len(instances)
    return Demand(name, cores, not says_how_many and wanted != "core", wanted == "numa", _listed(instances))


def _ties(plan: Plan, started: Mapping[str, Sequence[PlannedInstance]]) -> Counter[tuple[str, str]]:
    process_of = {each.name: process for process, instances in started.items() for each in instances}
    process_of |= {each.name: process_of[each.rank_of] for each in plan.instances if each.rank_of in process_of}
    ties: Counter[tuple[str, str]] = Counter()
    for conduit in plan.conduits:
        one, other = process_of.get(conduit.sender), process_of.get(conduit.receiver)
        if one is not None and other is not None and one != other:
            ties[min(one, other), max(one, other)] += 1
    return ties
