"""From a placement to jobs: what is submitted where, how large, for how long, together with which others.

What runs at one site and belongs to one group is a job. Groups share a job at a site without a queue, where nothing is
gained by waiting; if the later one begins so soon that a job of its own is not worth it; and if they only have room
together by using the same cores one after the other: an instance waits at its end until those that it sends to have
taken what is theirs, so a job cannot wait for the cores of another one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xmml.late_dataclass import dataclass
from xmml_planner.execution_plan import ConduitSpec, Job, NodeShare, PlannedInstance
from xmml_planner.placement.layout import Layout, lay_out
from xmml_planner.placement.prediction import SECOND_NS, Prediction, Predictor
from xmml_planner.placement.search import GroupTimes, group_times
from xmml_planner.ranks import RANK_MARK
from xmml_planner.sites.catalogue import Site

#: A job asks for this much more time than it is expected to take, since estimates are estimates ...
MARGIN = 1.5
#: ... and for starting, waiting for others, and collecting [s].
START_UP_S = 600.0
#: What begins so much later than another job at the same site gets a job of its own [s].
WORTH_A_JOB_S = 600.0


@dataclass(frozen=True)
class _Share:
    """Groups that are one job at a site."""

    site: Site
    groups: tuple[int, ...]


def jobs_of(
    predictor: Predictor,
    prediction: Prediction,
    instances: Sequence[PlannedInstance],
    conduits: Sequence[ConduitSpec],
) -> tuple[tuple[Job, ...], tuple[PlannedInstance, ...]]:
    """Return the jobs in the order in which they begin, and the instances with what they have of their nodes."""
    times = group_times(predictor, prediction)
    wanted = predictor.demands
    shares = _shares(predictor, times)
    process_of = {process.name: process.index for process in predictor.network.processes}
    for conduit in conduits:  # a filter that runs by itself belongs to what it filters
        sender = conduit.sender.partition(RANK_MARK)[0]
        if conduit.receiver.partition(RANK_MARK)[0] not in process_of and sender in process_of:
            process_of[conduit.receiver] = process_of[sender]
    by_site: dict[str, int] = {}
    for share in shares:
        by_site[share.site.name] = by_site.get(share.site.name, 0) + 1
    numbers: dict[str, int] = {}
    made: list[tuple[_Share, Job]] = []
    places: dict[str, tuple[NodeShare, ...]] = {}
    for share in shares:
        site = share.site.name
        numbers[site] = numbers.get(site, 0) + 1
        name = site if by_site[site] == 1 else f"{site}-{numbers[site]}"
        members = tuple(
            each.name
            for each in instances
            if each.rank_of is None
            and each.site == site
            and wanted.group_of[wanted.unit_of[process_of[each.name]]] in share.groups
        )
        layout = _layout(predictor, prediction, share)
        for member in members:
            own = layout.shares[process_of[member]]
            is_in_network = predictor.network.processes[process_of[member]].name == member
            places[member] = own if is_in_network else (NodeShare(own[0].node),)
        made.append((share, _job(predictor, share, name, members, layout, [times[group] for group in share.groups])))
    named = {(share.site.name, group): job.name for share, job in made for group in share.groups}
    jobs = [replace(job, after=_after(predictor, share, job, named)) for share, job in made]
    waiting = tuple(
        _with_time_to_wait(job, share.site, jobs, predictor) for (share, _), job in zip(made, jobs, strict=True)
    )
    return waiting, tuple(replace(each, shares=places.get(each.name, ())) for each in instances)


def _with_time_to_wait(job: Job, site: Site, jobs: Sequence[Job], predictor: Predictor) -> Job:
    """Let a job ask for the time that the queues of those take that come after it: its instances may have to wait for
    them, if they are asked for too late because a run time was foretold too long."""
    sites = predictor.ways.catalogue.sites
    if not job.walltime_s:
        return job
    waits = [
        sites[each.site].queue_wait_s or 0.0
        for each in jobs
        if job.name in each.after and sites[each.site].submits_jobs
    ]
    longest_s = site.walltime_s or float("inf")
    return replace(job, walltime_s=max(job.walltime_s, min(longest_s, job.walltime_s + max(waits, default=0.0))))


def _after(predictor: Predictor, share: _Share, job: Job, named: dict[tuple[str, int], str]) -> tuple[str, ...]:
    earlier = {one for one, other in predictor.demands.before if other == min(share.groups)}
    return tuple(dict.fromkeys(name for (_, group), name in named.items() if group in earlier and name != job.name))


def _shares(predictor: Predictor, times: Sequence[GroupTimes]) -> list[_Share]:
    found: list[_Share] = []
    for site in predictor.ways.catalogue.sites.values():
        groups = [number for number, each in enumerate(times) if site.name in each.sites]
        if not groups:
            continue
        if site.submits_jobs and sum(times[group].sites[site.name] for group in groups) <= site.all_cores:
            found += [_Share(site, together) for together in _at_once(groups, times, site.name)]
        else:
            found.append(_Share(site, tuple(groups)))
    return sorted(found, key=lambda share: (min(times[group].begins_ns for group in share.groups), share.groups[0]))


def _at_once(groups: Sequence[int], times: Sequence[GroupTimes], site: str) -> list[tuple[int, ...]]:
    """Return the groups at a site put together: each that needs no cores, or begins soon after another, joins it."""
    found: list[list[int]] = []
    for group in sorted(groups, key=lambda number: (times[number].begins_ns, number)):
        soon = found and times[group].begins_ns - times[found[-1][0]].begins_ns < WORTH_A_JOB_S * SECOND_NS
        if found and (soon or not times[group].sites[site]):
            found[-1].append(group)
        else:
            found.append([group])
    return [tuple(each) for each in found]


def _layout(predictor: Predictor, prediction: Prediction, share: _Share) -> Layout:
    wanted, network = predictor.demands, predictor.network
    here = {
        unit: [process for process in wanted.units[unit].processes if prediction.sites[process] == share.site.name]
        for group in share.groups
        for unit in wanted.groups[group].units
    }

    def neighbours(process: int) -> Iterator[int]:
        own = network.processes[process]
        yield from (network.channels[channel].sender for channel in own.inputs)
        yield from (network.channels[channel].receiver for channel in own.outputs)

    return lay_out(wanted, share.groups, here, share.site, neighbours)


def _job(
    predictor: Predictor,
    share: _Share,
    name: str,
    members: tuple[str, ...],
    layout: Layout,
    times: Sequence[GroupTimes],
) -> Job:
    site, wanted = share.site, predictor.demands
    units = [unit for group in share.groups for unit in wanted.groups[group].units]
    cores = min(site.all_cores, max(1, sum(each.sites[site.name] for each in times)))
    begins = min(each.begins_ns for each in times) / SECOND_NS
    ends = max(each.ends_ns for each in times) / SECOND_NS
    is_there = site.allocation is not None  # it has what it has, whatever is needed of it
    return Job(
        name=name,
        site=site.name,
        instances=members,
        nodes=site.nodes if is_there else layout.nodes,
        cores_per_node=site.cores if is_there else layout.cores,
        memory_per_node_bytes=(site.memory_bytes or 0) if is_there else layout.memory_bytes,
        gpus_per_node=site.gpus if is_there else layout.gpus,
        walltime_s=_walltime(predictor, site, units, ends - begins),
        starts_s=begins,
        ends_s=ends,
        group=f"group-{min(share.groups) + 1}",
        cost=cores * (ends - begins) / 3600 * site.cost,
    )


def _walltime(predictor: Predictor, site: Site, units: Sequence[int], expected_s: float) -> float:
    processes = [predictor.network.processes[predictor.demands.units[unit].processes[0]] for unit in units]
    is_known = all(each.runtime_ns and not each.until for each in processes if each.is_submodel)
    if not is_known:
        return site.walltime_s or 0.0
    return min(site.walltime_s or float("inf"), MARGIN * expected_s + START_UP_S)
