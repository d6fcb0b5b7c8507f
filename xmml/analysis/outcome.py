"""How a run ends: who leaves, who waits for ever and for whom, and which messages nobody takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from xmml.analysis.deadlock import reachable, wait_cycles, waits_for
from xmml.analysis.final_state import FinalState, Stop
from xmml.analysis.leaving import calling, on_demand
from xmml.analysis.network import Network
from xmml.model import Operator

#: Why a blocked process never goes on: it is one of a group that wait for each other in a cycle; who should send to it
#: has left; or it waits, directly or not, for one of these.
Reason = Literal["cycle", "starvation", "blocked sender"]


@dataclass(frozen=True, slots=True)
class Missing:
    """A message that does not come.

    Attributes:
        channel: its place in `Network.channels`.
        sender: the process that should send it.
        sent, delivered, received: messages sent there so far, come out of its filters, taken.
        sender_left: whether the sender has left.
    """

    channel: int
    sender: int
    sent: int
    delivered: int
    received: int
    sender_left: bool


@dataclass(frozen=True, slots=True)
class Blocked:
    """A process that waits for ever.

    Attributes:
        process: its place in `Network.processes`.
        name: its name; `instance` is the id of its instance.
        run, iteration, operator: what it would do next; the operator of a mapper or terminal is `None`.
        missing: what it waits for.
        reason: why that does not come.
        leaves: it is a mapper or terminal and leaves, because a sender of its has: what the others sent is dropped.
    """

    process: int
    name: str
    instance: str
    run: int
    iteration: int
    operator: Operator | None
    missing: tuple[Missing, ...]
    reason: Reason
    leaves: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ends.

    Attributes:
        finished: everybody leaves and nobody fails.
        blocked: who waits for ever, in the order of the processes.
        cycles: the deadlocks, as places in `blocked`: each waits for the next, the last for the first. One for each
            group of processes that wait for each other, and of that group a shortest one.
        starved: places in `blocked` of those that wait, at S or B or for the rest of what a run begins with, for
            somebody who has left. At run time that is an error.
        never_started: instances of which no copy ever did anything.
        unconsumed: by channel, messages that are never taken; state that an instance leaves for a run that does not
            follow, and what an endless source sends, do not count.
    """

    finished: bool
    blocked: tuple[Blocked, ...]
    cycles: tuple[tuple[int, ...], ...]
    starved: tuple[int, ...]
    never_started: tuple[str, ...]
    unconsumed: Mapping[int, int]

    @property
    def is_deadlock(self) -> bool:
        """Whether some processes wait for each other in a cycle."""
        return bool(self.cycles)


def outcome(network: Network, final: FinalState) -> Outcome:
    """Return how a run ends, from where everything stands when nothing moves any more.

    Blocked is who waits in its first run, in the middle of a run, or before a run for which some but not all messages
    came, and everybody they wait for. Who waits for another run without any message just waits for the end. Linear in
    processes and channels.
    """
    asked = on_demand(network)
    stops = final.stops
    partial = [_is_partial(network, final, stop, asked) for stop in stops]
    stuck = [stop.process for stop in stops if stop.missing and _is_stuck(stop, partial[stop.process])]
    waits = waits_for(network, final)
    blocked_processes = sorted({*reachable(waits, stuck), *stuck})
    place = {process: number for number, process in enumerate(blocked_processes)}
    cycles = wait_cycles(waits, blocked_processes)
    members = {process for group in cycles.groups for process in group}
    blocked, starved = [], []
    for number, process in enumerate(blocked_processes):
        stop = stops[process]
        missing = tuple(_missing(network, final, channel) for channel in stop.missing)
        in_run = stop.operator in ("S", "B") or partial[process]
        is_starved = in_run and any(each.sender_left for each in missing)
        leaves = stop.finished
        if is_starved and not leaves:
            starved.append(number)
        reason: Reason = "cycle" if process in members else "starvation" if is_starved else "blocked sender"
        one = network.processes[process]
        blocked.append(
            Blocked(
                process,
                one.name,
                one.instance,
                stop.run,
                stop.iteration,
                stop.operator,
                missing,
                reason,
                leaves,
            )
        )
    started = {network.processes[stop.process].instance for stop in stops if stop.started}
    return Outcome(
        finished=all(stop.finished for stop in stops),
        blocked=tuple(blocked),
        cycles=tuple(tuple(place[process] for process in cycle) for cycle in cycles.shortest),
        starved=tuple(starved),
        never_started=tuple(name for name in network.by_instance if name not in started),
        unconsumed=MappingProxyType(_unconsumed(network, final, asked)),
    )


def _is_stuck(stop: Stop, is_partial: bool) -> bool:
    if stop.finished:
        return is_partial  # a mapper that leaves although something was sent to it
    return stop.run == 0 or stop.operator in ("S", "B") or is_partial


def _is_partial(network: Network, final: FinalState, stop: Stop, asked: frozenset[int]) -> bool:
    """Return whether some message of those that a run begins with came, or would come if it were asked for."""
    return stop.operator in (None, "finit") and any(
        final.delivered[channel] > final.received[channel] or network.channels[channel].sender in asked
        for channel in calling(network, stop.process)
    )


def _missing(network: Network, final: FinalState, channel: int) -> Missing:
    sender = network.channels[channel].sender
    return Missing(
        channel,
        sender,
        final.sent[channel],
        final.delivered[channel],
        final.received[channel],
        final.stops[sender].finished,
    )


def _unconsumed(network: Network, final: FinalState, asked: frozenset[int]) -> dict[int, int]:
    return {
        channel.index: left
        for channel in network.channels
        if (left := final.delivered[channel.index] - final.received[channel.index]) > 0
        and channel.sender not in asked
        and not (channel.is_state and left == 1 and final.stops[channel.receiver].finished)
    }
