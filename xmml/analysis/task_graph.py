"""The task graph of a model: which piece of work of which instance needs the messages of which other.

It is a directed acyclic graph (Borgdorff et al., "Foundations of distributed multiscale computing: formalization,
specification, and analysis", J. Parallel Distrib. Comput. 73, 2013). A node is a piece of a run between two sends, or a
single operator if the graph is not collapsed; an edge is a message, a step to the next piece of the same run, or the
state that a stateful instance keeps for its next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from xmml.analysis.network import Network
from xmml.model import Operator

if TYPE_CHECKING:
    import networkx

EdgeKind = Literal["message", "step", "state"]

#: The operators by the numbers that a task graph keeps; those of mappers and terminals are `NO_OPERATOR`.
OPERATOR_NAMES: tuple[Operator, ...] = ("finit", "Oi", "S", "B", "Of")
FINIT, OI, S, B, OF = range(5)
NO_OPERATOR = -1


@dataclass(frozen=True, slots=True)
class BlockedTask:
    """An operator that was never carried out because not all of its messages came.

    Attributes:
        after: the node of the same run before it; `None` if it is the first of its run.
        delivered: node and channel of each message that waits for it.
    """

    process: int
    run: int
    iteration: int
    operator: Operator | None
    after: int | None
    delivered: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class TaskGraph:
    """Nodes and edges as columns of numbers: a graph of a million nodes is no million objects.

    Attributes:
        process: by node, the place in `Network.processes`.
        run: by node, the run of a submodel or the firing of a mapper or terminal, from 0.
        first_iteration, first_operator, last_iteration, last_operator: by node, the operators that it spans; numbers of
            `OPERATOR_NAMES`, or `NO_OPERATOR`.
        message_from, message_to, message_channel: by message, the nodes that sent and received it and its channel.
        step_from, step_to: by step, a node and the next one of the same run.
        state_from, state_to: the last node of a run and the first of the next run of a stateful instance.
        order: all nodes so that every edge leads from an earlier to a later one.
        starts: nodes that nothing but the start of the model leads to.
        ends: nodes at the end of a run of which nobody is told.
        blocked: what could not be carried out; not among the nodes.
        is_collapsed: whether a node spans everything up to the next send.
    """

    network: Network
    process: Sequence[int]
    run: Sequence[int]
    first_iteration: Sequence[int]
    first_operator: Sequence[int]
    last_iteration: Sequence[int]
    last_operator: Sequence[int]
    message_from: Sequence[int]
    message_to: Sequence[int]
    message_channel: Sequence[int]
    step_from: Sequence[int]
    step_to: Sequence[int]
    state_from: Sequence[int]
    state_to: Sequence[int]
    order: Sequence[int]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    blocked: tuple[BlockedTask, ...]
    is_collapsed: bool

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.process)

    @property
    def edge_count(self) -> int:
        """The number of edges of all kinds."""
        return len(self.message_from) + len(self.step_from) + len(self.state_from)

    def edges(self) -> Iterator[tuple[int, int, EdgeKind, int | None]]:
        """Yield each edge: the nodes it leads from and to, its kind, and the channel of a message."""
        for one, other, channel in zip(self.message_from, self.message_to, self.message_channel, strict=True):
            yield one, other, "message", channel
        for one, other in zip(self.step_from, self.step_to, strict=True):
            yield one, other, "step", None
        for one, other in zip(self.state_from, self.state_to, strict=True):
            yield one, other, "state", None

    def label(self, node: int) -> str:
        """Return the name of a node: `a[2](0-1,S-Oi)` from S of iteration 0 to Oi of iteration 1 of a's third run.

        Run 0 is not named, nor the operators of a node that is a whole run or the firing of a mapper or terminal.
        """
        process = self.network.processes[self.process[node]]
        name = task_name(process.name, self.run[node])
        first = (self.first_iteration[node], self.first_operator[node])
        last = (self.last_iteration[node], self.last_operator[node])
        if first[1] == NO_OPERATOR or (first[1], last[1]) == (FINIT, OF):
            return name
        if first == last:
            return f"{name}({first[0]},{OPERATOR_NAMES[first[1]]})"
        iterations = f"{first[0]}" if first[0] == last[0] else f"{first[0]}-{last[0]}"
        return f"{name}({iterations},{OPERATOR_NAMES[first[1]]}-{OPERATOR_NAMES[last[1]]})"

    def blocked_label(self, task: BlockedTask) -> str:
        """Return the name of what could not be carried out: `Deadlock[a(2,S)]`."""
        name = task_name(self.network.processes[task.process].name, task.run)
        operator = f"({task.iteration},{task.operator})" if task.operator else ""
        return f"Deadlock[{name}{operator}]"

    def to_networkx(self) -> networkx.MultiDiGraph:
        """Return the graph with nodes and edges as objects.

        Nodes are numbers with `label`, `instance`, `process`, `run`, `first_iteration`, `first_operator`,
        `last_iteration`, `last_operator`, `start`, `end` and `blocked`; edges have `kind` and, if they are messages,
        `channel`. What is blocked follows as nodes of its own.
        """
        import networkx

        graph = networkx.MultiDiGraph(name=self.network.model.id)
        processes, starts, ends = self.network.processes, set(self.starts), set(self.ends)
        for node in range(len(self)):
            process = processes[self.process[node]]
            graph.add_node(
                node,
                label=self.label(node),
                instance=process.instance,
                process=process.name,
                kind=process.kind,
                run=self.run[node],
                first_iteration=self.first_iteration[node],
                first_operator=operator_name(self.first_operator[node]) or "",
                last_iteration=self.last_iteration[node],
                last_operator=operator_name(self.last_operator[node]) or "",
                start=node in starts,
                end=node in ends,
                blocked=False,
            )
        names = [channel.name for channel in self.network.channels]
        for one, other, kind, channel in self.edges():
            if channel is None:
                graph.add_edge(one, other, kind=kind)
            else:
                graph.add_edge(one, other, kind=kind, channel=names[channel])
        for node, task in enumerate(self.blocked, len(self)):
            self._add_blocked(graph, node, task, names)
        return graph

    def _add_blocked(self, graph: networkx.MultiDiGraph, node: int, task: BlockedTask, names: list[str]) -> None:
        process = self.network.processes[task.process]
        graph.add_node(
            node,
            label=self.blocked_label(task),
            instance=process.instance,
            process=process.name,
            kind=process.kind,
            run=task.run,
            first_iteration=task.iteration,
            first_operator=task.operator or "",
            last_iteration=task.iteration,
            last_operator=task.operator or "",
            start=False,
            end=False,
            blocked=True,
        )
        if task.after is not None:
            graph.add_edge(task.after, node, kind="step")
        for sender, channel in task.delivered:
            graph.add_edge(sender, node, kind="message", channel=names[channel])


def task_name(process: str, run: int) -> str:
    """Return the name of one run of a process: `u[1]` for its second."""
    return f"{process}[{run}]" if run else process


def operator_name(number: int) -> Operator | None:
    """Return the operator with this number in a task graph."""
    return None if number == NO_OPERATOR else OPERATOR_NAMES[number]
