"""The columns of a task graph while it grows."""

from __future__ import annotations

from array import array

from xmml.analysis.network import Network
from xmml.analysis.task_graph import OI, BlockedTask, TaskGraph

#: A task graph may have so many times more messages than nodes.
MESSAGES_PER_NODE = 10


class LimitReached(Exception):
    """The graph has as many nodes or messages as it may have."""


class GraphColumns:
    """Nodes and edges in the order in which they come about, and the order in which nodes are complete."""

    def __init__(self, node_limit: int, collapse: bool) -> None:
        self.node_limit, self.messages_left = node_limit, node_limit * MESSAGES_PER_NODE
        self.collapse = collapse
        self.process, self.run = array("q"), array("q")
        self.first_iteration: list[int] = []  # a step may be a number of any size
        self.last_iteration: list[int] = []
        self.first_operator, self.last_operator = array("b"), array("b")
        self.message_from, self.message_to, self.message_channel = array("q"), array("q"), array("q")
        self.step_from, self.step_to = array("q"), array("q")
        self.state_from, self.state_to = array("q"), array("q")
        self.order = array("q")
        self.starts: list[int] = []
        self.ends: list[int] = []

    def open(self, process: int, run: int, iteration: int, operator: int) -> int:
        """Begin a node and return it.

        Raises:
            LimitReached: there are as many as there may be.
        """
        node = len(self.process)
        if node >= self.node_limit:
            raise LimitReached
        self.process.append(process)
        self.run.append(run)
        self.first_iteration.append(iteration)
        self.last_iteration.append(iteration)
        self.first_operator.append(operator)
        self.last_operator.append(operator)
        return node

    def extend(self, node: int, iteration: int, operator: int) -> None:
        """Let a node reach up to an operator."""
        self.last_iteration[node] = iteration
        self.last_operator[node] = operator

    def close(self, node: int, iteration: int, operator: int) -> None:
        """Let a node end with an operator: what is sent now is sent by it."""
        self.last_iteration[node] = iteration
        self.last_operator[node] = operator
        self.order.append(node)

    def step(self, before: int, iteration: int, operator: int) -> int:
        """Begin the next node of a run; ends the one before if nothing was sent by it.

        Raises:
            LimitReached: there are as many as there may be.
        """
        if not self.collapse and self.first_operator[before] != OI:
            self.order.append(before)
        node = self.open(self.process[before], self.run[before], iteration, operator)
        self.step_from.append(before)
        self.step_to.append(node)
        return node

    def message(self, sender: int, receiver: int, channel: int) -> None:
        """Add a message that a node received."""
        self.message_from.append(sender)
        self.message_to.append(receiver)
        self.message_channel.append(channel)

    def state(self, last: int, first: int) -> None:
        """Add the state that a run hands to the next."""
        self.state_from.append(last)
        self.state_to.append(first)

    def count_messages(self, number: int) -> None:
        """Note that messages were sent.

        Raises:
            LimitReached: there are more than there may be.
        """
        self.messages_left -= number
        if self.messages_left < 0:
            raise LimitReached

    def finish(self, network: Network, blocked: tuple[BlockedTask, ...]) -> TaskGraph:
        """Return the graph; nodes that are not complete come last in its order, as nothing was sent by them."""
        is_closed = bytearray(len(self.process))
        for node in self.order:
            is_closed[node] = 1
        self.order.extend(node for node, closed in enumerate(is_closed) if not closed)
        return TaskGraph(
            network=network,
            process=self.process,
            run=self.run,
            first_iteration=self.first_iteration,
            first_operator=self.first_operator,
            last_iteration=self.last_iteration,
            last_operator=self.last_operator,
            message_from=self.message_from,
            message_to=self.message_to,
            message_channel=self.message_channel,
            step_from=self.step_from,
            step_to=self.step_to,
            state_from=self.state_from,
            state_to=self.state_to,
            order=self.order,
            starts=tuple(self.starts),
            ends=tuple(self.ends),
            blocked=blocked,
            is_collapsed=self.collapse,
        )
