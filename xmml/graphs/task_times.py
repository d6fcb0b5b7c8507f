"""When each task of a task graph begins and ends if nothing holds it up, and the chain that takes longest.

Tasks begin as soon as their messages have come; conduits hold any number of messages and take no time. So the end is
the earliest possible one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xmml.analysis.task_graph import FINIT, NO_OPERATOR, OF, B, TaskGraph

#: What a task takes where no run time is known: then times are depths in the graph.
UNIT_NS = 1


@dataclass(frozen=True)
class TaskTimes:
    """When each task begins and ends.

    Attributes:
        begin, end: by node [ns]; where no run time is known the number of tasks on the longest way there.
        is_depth: no run time is known.
        critical: nodes of a longest chain, in order.
    """

    begin: Sequence[int]
    end: Sequence[int]
    is_depth: bool
    critical: tuple[int, ...]

    @property
    def makespan(self) -> int:
        """When the last task ends [ns]; 0 without tasks."""
        return max(self.end, default=0)


def task_times(graph: TaskGraph) -> TaskTimes:
    """Return when each task begins and ends. Linear in nodes and edges: the nodes of a task graph are in an order."""
    is_depth = not any(process.runtime_ns for process in graph.network.processes)
    durations = [UNIT_NS] * len(graph) if is_depth else [duration_ns(graph, node) for node in range(len(graph))]
    first, followers = _followers(graph)
    begin, end, waited_for = [0] * len(graph), [0] * len(graph), [-1] * len(graph)
    for node in graph.order:
        ready = end[node] = begin[node] + durations[node]
        for place in range(first[node], first[node + 1]):
            follower = followers[place]
            if ready > begin[follower] or waited_for[follower] < 0:
                begin[follower] = ready
                waited_for[follower] = node
    return TaskTimes(begin, end, is_depth, _chain(end, waited_for))


def duration_ns(graph: TaskGraph, node: int) -> int:
    """Return how long a task takes [ns].

    Each iteration costs an equal part of the run time, between B and what follows; receiving and sending cost nothing.
    A run without couplings in its loop and the firing of a mapper cost the whole run time.
    """
    process = graph.network.processes[graph.process[node]]
    if not process.runtime_ns:
        return 0
    first, last = graph.first_operator[node], graph.last_operator[node]
    if first == NO_OPERATOR or ((first, last) == (FINIT, OF) and not (process.oi or process.s or process.b)):
        return process.runtime_ns
    low = graph.first_iteration[node] + (first > B)
    high = graph.last_iteration[node] - (last < B)
    return max(0, high - low + 1) * round(process.runtime_ns / process.steps)


def _followers(graph: TaskGraph) -> tuple[Sequence[int], Sequence[int]]:
    """Return for each node where its followers begin in a list of all followers."""
    count = [0] * (len(graph) + 1)
    for one, _ in _pairs(graph):
        count[one + 1] += 1
    for node in range(len(graph)):
        count[node + 1] += count[node]
    followers, free = [0] * count[-1], count[:-1]
    for one, other in _pairs(graph):
        followers[free[one]] = other
        free[one] += 1
    return count, followers


def _pairs(graph: TaskGraph) -> Iterable[tuple[int, int]]:
    yield from zip(graph.message_from, graph.message_to, strict=True)
    yield from zip(graph.step_from, graph.step_to, strict=True)
    yield from zip(graph.state_from, graph.state_to, strict=True)


def _chain(end: Sequence[int], waited_for: Sequence[int]) -> tuple[int, ...]:
    if not end:
        return ()
    node = max(range(len(end)), key=lambda each: (end[each], each))
    found = [node]
    while waited_for[node] >= 0:
        node = waited_for[node]
        found.append(node)
    return tuple(reversed(found))
