"""Which instances share a process.

What the runtime hosts (classes, inline code, built-ins, filters that are Python functions) needs no process of its
own, unless it may die alone (`run:on-death`): it runs as a thread beside others. There are as many such processes as
cores, and neighbours are put together, because what travels within a process costs least.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from xmml_planner.execution_plan import ConduitSpec, Job, Plan, PlannedInstance
from xmml_planner.programs import is_host_command

#: `run:host` of an instance that wants a process of its own.
OWN = "own"


def default_hosts() -> int:
    """The number of processes that instances share unless somebody asks for another: that of the cores."""
    return len(os.sched_getaffinity(0))


def share_processes(plan: Plan, hosts: int | None = None, apart: Collection[str] = ()) -> Plan:
    """Return the plan with instances put together into `hosts` processes; 0: each has its own.

    Instances that import modules from different folders are kept apart, since a process knows one module of a name: if
    there are more such groups than `hosts`, there is a process for each.

    Those of one process are on one node of their job.

    Args:
        plan: any plan; how it shared processes before does not matter.
        hosts: on each node; `None`: as many as cores of this machine, or of the job there.
        apart: instances that get a process of their own in any case.
    """
    processes: dict[str, str] = {}
    apart = plan.may_die.union(apart)
    for job in plan.jobs:
        wanted = _wanted(plan, job, hosts)
        members = set(job.instances) if len(plan.jobs) > 1 else None
        sharing = [
            each
            for each in plan.instances
            if wanted and can_share(each) and each.name not in apart and (members is None or each.name in members)
        ]
        for node in sorted({each.node for each in sharing}):
            groups = _by_folders(each for each in sharing if each.node == node)
            for group, count in zip(groups, _shares([len(group) for group in groups], wanted), strict=True):
                for part in _parts(_neighbours_together(group, plan.conduits), count):
                    if len(part) > 1:
                        name = f"hosts/{len(set(processes.values())) + 1}"
                        processes.update(dict.fromkeys(part, name))
    return dataclasses.replace(
        plan,
        instances=tuple(dataclasses.replace(each, process=processes.get(each.name)) for each in plan.instances),
    )


def _wanted(plan: Plan, job: Job, hosts: int | None) -> int:
    """Return how many processes the instances of a job share on each node: as many as it has cores there, at a site of
    a catalogue."""
    if hosts is not None:
        return hosts
    return job.cores_per_node or default_hosts()


def can_share(instance: PlannedInstance) -> bool:
    """Whether an instance can share a process: the runtime hosts it, and it wants nothing for itself."""
    return (
        is_host_command(instance.command)
        and instance.env.keys() == {"XMML_HOST"}
        and instance.cores == 1
        and instance.host != OWN
        and instance.bind in ("", "none")
    )


def _by_folders(instances: Iterable[PlannedInstance]) -> list[list[str]]:
    """Return the names of the instances by the folders that their modules come from; what imports none joins the
    largest group."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for instance in instances:
        groups.setdefault(tuple(json.loads(instance.env["XMML_HOST"]).get("path", ())), []).append(instance.name)
    without = groups.pop((), [])
    if not groups:
        return [without] if without else []
    max(groups.values(), key=len).extend(without)
    return list(groups.values())


def _shares(sizes: Sequence[int], total: int) -> list[int]:
    """Return how many processes each group gets: at least one, and of the rest always one to the most crowded."""
    shares = [1] * len(sizes)
    for _ in range(total - len(sizes) if sizes else 0):
        crowded = max(range(len(sizes)), key=lambda at: sizes[at] / shares[at])
        if shares[crowded] >= sizes[crowded]:
            break
        shares[crowded] += 1
    return shares


def _neighbours_together(names: Sequence[str], conduits: Iterable[ConduitSpec]) -> list[str]:
    """Return the names in an order in which those that exchange messages are near each other: breadth first along the
    conduits, in the order of the model where that leaves a choice."""
    partners: dict[str, dict[str, None]] = {name: {} for name in names}
    for conduit in conduits:
        if conduit.sender in partners and conduit.receiver in partners:
            partners[conduit.sender][conduit.receiver] = partners[conduit.receiver][conduit.sender] = None
    order: dict[str, None] = {}
    for first in names:
        queue = deque([first] if first not in order else [])
        while queue:
            name = queue.popleft()
            if name not in order:
                order[name] = None
                queue.extend(partner for partner in partners[name] if partner not in order)
    return list(order)


def _parts(names: Sequence[str], count: int) -> list[Sequence[str]]:
    """Cut a list into parts of equal length, as far as possible."""
    bounds = [len(names) * at // count for at in range(count + 1)]
    return [names[start:end] for start, end in pairwise(bounds)]


def members(plan: Plan) -> Mapping[str, Sequence[PlannedInstance]]:
    """Return the processes that are shared, each with its instances in the order of the plan."""
    found: dict[str, list[PlannedInstance]] = {}
    for instance in plan.instances:
        if instance.process is not None:
            found.setdefault(instance.process, []).append(instance)
    return found
