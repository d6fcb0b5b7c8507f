"""A plan in words, for people."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence

from xmml_planner.execution_plan import ConduitSpec, FilterSpec, Plan, PlannedInstance


def summary(plan: Plan) -> str:
    """Return what the plan starts and how it is wired, several lines without a final line end."""
    cores = sum(instance.cores for instance in plan.instances)
    sites = ", ".join(dict.fromkeys(job.site for job in plan.jobs))
    size = (
        _count(sum(instance.rank_of is None for instance in plan.instances), "instance"),
        _count(cores, "core"),
        _count(len(plan.conduits), "conduit"),
    )
    lines = [f"{plan.model} on {sites}: {', '.join(size)}"]
    if plan.builds:
        lines += ["", "build"]
        lines += [f"  {build.command}   (for {', '.join(_folded(build.instances))})" for build in plan.builds]
    lines += ["", "start"]
    lines += _table(
        [
            [f"  {_copies(group)}", _time(group[0]), _command(group[0], plan.model_folder)]
            for group in _groups(plan.instances)
        ]
    )
    if plan.conduits:
        lines += ["", "wire"]
        lines += _table(
            [[f"  {conduit.name}", f"capacity {conduit.capacity}", _filters(conduit)] for conduit in plan.conduits]
        )
    return "\n".join(line.rstrip() for line in lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _groups(instances: Sequence[PlannedInstance]) -> list[list[PlannedInstance]]:
    """Return the instances with the copies of one together."""
    groups: dict[str, list[PlannedInstance]] = {}
    for instance in instances:
        if instance.rank_of is not None:
            continue
        groups.setdefault(instance.element if instance.count > 1 else instance.name, []).append(instance)
    return list(groups.values())


def _copies(group: Sequence[PlannedInstance]) -> str:
    return group[0].name if len(group) == 1 else f"{group[0].element}[0..{len(group) - 1}]"


def _folded(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name.partition("[")[0] for name in names))


def _time(instance: PlannedInstance) -> str:
    if instance.kind != "submodel":
        return instance.kind
    if instance.until:
        return f"until it stops{f', at most {instance.steps} steps' if instance.steps else ''}"
    return f"{_count(instance.steps, 'step')}{f' of {instance.delta_s:g} s' if instance.delta_s else ''}"


def _command(instance: PlannedInstance, folder: str) -> str:
    hosted = instance.env.get("XMML_HOST")
    if hosted is not None:
        what = json.loads(hosted)
        return (
            "inline code"
            if "code" in what
            else next(f"{kind} {what[kind]}" for kind in ("class", "mapper", "terminal", "filter") if kind in what)
        )
    words = [os.path.relpath(word, folder) if word == instance.program else word for word in instance.command]
    if os.path.basename(words[0]).startswith("python"):
        words[0] = os.path.basename(words[0])
    return shlex.join(words)


def _filters(conduit: ConduitSpec) -> str:
    def chain(filters: Sequence[FilterSpec]) -> str:
        return ", ".join(each.name if each.factor is None else f"{each.name} {each.factor:g}" for each in filters)

    parts = []
    if conduit.sender_filters:
        parts.append(f"{chain(conduit.sender_filters)} at {conduit.sender}")
    if conduit.receiver_filters:
        parts.append(f"{chain(conduit.receiver_filters)} at {conduit.receiver}")
    return "; ".join(parts)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
