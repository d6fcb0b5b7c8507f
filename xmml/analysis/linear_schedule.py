"""Proof that a feedback group with filters never deadlocks: a timetable that everybody can keep.

Let the whole run last from 0 to 1, and let everything that happens N times happen every 1/N, with an offset of its own.
A message in time is a bound on the difference of two offsets: how much later the receive has to be, at worst over all
messages. Offsets that keep all bounds exist if and only if no cycle of bounds is positive; then the timetable carries
out every operation after all that it waits for, so nobody waits for ever. (Such schedules of marked graphs go back to
Reiter, "Scheduling parallel computations", 1968; with filters the rates differ, as in synchronous data flow.)

A timetable need not exist for a group to be free of deadlock; a simulation then decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from xmml.analysis.counts import Amount
from xmml.analysis.filter_numbers import inputs_for, is_one_for_one
from xmml.analysis.network import Channel, Network, Process
from xmml.analysis.precedence import FINIT, OF, OI, SB, receiving_vertex, sending_vertex
from xmml.analysis.timelines import FeedbackGroup

#: So many messages are looked at for each channel with filters.
_MOST_MESSAGES = 2_000
#: Work that is put into finding offsets, in edges looked at.
_MOST_RELAXATIONS = 2_000_000

Edge = tuple[int, int, Fraction]


def has_linear_schedule(network: Network, group: FeedbackGroup, runs: Mapping[str, Amount]) -> bool:
    """Whether a timetable shows that a feedback group is free of deadlock, given that enough messages reach it.

    Does not depend on the number of steps. Of large groups, or filters with large factors, it may give up.
    """
    processes = {name: network.processes[network.by_instance[name][0]] for name in group.instances}
    looping = {
        network.processes[end].instance
        for channel in group.channels
        for end, operator in (
            (channel.sender, channel.sender_operator),
            (channel.receiver, channel.receiver_operator),
        )
        if operator in ("Oi", "S", "B")
    }
    periods: dict[str, tuple[Fraction, Fraction]] = {}  # between runs, between iterations
    for name, process in processes.items():
        number = runs[name].value
        if not runs[name].is_sure or not isinstance(number, int) or number == 0 or process.until:
            return False
        if not network.model.instances[name].check_order:
            return False
        steps = process.steps if name in looping else 1
        periods[name] = Fraction(1, number), Fraction(1, number * steps)
    place = {name: number for number, name in enumerate(group.instances)}
    edges = [edge for name, number in place.items() for edge in _own_edges(processes[name], number, *periods[name])]
    for channel in group.channels:
        sender, receiver = (network.processes[end].instance for end in (channel.sender, channel.receiver))
        sends, receives = sending_vertex(channel), receiving_vertex(channel)
        delay = _worst_delay(
            network, channel, periods[sender][sends in (OI, SB)], periods[receiver][receives in (OI, SB)]
        )
        if delay is None:
            return False
        edges.append((4 * place[sender] + sends, 4 * place[receiver] + receives, delay))
    return not _has_cycle_without_slack(4 * len(place), edges)


def _own_edges(process: Process, number: int, run: Fraction, iteration: Fraction) -> list[Edge]:
    """Return how the operators of one instance follow each other: by how much later each is than the one before."""
    first = 4 * number
    if not process.is_submodel:
        return []
    edges = [
        (first + FINIT, first + OI, Fraction(0)),
        (first + OI, first + SB, Fraction(0)),
        (first + SB, first + OF, run - iteration),
        (first + OF, first + FINIT, -run),
    ]
    if iteration != run:
        edges.append((first + SB, first + OI, -iteration))
    return edges


def _worst_delay(network: Network, channel: Channel, sends: Fraction, receives: Fraction) -> Fraction | None:
    """Return by how much the offset of a receive must exceed that of the send, over all messages of a channel.

    Message q is sent as send m(q), at m(q) times the period of the sender. The difference to q times the period of the
    receiver repeats with the filters, apart from a steady drift, so it is largest in the first or the last period.
    """
    received = int(1 / receives)
    last = received - 1
    if is_one_for_one(channel.filters) or channel.filters.stages == ((), ()):  # one for one, or the filter `last` alone
        return max(Fraction(0), last * (sends - receives))
    if channel.filters.waits_for_end_of_run:
        return None
    period = _period(network, channel)
    if period is None:
        return None
    messages = sorted({*range(min(received, 2 * period)), *range(max(0, received - period), received)})
    worst = None
    for message in messages:
        needed = inputs_for(channel.filters, message + 1)
        if needed is None:
            return None
        delay = (needed - 1) * sends - message * receives
        worst = delay if worst is None or delay > worst else worst
    return worst


def _period(network: Network, channel: Channel) -> int | None:
    """Return a number of messages after which the filters of a channel do the same again; `None` if it is large."""
    inputs = 1
    for applied in network.model.couplings[channel.coupling].filters:
        factor = applied.factor if applied.factor is not None else _number(applied.params.get("k", "1"))
        if factor is None or not math.isfinite(factor):
            return None
        inputs *= max(1, round(factor))
        if inputs > _MOST_MESSAGES:
            return None
    outputs = channel.filters.outputs
    period = outputs(2 * inputs) - outputs(inputs)
    if not 0 < period <= _MOST_MESSAGES or outputs(3 * inputs) - outputs(2 * inputs) != period:
        return None
    return period


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _has_cycle_without_slack(size: int, edges: Sequence[Edge]) -> bool:
    """Whether the bounds of a cycle add up to zero or more, or that is too much work to find out.

    Bellman and Ford's algorithm for longest paths, on whole numbers.
    """
    scale = math.lcm(*(bound.denominator for _, _, bound in edges)) * (len(edges) + 1)
    # One more for each edge: what waits comes after what it waits for, though nothing takes time.
    whole = [(one, other, int(bound * scale) + 1) for one, other, bound in edges]
    offsets = [0] * size
    for _ in range(min(size, _MOST_RELAXATIONS // len(edges)) + 1):
        changed = False
        for one, other, bound in whole:
            if offsets[one] + bound > offsets[other]:
                offsets[other] = offsets[one] + bound
                changed = True
        if not changed:
            return False
    return True
