"""Unrolling a model into its task graph: every run, iteration and message, as it will come about.

Every channel is an unbounded first-in-first-out queue and every process a sequential loop, so the network is
determinate (Kahn, 1974): the order in which processes are looked at changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xmml.analysis.final_state import FinalState, Stop
from xmml.analysis.graph_columns import GraphColumns, LimitReached
from xmml.analysis.leaving import calling, leaving, on_demand
from xmml.analysis.network import Channel, Network
from xmml.analysis.outcome import Blocked, outcome
from xmml.analysis.task_graph import FINIT, NO_OPERATOR, OF, OI, B, BlockedTask, S, TaskGraph, operator_name

Start = Literal["spontaneous", "external"]

#: The largest task graph that is made unless somebody asks for a larger one.
NODE_LIMIT = 1_000_000
#: So often an endless source is asked until a message comes through the filters behind it.
MOST_DEMANDS = 10_000


@dataclass(frozen=True, slots=True)
class Unrolling:
    """What unrolling a network gave.

    Attributes:
        final: where everything stood in the end.
        truncated: a limit was reached: graph and final state are those up to there.
        is_exact: no program decides by itself when to stop, no loop was cut short, and no filter decides by what it
            sees; else the graph is one of those that may come about.
    """

    task_graph: TaskGraph
    final: FinalState
    truncated: bool
    is_exact: bool


def unroll(
    network: Network,
    *,
    start: Start = "spontaneous",
    node_limit: int = NODE_LIMIT,
    max_iterations: int | None = None,
    collapse: bool = True,
) -> Unrolling:
    """Unroll a network into its task graph.

    Linear in nodes plus messages. Iterations in which nothing is sent or received cost nothing if the graph is
    collapsed.

    Args:
        start: `spontaneous`, as a run starts: whoever is not called starts at once. `external`: who is not called and
            not marked `init` starts with its first messages; so the published task graphs were drawn.
        node_limit: end after so many nodes (or ten times as many messages).
        max_iterations: take every loop to be no longer than this.
        collapse: let a node span everything up to the next send; else every operator is a node.
    """
    walk = _Walk(network, start == "external", node_limit, max_iterations, collapse)
    truncated = walk.go()
    final = walk.final()
    until = any(process.until for process in network.processes)
    cut = max_iterations is not None and any(process.steps > max_iterations for process in network.processes)
    guessed = not all(channel.filters.is_exact for channel in network.channels)
    return Unrolling(walk.task_graph(final, truncated), final, truncated, not (truncated or until or cut or guessed))


class _Walk:
    """All processes and channels as they go on, and the graph as it grows."""

    def __init__(
        self, network: Network, external: bool, node_limit: int, max_iterations: int | None, collapse: bool
    ) -> None:
        self.network, self.is_external, self.collapse = network, external, collapse
        self.graph = GraphColumns(node_limit, collapse)
        processes, channels = network.processes, network.channels
        self.asked = on_demand(network)
        self.steps = [p.steps if max_iterations is None else min(p.steps, max(1, max_iterations)) for p in processes]
        self.waits_for_all = [
            external and p.is_submodel and not p.init and bool(p.inputs) and not calling(network, p.index)
            for p in processes
        ]
        self.letting_go = [
            tuple(channel for channel in p.outputs if channels[channel].filters.waits_for_end_of_run) for p in processes
        ]
        # where each process stands; what it waits for is only known while it waits
        self.going = [
            self._submodel(p.index) if p.is_submodel else self._firings(p.index) if p.index not in self.asked else None
            for p in processes
        ]
        self.done = [False] * len(processes)
        self.runs = [0] * len(processes)
        self.node = [-1] * len(processes)  # the latest of the run it is in
        self.position = [(0, 0, FINIT if p.is_submodel else NO_OPERATOR) for p in processes]
        self.needed: list[Sequence[int]] = [()] * len(processes)
        self.waits_on = [-1] * len(processes)
        self.released = [False] * len(processes)
        self.ready = deque(p.index for p in processes if p.index not in self.asked)
        # the channels: by message that came out of the filters, the node that sent it
        self.receiver = [channel.receiver for channel in channels]
        self.is_asked_for = [channel.sender in self.asked for channel in channels]
        self.is_state = [channel.is_state for channel in channels]
        self.outputs = [self._filters_of(channel) for channel in channels]
        self.queue: list[list[int]] = [[] for _ in channels]
        self.taken = [0] * len(channels)
        self.sent = [0] * len(channels)

    def _filters_of(self, channel: Channel) -> Callable[[int, int], int] | None:
        """Return what counts the messages out of the filters of a channel; `None` if all pass at once."""
        filters = channel.filters
        if filters.is_identity:
            return None
        if channel.sender_operator == "Oi":
            filters = replace(filters, per_run=min(filters.per_run, self.steps[channel.sender]))
        return filters.outputs

    def go(self) -> bool:
        """Let everybody go on until nothing moves; returns whether a limit ended it before."""
        try:
            while self.ready or self._release_one():
                index = self.ready.popleft()
                process = self.going[index]
                assert process is not None, "who sends what is asked for never waits"
                channel = next(process, None)
                if channel is None:
                    self.done[index] = True
                else:
                    self.waits_on[index] = channel
        except LimitReached:
            return True
        return False

    def _release_one(self) -> bool:
        """Let one process that was started by its first messages make its last iteration without the last ones."""
        for index, waits_for_all in enumerate(self.waits_for_all):
            _, iteration, operator = self.position[index]
            is_last = operator in (S, B) and iteration == self.steps[index] - 1
            if waits_for_all and is_last and not self.done[index] and not self.released[index]:
                self.released[index] = True
                self.ready.append(index)
                return True
        return False

    def _submodel(self, index: int) -> Iterator[int]:
        """Go through all runs of a submodel; yields the channel it waits on whenever it has to."""
        process = self.network.processes[index]
        steps, collapse, graph = self.steps[index], self.collapse, self.graph
        oi, s, b, of = process.oi, process.s, process.b, process.of
        s_and_b = s + b
        begin = process.inputs if self.waits_for_all[index] else process.finit
        first = tuple(channel for channel in begin if not self.is_state[channel])
        in_loop = range(steps) if oi or s_and_b or not collapse else ()
        is_called = bool(calling(self.network, index))
        ends = all(self.is_state[channel] for channel in of)
        run = 0
        while True:
            needed = begin if run else first
            while (missing := self._missing(index, needed)) >= 0:
                self._stand(index, run, 0, FINIT, needed)
                yield missing
            before = self.node[index]
            node = self._begin_run(index, run, FINIT)
            self._take(node, needed)
            if run and (process.stateful or len(first) < len(begin)):
                graph.state(before, node)
            for iteration in in_loop:
                if not collapse:
                    node = self.node[index] = graph.step(node, iteration, OI)
                if oi or not collapse:
                    graph.close(node, iteration, OI)
                    self._send(index, node, oi)
                if s:
                    while (missing := self._missing(index, s)) >= 0:
                        self._stand(index, run, iteration, S, s_and_b)
                        yield missing
                if oi or not collapse:
                    node = self.node[index] = graph.step(node, iteration, S)
                self._take(node, s)
                if b:
                    while (missing := self._missing(index, b)) >= 0:
                        self._stand(index, run, iteration, B, b)
                        yield missing
                if not collapse:
                    node = self.node[index] = graph.step(node, iteration, B)
                self._take(node, b)
            if not collapse:
                node = self.node[index] = graph.step(node, steps - 1, OF)
            graph.close(node, steps - 1, OF)
            if ends:
                graph.ends.append(node)
            run += 1
            self._end_run(index, node, run, of)
            if not is_called:
                return

    def _firings(self, index: int) -> Iterator[int]:
        """Go through all firings of a mapper or terminal; yields the channel it waits on whenever it has to."""
        process = self.network.processes[index]
        if not process.finit:
            firings = 1 if process.fires is None or not process.of else process.fires
            for _ in range(firings):
                self._fire(index)
            return
        while True:
            while (missing := self._missing(index, process.finit)) >= 0:
                self._stand(index, self.runs[index], 0, NO_OPERATOR, process.finit)
                yield missing
            self._fire(index)

    def _fire(self, index: int) -> None:
        process = self.network.processes[index]
        run = self.runs[index]
        node = self._begin_run(index, run, NO_OPERATOR)
        self._take(node, process.finit)
        self.graph.close(node, 0, NO_OPERATOR)
        if not process.of:
            self.graph.ends.append(node)
        self._end_run(index, node, run + 1, process.of)

    def _begin_run(self, index: int, run: int, operator: int) -> int:
        node = self.node[index] = self.graph.open(index, run, 0, operator)
        if run == 0:
            process = self.network.processes[index]
            if process.init or not (process.inputs if self.is_external else calling(self.network, index)):
                self.graph.starts.append(node)
        return node

    def _end_run(self, index: int, node: int, runs: int, channels: Sequence[int]) -> None:
        self.runs[index] = runs
        self._send(index, node, channels)
        for channel in self.letting_go[index]:
            self._deliver(index, node, channel)

    # messages

    def _missing(self, index: int, channels: Sequence[int]) -> int:
        """Return the first channel without a message, or -1; asks who has to be asked if all others have one."""
        queue, taken = self.queue, self.taken
        asks = False
        for channel in channels:
            if taken[channel] == len(queue[channel]):
                if not self.is_asked_for[channel]:
                    return -1 if self.released[index] else channel
                asks = True
        if asks:
            for channel in channels:
                if not self._has_after_asking(channel):
                    return -1 if self.released[index] else channel
        return -1

    def _has_after_asking(self, channel: int) -> bool:
        """Let an endless source, and the mappers between, send until a message comes through all filters."""
        stack, demands = [channel], 0
        while stack:
            channel = stack[-1]
            if self.taken[channel] < len(self.queue[channel]):
                stack.pop()
                continue
            sender, outputs = self.network.channels[channel].sender, self.outputs[channel]
            sent, runs = self.sent[channel] + MOST_DEMANDS, self.runs[sender] + MOST_DEMANDS
            if outputs is not None and outputs(sent, runs) == len(self.queue[channel]):
                return False
            open_inputs = [
                each for each in self.network.processes[sender].finit if self.taken[each] == len(self.queue[each])
            ]
            if open_inputs:
                stack.append(open_inputs[0])
            elif demands == MOST_DEMANDS:
                return False
            else:
                demands += 1
                self._fire(sender)
        return True

    def _take(self, node: int, channels: Sequence[int]) -> None:
        for channel in channels:
            queue, taken = self.queue[channel], self.taken[channel]
            if taken == len(queue):
                continue  # released without it
            self.taken[channel] = taken + 1
            if not self.is_state[channel]:
                self.graph.message(queue[taken], node, channel)

    def _send(self, index: int, node: int, channels: Sequence[int]) -> None:
        self.graph.count_messages(len(channels))
        for channel in channels:
            self.sent[channel] += 1
            if self.outputs[channel] is not None:
                self._deliver(index, node, channel)
                continue
            self.queue[channel].append(node)
            receiver = self.receiver[channel]
            if self.waits_on[receiver] == channel:
                self.waits_on[receiver] = -1
                self.ready.append(receiver)

    def _deliver(self, index: int, node: int, channel: int) -> None:
        """Let out of the filters of a channel what comes out now."""
        outputs, queue = self.outputs[channel], self.queue[channel]
        assert outputs is not None, "without filters a message is delivered at once"
        new = outputs(self.sent[channel], self.runs[index]) - len(queue)
        if new <= 0:
            return
        self.graph.count_messages(new)
        queue.extend([node] * new)
        receiver = self.receiver[channel]
        if self.waits_on[receiver] == channel:
            self.waits_on[receiver] = -1
            self.ready.append(receiver)

    def _stand(self, index: int, run: int, iteration: int, operator: int, needed: Sequence[int]) -> None:
        """Note where a process waits."""
        self.position[index] = (run, iteration, operator)
        self.needed[index] = needed
        node_goes_on = operator == B or (operator == S and not self.network.processes[index].oi)
        if self.collapse and node_goes_on:
            self.graph.extend(self.node[index], iteration, operator - 1)

    # what came of it

    def final(self) -> FinalState:
        """Return where everything stands."""
        processes, delivered = self.network.processes, [len(queue) for queue in self.queue]
        waiting = [come - taken for come, taken in zip(delivered, self.taken, strict=True)]
        waits = [channel >= 0 for channel in self.waits_on]
        before_run = [
            (waits[p.index] and self.position[p.index][2] in (FINIT, NO_OPERATOR)) or p.index in self.asked
            for p in processes
        ]
        left = leaving(self.network, self.done, before_run, waiting, self.asked)
        stops = []
        for process in processes:
            index = process.index
            before = (self.runs[index], 0, FINIT if process.is_submodel else NO_OPERATOR)
            run, iteration, operator = self.position[index] if waits[index] else before
            stops.append(
                Stop(
                    process=index,
                    finished=left[index],
                    started=self.node[index] >= 0,
                    runs=self.runs[index],
                    run=run,
                    iteration=iteration,
                    operator=operator_name(operator),
                    missing=self._lacks(index, waiting) if waits[index] else (),
                )
            )
        return FinalState(tuple(stops), tuple(self.sent), tuple(delivered), tuple(self.taken))

    def _lacks(self, index: int, waiting: Sequence[int]) -> tuple[int, ...]:
        """Return what a process waits for; somebody that has to be asked only if it was asked in vain."""
        missing = tuple(channel for channel in self.needed[index] if not waiting[channel])
        return tuple(channel for channel in missing if not self.is_asked_for[channel]) or missing

    def task_graph(self, final: FinalState, truncated: bool) -> TaskGraph:
        """Return the task graph, with what is blocked unless a limit ended the walk."""
        blocked = () if truncated else tuple(self._blocked(each) for each in outcome(self.network, final).blocked)
        return self.graph.finish(self.network, blocked)

    def _blocked(self, blocked: Blocked) -> BlockedTask:
        index = blocked.process
        return BlockedTask(
            process=index,
            run=blocked.run,
            iteration=blocked.iteration,
            operator=blocked.operator,
            after=self.node[index] if blocked.operator in ("S", "B") else None,
            delivered=tuple(
                (self.queue[channel][self.taken[channel]], channel)
                for channel in self.needed[index]
                if self.taken[channel] < len(self.queue[channel])
            ),
        )
