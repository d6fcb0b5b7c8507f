"""Everything that is known of a model before it runs, as one value: what `xmml analyse` prints.

`Analysis.as_json` is a stable format, described by `schema/xmml_schema/analysis.schema.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from xmml.late_dataclass import dataclass

#: The number of the JSON format; it grows when a reader of the old one would misunderstand the new one.
FORMAT = 1

Verdict = Literal["finished", "deadlock", "blocked"]


@dataclass(frozen=True)
class Traffic:
    """What travels over a coupling; sums over all copies at its ends.

    Attributes:
        template: `interact`, `call`, `release` or `dispatch`; through mappers, that of the whole way; `None` if the way
            begins or ends at no submodel.
        sent: messages that are sent, before the filters; `None` if only the programs know.
        received: messages that are taken.
        capacity: messages that one conduit of it may hold.
        max_in_flight: the most that wait in one conduit when everything happens as soon as it can.
        bytes: what all messages sent amount to; `None` if their size is not known.
    """

    template: str | None
    sent: int | None
    received: int | None
    capacity: int | None
    max_in_flight: int | None
    bytes: int | None


@dataclass(frozen=True)
class BlockedAt:
    """An instance that waits forever.

    Attributes:
        instance: the instance, with the index of the copy.
        operator: where it waits; `None` at a mapper or terminal.
        waiting_for: the couplings without a message, `b.o -> a.i`.
    """

    instance: str
    run: int
    iteration: int
    operator: str | None
    waiting_for: tuple[str, ...]


@dataclass(frozen=True)
class GraphSize:
    """How large a task graph is; start and end marks are not counted."""

    nodes: int
    message_edges: int
    step_edges: int
    state_edges: int


@dataclass(frozen=True)
class PathSegment:
    """A part of the critical path: what an instance does there, `count` times, in `time_s` altogether."""

    instance: str
    what: str
    count: int
    time_s: float


@dataclass(frozen=True)
class Times:
    """When things happen if everything happens as soon as it can.

    Attributes:
        makespan_s: from the start to the end of the last instance; the lower bound if it is not exact.
        makespan_at_most_s: the upper bound, `None` if there is none; equal to `makespan_s` if that is exact.
        is_exact: whether the makespan is a value and not a bound.
        critical_path: the chain that nothing can be sooner than.
        cycle_time_s: one turn of the slowest cycle, once the model moves periodically; `None` without one.
        busy_s, idle_s: by instance (with the index of the copy): computing, and waiting between its start and its end.
        core_hours: runs times run time times cores, over all instances.
        parallelism: how many instances compute at a time on average.
        unknown: instances whose run time nobody has given; it counts as 0.
    """

    makespan_s: float
    makespan_at_most_s: float | None
    is_exact: bool
    critical_path: tuple[PathSegment, ...]
    cycle_time_s: float | None
    busy_s: Mapping[str, float]
    idle_s: Mapping[str, float]
    core_hours: float
    parallelism: float
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """Instances that must be available together.

    Attributes:
        instances: ids.
        shares_cores: groups of them that never compute at the same time.
        starts_s: when the first of them is needed, from the start of the model.
        cores: how many they need at most at a time.
    """

    instances: tuple[str, ...]
    shares_cores: tuple[tuple[str, ...], ...]
    starts_s: float
    cores: int


@dataclass(frozen=True)
class Analysis:
    """What a model will do.

    Attributes:
        model: id of the model.
        start: `spontaneous` (what runs) or `external`.
        verdict: whether every instance finishes; else whether some wait for each other (`deadlock`) or for messages
            that nobody will send (`blocked`).
        witness: the verdict in words; empty if everything finishes.
        conflicts: contradictions that show without following the messages: cycles without delay, rates that differ.
        initial: instances that start by themselves.
        steps: iterations of a run, by instance; `None` if the program decides.
        runs: by instance, with the index of the copy.
        messages: by coupling.
        pools: the couplings whose objects are not counted: programs decide how many there are, and who gets them.
        at_most: instances and couplings whose counts are bounds, because a program decides when to stop.
        blocked, deadlock, unconsumed: what goes wrong: who waits, the cycles, messages that nobody takes.
        never_start: instances that cannot start.
        domains: by instance.
        times: `None` if the model blocks or the start is external.
        jobs: what starts together.
        task_graph: sizes, `collapsed` and (unless that is too large) `uncollapsed`, if they were asked for.
    """

    model: str
    start: Literal["spontaneous", "external"]
    verdict: Verdict
    witness: str
    conflicts: tuple[str, ...]
    initial: tuple[str, ...]
    steps: Mapping[str, int | None]
    runs: Mapping[str, int | None]
    messages: Mapping[str, Traffic]
    at_most: tuple[str, ...]
    blocked: tuple[BlockedAt, ...]
    deadlock: tuple[tuple[str, ...], ...]
    unconsumed: Mapping[str, int]
    never_start: tuple[str, ...]
    domains: Mapping[str, str | None]
    times: Times | None
    jobs: tuple[Job, ...]
    task_graph: Mapping[str, GraphSize] = field(default_factory=dict)
    pools: tuple[str, ...] = ()

    @property
    def finishes(self) -> bool:
        """Whether every instance finishes."""
        return self.verdict == "finished"

    def __repr__(self) -> str:
        return f"<Analysis of {self.model}: {self.verdict}>"

    def _repr_html_(self) -> str:
        from xmml.notebook import analysis_html

        return analysis_html(self)

    def as_json(self) -> dict[str, Any]:
        """Return the analysis as plain values; see the JSON Schema for what they mean."""
        times = self.times
        return {
            "format": FORMAT,
            "model": self.model,
            "start": self.start,
            "verdict": self.verdict,
            "witness": self.witness or None,
            "conflicts": list(self.conflicts),
            "initial": list(self.initial),
            "steps": dict(self.steps),
            "runs": dict(self.runs),
            "messages": {
                name: {
                    "template": traffic.template,
                    "sent": traffic.sent,
                    "received": traffic.received,
                    "capacity": traffic.capacity,
                    "max_in_flight": traffic.max_in_flight,
                    "bytes": traffic.bytes,
                }
                for name, traffic in self.messages.items()
            },
            "pools": list(self.pools),
            "at_most": list(self.at_most),
            "blocked": [
                {
                    "instance": each.instance,
                    "run": each.run,
                    "iteration": each.iteration,
                    "operator": each.operator,
                    "waiting_for": list(each.waiting_for),
                }
                for each in self.blocked
            ],
            "deadlock": [list(cycle) for cycle in self.deadlock],
            "unconsumed": dict(self.unconsumed),
            "never_start": list(self.never_start),
            "domains": dict(self.domains),
            "makespan_s": times.makespan_s if times else None,
            "makespan_at_most_s": times.makespan_at_most_s if times else None,
            "is_exact": times.is_exact if times else None,
            "critical_path": [
                {"instance": part.instance, "what": part.what, "count": part.count, "time_s": part.time_s}
                for part in times.critical_path
            ]
            if times
            else [],
            "cycle_time_s": times.cycle_time_s if times else None,
            "busy_s": dict(times.busy_s) if times else {},
            "idle_s": dict(times.idle_s) if times else {},
            "core_hours": times.core_hours if times else None,
            "parallelism": times.parallelism if times else None,
            "unknown_runtime": list(times.unknown) if times else [],
            "jobs": [list(job.instances) for job in self.jobs],
            "job_details": [
                {
                    "instances": list(job.instances),
                    "shares_cores": [list(group) for group in job.shares_cores],
                    "starts_s": job.starts_s,
                    "cores": job.cores,
                }
                for job in self.jobs
            ],
            "task_graph": {
                name: {
                    "nodes": size.nodes,
                    "message_edges": size.message_edges,
                    "step_edges": size.step_edges,
                    "state_edges": size.state_edges,
                }
                for name, size in self.task_graph.items()
            },
        }
