"""What must come of a network, by walking through it one process at a time.

Conduits are queues, processes walk their loops, a receive waits for messages or the end of a sender. Such a network is
determinate: one sequential walk gives the numbers of messages and runs that every carrying out must give, on whatever
number of processors. This is the plainest way to say so; it shares nothing with the analyses but the counts of filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx

from xmml.analysis.network import Network, Process


@dataclass(frozen=True)
class Expected:
    """What must come of a network.

    Attributes:
        runs: by process.
        sent, delivered, received: by channel; before filters, after them, taken.
        left: processes that leave.
        failed: processes that wait for somebody who has left: an error at run time.
        waiting: by process that waits, the channels on which it lacks a message.
        deadlocked: processes that wait for each other in a cycle.
    """

    runs: tuple[int, ...]
    sent: tuple[int, ...]
    delivered: tuple[int, ...]
    received: tuple[int, ...]
    left: frozenset[int]
    failed: frozenset[int]
    waiting: dict[int, frozenset[int]]
    deadlocked: frozenset[int]

    @property
    def outcome(self) -> str:
        """`done`, `failed` or `deadlock`; where there are both, either may be noticed first, and this says failed."""
        return "failed" if self.failed else "deadlock" if self.deadlocked or self.waiting else "done"


class _Walk:
    def __init__(self, network: Network) -> None:
        self.network = network
        self.runs = [0] * len(network.processes)
        self.sent = [0] * len(network.channels)
        self.delivered = [0] * len(network.channels)
        self.received = [0] * len(network.channels)
        self.left: set[int] = set()
        self.failed: set[int] = set()
        self.waiting: dict[int, frozenset[int]] = {}

    def is_endless(self, channel: int) -> bool:
        sender = self.network.processes[self.network.channels[channel].sender]
        return sender.kind == "terminal" and sender.fires is None

    def has(self, channel: int) -> bool:
        return self.is_endless(channel) or self.delivered[channel] > self.received[channel]

    def is_over(self, channel: int) -> bool:
        return not self.has(channel) and self.network.channels[channel].sender in self.left

    def send(self, process: Process, channels: Sequence[int]) -> None:
        for channel in channels:
            self.sent[channel] += 1
            self.let_through(process, channel)

    def let_through(self, process: Process, channel: int) -> None:
        filters = self.network.channels[channel].filters
        self.delivered[channel] = filters.outputs(self.sent[channel], self.runs[process.index])

    def take(self, channels: Sequence[int]) -> None:
        for channel in channels:
            if self.is_endless(channel):  # sends what is asked for
                self.sent[channel] += 1
                self.delivered[channel] += 1
                self.runs[self.network.channels[channel].sender] = self.sent[channel]
            self.received[channel] += 1

    def walk(self, process: Process) -> Iterator[None]:
        if process.is_submodel:
            yield from self.submodel(process)
        elif process.finit:
            yield from self.mapper(process)
        elif process.fires is not None:
            for _ in range(process.fires):
                self.end_run(process)
        else:
            return  # sends what is asked for
        if process.index not in self.failed:
            self.left.add(process.index)

    def end_run(self, process: Process) -> None:
        self.runs[process.index] += 1
        self.send(process, process.of)
        for channel in process.oi:
            self.let_through(process, channel)

    def mapper(self, process: Process) -> Iterator[None]:
        while True:
            while not all(self.has(channel) for channel in process.finit):
                if any(self.is_over(channel) for channel in process.finit):
                    return
                self.lacks(process, process.finit)
                yield
            self.take(process.finit)
            self.end_run(process)

    def submodel(self, process: Process) -> Iterator[None]:
        state = [channel for channel in process.finit if self.network.channels[channel].is_state]
        calling = [channel for channel in process.finit if channel not in state]
        while True:
            while not all(self.has(channel) for channel in calling):
                over = sum(self.is_over(channel) for channel in calling)
                if over == len(calling):
                    return
                if over and any(self.has(channel) for channel in calling):
                    self.failed.add(process.index)
                self.lacks(process, calling)
                yield
            self.take(calling)
            if self.runs[process.index]:
                self.take(state)
            for _ in range(process.steps):
                self.send(process, process.oi)
                yield from self.receive(process, process.s, process.s + process.b)
                yield from self.receive(process, process.b, process.b)
            self.end_run(process)
            if not calling:
                return

    def receive(self, process: Process, channels: Sequence[int], wanted: Sequence[int]) -> Iterator[None]:
        while not all(self.has(channel) for channel in channels):
            if any(self.is_over(channel) for channel in wanted):
                self.failed.add(process.index)
            self.lacks(process, wanted)
            yield
        self.take(channels)

    def lacks(self, process: Process, channels: Sequence[int]) -> None:
        self.waiting[process.index] = frozenset(channel for channel in channels if not self.has(channel))


def expect(network: Network) -> Expected:
    """Walk through a network until everybody has left or nothing moves any more."""
    state = _Walk(network)
    going = {process.index: state.walk(process) for process in network.processes}
    while going:
        before = (list(state.runs), list(state.sent), list(state.received), len(state.left), len(going))
        for index in list(going):
            state.waiting.pop(index, None)
            if next(going[index], state) is state:
                del going[index]
        if (list(state.runs), list(state.sent), list(state.received), len(state.left), len(going)) == before:
            break
    waits = networkx.DiGraph()
    for process, channels in state.waiting.items():
        for channel in channels:
            if (sender := network.channels[channel].sender) not in state.left:
                waits.add_edge(process, sender)
    cycles = [group for group in networkx.strongly_connected_components(waits) if len(group) > 1]
    cycles += [{process} for process in waits if waits.has_edge(process, process)]
    return Expected(
        tuple(state.runs),
        tuple(state.sent),
        tuple(state.delivered),
        tuple(state.received),
        frozenset(state.left),
        frozenset(state.failed),
        state.waiting,
        frozenset().union(*cycles),
    )
