"""From a model to its analysis: every analysis, put together in one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from xmml.analysis.analysis import Analysis, BlockedAt, GraphSize, Job, PathSegment, Times, Traffic, Verdict
from xmml.analysis.capacity import Capacities, capacities
from xmml.analysis.conflicts import Conflict
from xmml.analysis.critical_path import Part
from xmml.analysis.deadlock import witness
from xmml.analysis.final_state import FinalState
from xmml.analysis.grouping import jobs
from xmml.analysis.network import Network, network
from xmml.analysis.outcome import Outcome, outcome
from xmml.analysis.run_time import Link, RunTime, estimate
from xmml.analysis.source_data import source_data
from xmml.analysis.static import StaticAnalysis, static_analysis
from xmml.analysis.templates import templates
from xmml.analysis.unrolling import NODE_LIMIT, unroll
from xmml.analysis.verdict import certain_conflicts
from xmml.model import Model

_SECOND = 1_000_000_000


class AnalysisRefused(Exception):
    """A model too large for what was asked; the text says what to ask instead."""


def analyse(
    model: Model,
    *,
    start: Literal["spontaneous", "external"] = "spontaneous",
    link: Link | None = None,
    task_graph: bool = False,
) -> Analysis:
    """Return everything that is known of a model before it runs.

    The cost does not depend on the number of steps, except for the task graph and the external start, which walk
    through every step.

    Args:
        model: the effective model, without errors; see `xmml.analysis.what_if` for changes to try.
        start: `external`: instances without f_init input that are not marked `init` begin with their first messages, as
            in published task graphs; nothing that depends on run times is given then.
        link: what every message needs on its way.
        task_graph: also give the sizes of the task graph.

    Raises:
        FilterCountError: a built-in filter does not exist or cannot have its arguments.
        AnalysisRefused: the task graph, or the walk with an external start, would be too large.
    """
    sources = source_data(model)
    whole = network(model, sources.fires)
    static = static_analysis(whole, sources.uncertain)
    room = capacities(whole)
    graphs = _graph_sizes(whole, start) if task_graph else {}
    if start == "external":
        unrolling = unroll(whole, start="external")
        if unrolling.truncated:
            raise AnalysisRefused(
                "the model has too many steps to walk through with --start=external: shorten its total"
            )
        final, times, peaks = unrolling.final, None, None
    else:
        times = estimate(whole, static, room, link)
        final, peaks = times.simulated.final, times.simulated.peak
    ended = outcome(whole, final)
    bounds = _at_most(whole, static, sources.uncertain)
    is_free = any(not instance.check_order for instance in model.instances.values())
    conflicts = certain_conflicts(whole, static, sources.uncertain)
    verdict = _verdict(ended, conflicts, is_open=bool(bounds) or is_free)
    finished = verdict == "finished"
    complete = times is None or times.simulated.is_complete
    return Analysis(
        model=model.id,
        start=start,
        verdict=verdict,
        witness="" if finished else witness(whole, ended),
        conflicts=tuple(conflict.words for conflict in conflicts),
        initial=static.initial,
        steps={name: static.steps[name].value for name in whole.by_instance},
        runs=_runs(whole, static, final, complete, bounds),
        messages=_messages(whole, static, final, complete, room, peaks, bounds),
        at_most=tuple(sorted(bounds)),
        blocked=() if finished else tuple(_blocked(whole, ended)),
        deadlock=() if finished else _cycles(ended),
        unconsumed=_unconsumed(whole, ended) if not bounds else {},
        never_start=static.never_start if conflicts or not finished else (),
        domains={name: instance.domain for name, instance in model.instances.items()},
        times=_times(whole, times) if times is not None and finished else None,
        jobs=tuple(
            Job(job.instances, job.takes_turns, job.starts_ns / _SECOND, job.cores)
            for job in jobs(whole, times.simulated.begin_ns if times is not None else None)
        ),
        task_graph=graphs,
        pools=tuple(map(str, model.pools)),
    )


def _verdict(ended: Outcome, conflicts: Sequence[Conflict], *, is_open: bool) -> Verdict:
    if is_open:  # what a program decides cannot be foreseen, except for deadlocks that do not depend on it
        kinds = {conflict.kind for conflict in conflicts}
        return "deadlock" if "deadlock" in kinds else "blocked" if kinds else "finished"
    if ended.finished and not ended.blocked:
        return "finished"
    return "deadlock" if ended.cycles else "blocked"


def _at_most(whole: Network, static: StaticAnalysis, uncertain: frozenset[str]) -> set[str]:
    """Return the instances and couplings whose numbers only the programs know."""
    names = {name for name, runs in static.runs.items() if runs.at_most or runs.value is None}
    names |= {name for name, steps in static.steps.items() if steps.at_most or steps.value is None}
    if not names and not uncertain:
        return set()
    couplings = {
        str(whole.model.couplings[number])
        for number, (sent, received) in enumerate(zip(static.sent, static.received, strict=True))
        if not (sent.is_exact and received.is_exact)
    }
    decided = {process.instance for process in whole.processes if process.until} | set(uncertain)
    return names | couplings if decided else set()


def _runs(
    whole: Network, static: StaticAnalysis, final: FinalState, complete: bool, bounds: set[str]
) -> dict[str, int | None]:
    runs: dict[str, int | None] = {}
    for name, own in whole.by_instance.items():
        for process in own:
            value: int | None = final.stops[process].runs
            if name in bounds or not complete:
                known = static.runs[name].value
                value = None if known is None else known // len(own)
            runs[whole.processes[process].name] = value
    return runs


def _messages(
    whole: Network,
    static: StaticAnalysis,
    final: FinalState,
    complete: bool,
    room: Capacities,
    peaks: tuple[int, ...] | None,
    bounds: set[str],
) -> dict[str, Traffic]:
    found = templates(whole.model)
    messages = {}
    for number, coupling in enumerate(whole.model.couplings):
        own = whole.by_coupling[number]
        sent: int | None = sum(final.sent[channel] for channel in own)
        received: int | None = sum(final.received[channel] for channel in own)
        if str(coupling) in bounds or not complete:
            sent, received = static.sent[number].value, static.received[number].value
        template = next(iter(found[number])) if len(found[number]) == 1 else None
        messages[str(coupling)] = Traffic(
            template=template,
            sent=sent,
            received=received,
            capacity=max(room.chosen[channel] for channel in own),
            max_in_flight=max(peaks[channel] for channel in own) if peaks is not None and complete else None,
            bytes=round(sent * coupling.size_bytes) if sent is not None and coupling.size_bytes is not None else None,
        )
    return messages


def _blocked(whole: Network, ended: Outcome) -> list[BlockedAt]:
    return [
        BlockedAt(
            instance=each.name,
            run=each.run,
            iteration=each.iteration,
            operator=each.operator,
            waiting_for=tuple(whole.channels[missing.channel].name for missing in each.missing),
        )
        for each in ended.blocked
    ]


def _cycles(ended: Outcome) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(ended.blocked[place].name for place in cycle) for cycle in ended.cycles)


def _unconsumed(whole: Network, ended: Outcome) -> dict[str, int]:
    left: dict[str, int] = {}
    for channel, number in ended.unconsumed.items():
        name = str(whole.model.couplings[whole.channels[channel].coupling])
        left[name] = left.get(name, 0) + number
    return left


def _times(whole: Network, found: RunTime) -> Times:
    at_most = found.makespan_at_most_ns
    names = [process.name for process in whole.processes]
    return Times(
        makespan_s=found.makespan_ns / _SECOND,
        makespan_at_most_s=None if at_most is None else at_most / _SECOND,
        is_exact=found.is_exact,
        critical_path=tuple(_segment(whole, part) for part in found.critical_path),
        cycle_time_s=None if found.simulated.period_ns is None else found.simulated.period_ns / _SECOND,
        busy_s={name: found.simulated.busy_ns[index] / _SECOND for index, name in enumerate(names)},
        idle_s={name: found.idle_ns(index) / _SECOND for index, name in enumerate(names)},
        core_hours=found.core_seconds / 3600,
        parallelism=found.parallelism,
        unknown=found.unknown,
    )


def _segment(whole: Network, part: Part) -> PathSegment:
    return PathSegment(whole.processes[part.process].name, part.what, part.count, part.time_ns / _SECOND)


def _graph_sizes(whole: Network, start: Literal["spontaneous", "external"]) -> Mapping[str, GraphSize]:
    sizes = {}
    for name, collapse in (("collapsed", True), ("uncollapsed", False)):
        unrolling = unroll(whole, start=start, collapse=collapse)
        if unrolling.truncated and collapse:
            raise AnalysisRefused(f"the task graph has more than {NODE_LIMIT:,} nodes: shorten the total")
        if unrolling.truncated:
            continue
        graph = unrolling.task_graph
        sizes[name] = GraphSize(len(graph), len(graph.message_from), len(graph.step_from), len(graph.state_from))
    return sizes
