"""When each task of a task graph begins and ends if nothing holds it up, and the chain that takes longest.

Every iteration begins as soon as its messages have come and its instance is done with what was before; conduits hold
any number of messages and take no time. So the end is the earliest possible one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xmml.analysis.leaving import on_demand
from xmml.analysis.task_graph import FINIT, NO_OPERATOR, OF, B, TaskGraph
from xmml.late_dataclass import dataclass

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
    processes = graph.network.processes
    is_depth = not any(process.runtime_ns for process in processes)
    endless = on_demand(graph.network)  # sources that have always sent already
    first, senders, channels = _incoming(graph)
    begin, end, waited_for = [0] * len(graph), [0] * len(graph), [-1] * len(graph)
    latest = [-1] * len(processes)
    for node in graph.order:
        process = graph.process[node]
        cause, latest[process] = latest[process], node
        clock = end[cause] if cause >= 0 else 0
        pieces, piece_ns = (1, UNIT_NS) if is_depth else (0, 0) if process in endless else _work(graph, node)
        starting, in_groups = _groups(graph, node, range(first[node], first[node + 1]), channels, pieces)
        begun = -1
        for group in (starting, *in_groups):
            for place in group:
                if end[senders[place]] > clock or cause < 0:
                    clock, cause = max(clock, end[senders[place]]), senders[place]
            if group is not starting and pieces:
                begun = clock if begun < 0 else begun
                clock += piece_ns
                pieces -= 1
        begin[node] = clock if begun < 0 else begun
        end[node] = clock + pieces * piece_ns
        waited_for[node] = cause
    return TaskTimes(begin, end, is_depth, _chain(end, waited_for))


def _work(graph: TaskGraph, node: int) -> tuple[int, int]:
    """Return of how many pieces the work of a task is, and how long each takes [ns].

    Each iteration costs an equal part of the run time, between B and what follows; receiving and sending cost nothing.
    A run without couplings in its loop and the firing of a mapper cost the whole run time, in one piece.
    """
    process = graph.network.processes[graph.process[node]]
    first, last = graph.first_operator[node], graph.last_operator[node]
    if not process.runtime_ns:
        return 0, 0
    if first == NO_OPERATOR or ((first, last) == (FINIT, OF) and not (process.oi or process.s or process.b)):
        return 1, process.runtime_ns
    low = graph.first_iteration[node] + (first > B)
    high = graph.last_iteration[node] - (last < B)
    return max(0, high - low + 1), round(process.runtime_ns / process.steps)


def _groups(
    graph: TaskGraph, node: int, messages: range, channels: Sequence[int], pieces: int
) -> tuple[range, Iterator[range]]:
    """Return the messages that a run begins with, and those of each iteration of the task."""
    process = graph.network.processes[graph.process[node]]
    in_loop = len(process.s) + len(process.b)
    if pieces < 2 or not in_loop:
        return messages[:0], iter((messages,))
    starting = 0
    while starting < len(messages) and channels[messages[starting]] in process.finit:
        starting += 1
    loop = messages[starting:]
    size = max(1, -(-len(loop) // pieces))
    return messages[:starting], (loop[place : place + size] for place in range(0, len(loop), size))


def _incoming(graph: TaskGraph) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Return where the messages of each node begin in lists of all messages: of their senders, and of their channels.

    The messages of a node stay in the order in which it takes them.
    """
    count = [0] * (len(graph) + 1)
    for receiver in graph.message_to:
        count[receiver + 1] += 1
    for node in range(len(graph)):
        count[node + 1] += count[node]
    senders, channels, free = [0] * count[-1], [0] * count[-1], count[:-1]
    for sender, receiver, channel in zip(graph.message_from, graph.message_to, graph.message_channel, strict=True):
        senders[free[receiver]] = sender
        channels[free[receiver]] = channel
        free[receiver] += 1
    return count, senders, channels


def _chain(end: Sequence[int], waited_for: Sequence[int]) -> tuple[int, ...]:
    if not end:
        return ()
    node = max(range(len(end)), key=lambda each: (end[each], each))
    found = [node]
    while waited_for[node] >= 0:
        node = waited_for[node]
        found.append(node)
    return tuple(reversed(found))
