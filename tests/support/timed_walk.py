"""When everything happens in a network if it happens as soon as it can, message by message.

The plainest way to say it: the time of every message sent and taken is written down, and an operator takes place when
the last of what it needs has come about. There is no clock, no order of events, and nothing is jumped over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xmml.analysis.leaving import calling, on_demand
from xmml.analysis.network import Network, Process
from xmml.analysis.wire_counts import wire_counts


@dataclass(frozen=True)
class Times:
    """When things happened, in nanoseconds.

    Attributes:
        ended: by process, when it last did something.
        busy: by process, time at work.
        runs: by process.
        sent, received: by channel, messages.
        full: whether somebody waits for a place in the end.
        finished: whether everybody left.
    """

    ended: tuple[int, ...]
    busy: tuple[int, ...]
    runs: tuple[int, ...]
    sent: tuple[int, ...]
    received: tuple[int, ...]
    full: bool
    finished: bool


class _Walk:
    def __init__(self, network: Network, capacities: Sequence[int], delays: Sequence[int]) -> None:
        self.network, self.capacities, self.delays = network, capacities, delays
        self.asked = on_demand(network)
        self.filters = [wire_counts(channel.filters) for channel in network.channels]
        self.arrival: list[list[int]] = [[] for _ in network.channels]
        self.freed: list[list[int]] = [[] for _ in network.channels]
        self.sent = [0] * len(network.channels)
        self.received = [0] * len(network.channels)
        self.time = [0] * len(network.processes)
        self.busy = [0] * len(network.processes)
        self.runs = [0] * len(network.processes)
        self.left: dict[int, int] = {}
        self.moved = False
        self.wants_place: set[int] = set()

    def needed(self, channel: int) -> int:
        """How many messages have to be taken from the wire for one more to be received."""
        count = len(self.freed[channel])
        while self.filters[channel].from_wire(count) <= self.received[channel]:
            count += 1
        return count

    def has(self, channel: int) -> bool:
        return self.network.channels[channel].sender in self.asked or len(self.arrival[channel]) >= self.needed(channel)

    def is_over(self, channel: int) -> bool:
        return not self.has(channel) and self.network.channels[channel].sender in self.left

    def receive(self, process: Process, channels: Sequence[int], before_run: bool) -> Iterator[bool]:
        """Ends with True if everything came, with False if nothing ever will."""
        while not all(self.has(channel) for channel in channels):
            over = [self.is_over(channel) for channel in calling(self.network, process.index)]
            if before_run and over and (all(over) if process.is_submodel else any(over)):
                senders = [self.network.channels[channel].sender for channel in process.finit]
                self.left[process.index] = max(
                    [self.time[process.index], *(self.left[each] for each in senders if each in self.left)]
                )
                yield False
            yield True
        channels = [each for each in channels if self.network.channels[each].sender not in self.asked]
        own = [self.arrival[channel][self.needed(channel) - 1] for channel in channels]
        now = self.time[process.index] = max([self.time[process.index], *own])
        for channel in channels:
            self.freed[channel] += [now] * (self.needed(channel) - len(self.freed[channel]))
            self.received[channel] += 1

    def send(
        self, process: Process, channels: Sequence[int], letting_go: Sequence[int] | None = None
    ) -> Iterator[bool]:
        ended = self.runs[process.index] + (letting_go is not None)
        counts = {
            channel: self.filters[channel].before.outputs(self.sent[channel] + (channel in channels), ended)
            for channel in (*channels, *(letting_go or ()))
        }
        places = []
        for channel, count in counts.items():
            if count > len(self.arrival[channel]):
                place = count - 1 - self.capacities[channel]
                receiver = self.network.channels[channel].receiver
                while place >= 0 and place >= len(self.freed[channel]) and receiver not in self.left:
                    self.wants_place.add(process.index)
                    yield True
                self.wants_place.discard(process.index)
                if place >= 0:
                    is_freed = place < len(self.freed[channel])
                    places.append(self.freed[channel][place] if is_freed else self.left[receiver])
        now = self.time[process.index] = max([self.time[process.index], *places])
        for channel in channels:
            self.sent[channel] += 1
        for channel, count in counts.items():
            new = count - len(self.arrival[channel])
            self.arrival[channel] += [now + self.delays[channel]] * new

    def work(self, index: int, duration: int) -> None:
        self.time[index] += duration
        self.busy[index] += duration

    def walk(self, process: Process) -> Iterator[bool]:
        index, calls = process.index, calling(self.network, process.index)
        inner = process.s + process.b
        has_loop = bool(process.oi or inner)
        letting_go = [each for each in process.oi if self.network.channels[each].filters.waits_for_end_of_run]
        firings = 1 if process.is_submodel or process.fires is None or not process.of else process.fires
        while calls or self.runs[index] < firings:
            yield from self.receive(process, process.finit if self.runs[index] else calls, True)
            for _ in range(process.steps if has_loop else 0):
                yield from self.send(process, process.oi)
                yield from self.receive(process, inner, False)
                self.work(index, round(process.runtime_ns / process.steps))
            if not has_loop:
                self.work(index, process.runtime_ns)
            yield from self.send(process, process.of, letting_go)
            self.runs[index] += 1
        self.left[index] = self.time[index]

    def go(self) -> Times:
        going = {p.index: self.walk(p) for p in self.network.processes if p.index not in self.asked}
        while True:
            before = (list(self.time), list(self.sent), list(self.received), list(self.runs), len(self.left))
            for index in list(going):
                if not next(going[index], False):
                    del going[index]
            if before == (list(self.time), list(self.sent), list(self.received), list(self.runs), len(self.left)):
                break
        return Times(
            tuple(self.time),
            tuple(self.busy),
            tuple(self.runs),
            tuple(self.sent),
            tuple(self.received),
            bool(self.wants_place),
            len(self.left) + len(self.asked) == len(self.network.processes),
        )


def walk(network: Network, capacities: Sequence[int], delays: Sequence[int]) -> Times:
    """Walk through a network until nothing moves any more."""
    return _Walk(network, capacities, delays).go()
