"""A plan in words, for people."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xmml.graphs.quantity_text import value_text
from xmml.units import Dimension
from xmml_planner.execution_plan import ConduitSpec, Expectation, FilterSpec, Job, Plan, PlannedInstance
from xmml_planner.sites.catalogue import Site
from xmml_planner.submissions import waiting_jobs

#: A placement is told to be best if the bound is no further from it than this: what rounding makes.
PROVEN = 2e-6


def summary(plan: Plan) -> str:
    """Return what the plan starts and how it is wired, several lines without a final line end."""
    cores = sum(job.cores for job in plan.jobs) or sum(instance.cores for instance in plan.instances)
    sites = ", ".join(dict.fromkeys(job.site for job in plan.jobs))
    size = (
        counted(sum(instance.rank_of is None for instance in plan.instances), "instance"),
        counted(cores, "core"),
        counted(len(plan.conduits), "conduit"),
    )
    lines = [f"{plan.model} on {sites}: {', '.join(size)}"]
    if plan.expected is not None:
        lines += [*_expected(plan.expected), "", "jobs", *_jobs(plan)]
    if plan.builds:
        lines += ["", "build"]
        at = [f", at {build.site}" if build.site else "" for build in plan.builds]
        lines += [
            f"  {build.command}   (for {', '.join(_folded(build.instances))}{where})"
            for build, where in zip(plan.builds, at, strict=True)
        ]
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
            [[f"  {conduit.name}", _room(conduit), _filters(conduit) or _select(conduit)] for conduit in plan.conduits]
        )
    if plan.routes:
        lines += ["", "between sites", *_routes(plan)]
    if plan.relays:
        lines += ["", "relays", *_relays(plan)]
    return "\n".join(line.rstrip() for line in lines)


def _expected(expected: Expectation) -> list[str]:
    ends = value_text(expected.makespan_s, Dimension.TIME)
    if not expected.is_complete:
        return [f"expected to run for more than {ends}: the prediction was given up there"]
    behind = 1 - expected.at_least_s / expected.makespan_s if expected.makespan_s else 0.0
    if behind <= PROVEN:
        lines = [f"expected to end {ends} after the launch; it is proven that no placement ends sooner"]
    else:
        least = value_text(expected.at_least_s, Dimension.TIME)
        sooner = f"{100 * behind:.2g} % sooner"
        lines = [f"expected to end {ends} after the launch; no placement ends before {least} ({sooner})"]
    if expected.cost:
        lines.append(f"expected to cost {expected.cost:.4g}")
    if expected.unknown:
        lines.append(f"counts as nothing, since nobody has given it: the run time of {', '.join(expected.unknown)}")
    if expected.guessed:
        lines.append(f"guessed, since no link is given: latency and bandwidth of {', '.join(expected.guessed)}")
    return lines


def _jobs(plan: Plan) -> list[str]:
    described = {site.name: site for site in plan.sites}
    waiting = waiting_jobs(plan)
    rows = [
        (
            "  job",
            "site",
            "group",
            "nodes",
            "cores/node",
            "memory/node",
            "GPUs/node",
            "starts",
            "ends",
            "asks for",
            "cost",
        )
    ]
    for job in plan.jobs:
        rows.append(
            (
                f"  {job.name}",
                f"{job.site} ({_how(described[job.site])})",
                job.group,
                str(job.nodes),
                str(job.cores_per_node),
                value_text(job.memory_per_node_bytes, Dimension.DATA) if job.memory_per_node_bytes else "-",
                str(job.gpus_per_node) if job.gpus_per_node else "-",
                value_text(job.starts_s, Dimension.TIME),
                value_text(job.ends_s, Dimension.TIME),
                _walltime(job, described[job.site], waits=job.name in waiting),
                f"{job.cost:.3g}" if job.cost else "-",
            )
        )
    lines = _table(rows)
    told = []
    for line, job in zip(lines[1:], plan.jobs, strict=True):
        after = f"   (after {', '.join(job.after)})" if job.after else ""
        told.append(line.rstrip() + after)
        told += [
            f"    {node}{': ' if node else ''}{', '.join(own) or 'nothing'}"
            for node, own in on_nodes(plan, job).items()
        ]
    return [lines[0], *told]


def _how(site: Site) -> str:
    """Return what starts programs at a site."""
    return site.scheduler if site.allocation is None else f"in job {site.allocation.job}"


def _walltime(job: Job, site: Site, *, waits: bool) -> str:
    if not site.submits_jobs:
        return "-"
    limit = value_text(job.walltime_s, Dimension.TIME) if job.walltime_s else "the default"
    has_room = site.walltime_s is None or job.walltime_s < site.walltime_s
    return f"{limit} + waiting" if waits and has_room else limit


def _routes(plan: Plan) -> list[str]:
    rows = [("  conduit", "way", "method", "latency", "bandwidth", "messages", "bytes")]
    for route in plan.routes:
        rows.append(
            (
                f"  {plan.by_conduit[route.conduit].name}",
                " - ".join(route.sites),
                route.method,
                value_text(route.latency_s, Dimension.TIME),
                rate_text(route.bandwidth),
                f"{route.messages:,}" if route.messages else "-",
                value_text(route.bytes, Dimension.DATA) if route.bytes else "-",
            )
        )
    return _table(rows)


def _relays(plan: Plan) -> list[str]:
    described = {site.name: site for site in plan.sites}
    rows = []
    for relay in plan.relays:
        site = described[relay.site]
        if not site.has_queue and not site.is_here:  # the launcher starts relays on login nodes only
            rows.append((f"  {relay.site}", "none", "its programs use that of this machine, through ssh"))
            continue
        # Which relay dials through the ssh connection to a site, the plan does not say.
        links = [
            f"dials {path.between[1]} at {path.address}" if path.address else f"linked to {path.between[1]} through ssh"
            for path in plan.paths
            if path.between[0] == relay.site
        ]
        rows.append((f"  {relay.site}", f"on {relay.host}" if relay.host else "", ", ".join(links)))
    return _table(rows)


def site_text(site: Site) -> str:
    """Return what a site is, in a few words."""
    words = [_how(site) if site.has_queue else "this machine" if site.is_here else "no queue"]
    words.append(f"{site.nodes} x {site.cores} cores" if site.nodes > 1 else f"{site.cores} cores")
    if site.gpus:
        words.append(f"{site.all_gpus} GPUs")
    if site.speed != 1:
        words.append(f"speed {site.speed:g}")
    return ", ".join(words)


def rate_text(rate: float) -> str:
    """Return a bandwidth in words."""
    return f"{value_text(rate, Dimension.DATA)}/s"


def folded(plan: Plan, names: Sequence[str]) -> Mapping[str, list[str]]:
    """Return names with the copies of one instance put together: `c[0..9]`, or `c (3 of 10)` if only some are there."""
    groups: dict[str, list[str]] = {}
    for name in names:
        instance = plan.by_name[name]
        groups.setdefault(instance.element if instance.count > 1 else name, []).append(name)
    found = {}
    for element, members in groups.items():
        count = plan.by_name[members[0]].count
        label = members[0] if len(members) == 1 else f"{element}[0..{count - 1}]"
        found[label if len(members) in (1, count) else f"{element} ({len(members)} of {count})"] = members
    return found


def on_nodes(plan: Plan, job: Job) -> Mapping[str, Mapping[str, PlannedInstance]]:
    """Return what runs on which node of a job, as one of the instances by the label of its copies.

    Neighbouring nodes with the same on them are put together: `nodes 1 to 3`. The only node of a job has an empty name.
    """
    if job.nodes <= 1:
        return {"": _labelled(plan, job.instances)}
    nodes: list[dict[str, int]] = [{} for _ in range(job.nodes)]
    for name in job.instances:
        for share in plan.by_name[name].shares:
            nodes[share.node][name] = share.ranks
    labelled = [_labelled(plan, list(ranks), ranks) for ranks in nodes]
    found = {}
    first = 0
    for node, own in enumerate(labelled):
        if node + 1 == job.nodes or labelled[node + 1].keys() != own.keys():
            found[f"node {node}" if first == node else f"nodes {first} to {node}"] = own
            first = node + 1
    return found


def _labelled(
    plan: Plan, names: Sequence[str], ranks: Mapping[str, int] = MappingProxyType({})
) -> dict[str, PlannedInstance]:
    found = {}
    for label, members in folded(plan, names).items():
        one = plan.by_name[members[0]]
        found[f"{label} ({counted(ranks[one.name], 'rank')})" if one.ranks > 1 and ranks else label] = one
    return found


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
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
    return f"{counted(instance.steps, 'step')}{f' of {instance.delta_s:g} s' if instance.delta_s else ''}"


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


def _room(conduit: ConduitSpec) -> str:
    pool = conduit.pool
    if pool is None:
        return f"capacity {conduit.capacity}"
    if pool.is_latest:
        return f"{pool.noun}, only the newest waits"
    return f"{pool.noun}, at most {value_text(conduit.byte_budget, Dimension.DATA)} wait"


def _select(conduit: ConduitSpec) -> str:
    """Return the selector of a pool, with the values of its variables behind it."""
    if conduit.pool is None:
        return ""
    values = ", ".join(f"${name} {value}" for name, value in conduit.pool.variables.items())
    return conduit.pool.select + (f"  ({values})" if values else "")


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
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
