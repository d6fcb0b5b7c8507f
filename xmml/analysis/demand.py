"""Deadlocks at the first receive that come from filters or from loops of different lengths.

To receive its first message, an instance needs the others to have come so far; for that they need messages themselves,
and so on. If in the end it needs a message that it sends only after that receive, it waits for itself. How far somebody
has to come is a single integer, so following the demands takes as many steps as there are couplings on the way, not as
there are iterations. Deadlocks that come later than the first receive are left to a simulation.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from xmml.analysis.filter_counts import FilterCounts
from xmml.analysis.filter_numbers import countable_outputs, is_one_for_one
from xmml.analysis.network import Channel, Network, Process
from xmml.analysis.timelines import FeedbackGroup

#: So many demands are followed in one group before it is given up.
MOST_DEMANDS = 50_000


@dataclass(frozen=True, slots=True)
class Demand:
    """Before an instance can go on, another one has to send a message.

    Attributes:
        channel: the way of the message.
        message: which message it is, from 1.
        sends: how many the sender has to send for it, more than that if filters hold some back.
        receiver_at, sender_at: how far they have come with that receive and that send, see `Place`.
    """

    channel: Channel
    message: int
    sends: int
    receiver_at: Place
    sender_at: Place


@dataclass(frozen=True, slots=True)
class Place:
    """A point in the life of a process.

    Attributes:
        run, iteration: from 0; the iteration is -1 before the first one and `None` after the last one.
    """

    run: int
    iteration: int | None


def first_deadlock(network: Network, group: FeedbackGroup) -> tuple[Demand, ...]:
    """Return the demands by which an instance of the group waits for itself, or nothing if none is found.

    They begin with the instance that waits; each receiver is the sender of the demand before. At most `MOST_DEMANDS`
    demands are followed.
    """
    processes = {name: network.processes[network.by_instance[name][0]] for name in group.instances}
    if any(process.until for process in processes.values()):
        return ()
    if any(not network.model.instances[name].check_order for name in group.instances):
        return ()
    if any(not channel.filters.is_exact and not is_one_for_one(channel.filters) for channel in group.channels):
        return ()
    entering: dict[str, list[Channel]] = {name: [] for name in processes}
    for channel in group.channels:
        entering[network.processes[channel.receiver].instance].append(channel)
    budget = MOST_DEMANDS
    for name, process in processes.items():
        operators = {channel.receiver_operator for channel in entering[name]}
        firsts = ([1] if operators & {None, "finit"} else []) + ([3] if operators & {"S", "B"} else [])
        for first in firsts:
            found, used = _follow(network, process, first, entering, processes, budget)
            budget -= used
            if found or budget <= 0:
                return found
    return ()


def _follow(
    network: Network,
    target: Process,
    progress: int,
    entering: dict[str, list[Channel]],
    processes: dict[str, Process],
    budget: int,
) -> tuple[tuple[Demand, ...], int]:
    """Return the chain of demands from the target's operation number `progress` back to itself, and the effort."""
    needed = {target.instance: progress}
    why: dict[str, tuple[str, Demand]] = {}
    queue = deque([target.instance])
    used = 0
    while queue and used < budget:
        name = queue.popleft()
        receiver = processes[name]
        for channel in entering[name]:
            used += 1
            message = _receives(receiver, channel, needed[name])
            sends = _sends_for(channel.filters, message, processes[network.processes[channel.sender].instance], channel)
            if message == 0 or sends is None:
                continue
            sender = processes[network.processes[channel.sender].instance]
            reached = _progress_of_send(sender, channel, sends)
            demand = Demand(
                channel, message, sends, _receive_place(receiver, channel, message), _place(sender, reached)
            )
            if sender.instance == target.instance:
                if reached >= progress:
                    return _chain(target.instance, name, demand, why), used
                continue
            if reached > needed.get(sender.instance, 0):
                needed[sender.instance] = reached
                why[sender.instance] = (name, demand)
                queue.append(sender.instance)
    return (), used


def _chain(target: str, last: str, demand: Demand, why: dict[str, tuple[str, Demand]]) -> tuple[Demand, ...]:
    chain = [demand]
    seen = {last}
    while last != target:
        last, demand = why[last]
        if last in seen:
            break  # a demand was raised later, on the way from another one
        seen.add(last)
        chain.append(demand)
    return tuple(reversed(chain))


# The operations of a run, in order: finit, then Oi and the receives of S and B for each iteration, then Of. A mapper or
# terminal has one. Progress is the number of operations carried out.


def _length(process: Process) -> int:
    return 2 * process.steps + 2 if process.is_submodel else 1


def _receives(process: Process, channel: Channel, progress: int) -> int:
    """Return how many messages of a channel have been received after that progress."""
    if not process.is_submodel:
        return progress
    runs, rest = divmod(progress, _length(process))
    if channel.receiver_operator == "finit":
        return runs + (rest >= 1)
    return runs * process.steps + max(0, (rest - 1) // 2)


def _progress_of_send(process: Process, channel: Channel, sends: int) -> int:
    """Return the progress with the send of message number `sends`, counted from 1."""
    if not process.is_submodel:
        return sends
    if channel.sender_operator == "Oi" and not channel.filters.waits_for_end_of_run:
        run, iteration = divmod(sends - 1, process.steps)
        return run * _length(process) + 2 + 2 * iteration
    if channel.sender_operator == "Oi":
        return -(-sends // process.steps) * _length(process)
    return sends * _length(process)


def _sends_for(filters: FilterCounts, message: int, sender: Process, channel: Channel) -> int | None:
    """Return how many messages have to be sent until so many are delivered; `None` if they never are."""
    if filters.is_identity or message == 0:
        return message
    per_run = sender.steps if sender.is_submodel and channel.sender_operator == "Oi" else 1
    unit = per_run if filters.waits_for_end_of_run else 1

    def has_delivered(units: int) -> bool | None:
        number = countable_outputs(filters, units * unit, units * unit // per_run)
        return None if number is None else number >= message

    high = 1
    while (enough := has_delivered(high)) is False:
        high *= 2
    if enough is None:
        return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if has_delivered(middle):
            high = middle
        else:
            low = middle
    return high * unit


def _place(process: Process, progress: int) -> Place:
    run, rest = divmod(progress - 1, _length(process))
    if not process.is_submodel or rest == 0:
        return Place(run, -1)
    return Place(run, None if rest == _length(process) - 1 else (rest - 1) // 2)


def _receive_place(process: Process, channel: Channel, message: int) -> Place:
    if not process.is_submodel or channel.receiver_operator == "finit":
        return Place(message - 1, -1)
    return Place(*divmod(message - 1, process.steps))
