"""Groups of processes that go through a loop together: the parts of a network that can move periodically by themselves.

Ports that exchange messages belong to one timeline: each submodel has an outer one (finit, Of) and an inner one (Oi, S,
B), each mapper and terminal one only. Who shares an inner timeline, and whoever is called within it, form a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xmml.analysis.network import Network
from xmml.late_dataclass import dataclass

#: Members of all groups together, beyond which no more groups are made: loops nested a thousand times over.
MOST_MEMBERS = 1_000_000


@dataclass(frozen=True)
class LoopGroup:
    """Processes that go through a loop together.

    Attributes:
        processes: all of them, also those that are called from the loop, in ascending order.
        owners: those whose iterations make up the loop; none if it is the firings of sources that drive the group.
        reference: the process whose iterations (or firings) are looked at.
        inside: channels between two of them.
        leaving, entering: channels of which only the sender, or only the receiver, is one of them.
    """

    processes: tuple[int, ...]
    owners: tuple[int, ...]
    reference: int
    inside: tuple[int, ...]
    leaving: tuple[int, ...]
    entering: tuple[int, ...]


def loop_groups(network: Network) -> tuple[LoopGroup, ...]:
    """Return the groups of a network. Linear in processes and channels times the depth to which loops are nested."""
    parent = list(range(2 * len(network.processes)))

    def find(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for channel in network.channels:
        if not channel.is_state:
            sender = 2 * channel.sender + (channel.sender_operator == "Oi")
            receiver = 2 * channel.receiver + (channel.receiver_operator in ("S", "B"))
            parent[find(sender)] = find(receiver)
    owners: dict[int, list[int]] = {}
    guests: dict[int, list[int]] = {}
    for process in network.processes:
        guests.setdefault(find(2 * process.index), []).append(process.index)
        if process.oi or process.s or process.b:
            owners.setdefault(find(2 * process.index + 1), []).append(process.index)
    drivers = {
        timeline: [each for each in members if _is_driver(network, each)]
        for timeline, members in guests.items()
        if timeline not in owners
    }
    groups: list[LoopGroup] = []
    size = 0
    for timeline in [*owners, *(timeline for timeline, sources in drivers.items() if sources)]:
        if size > MOST_MEMBERS:
            break
        members = _members(timeline, owners, guests, find)
        size += len(members)
        candidates = owners.get(timeline) or drivers[timeline]
        reference = max(candidates, key=lambda each: (network.processes[each].steps, -each))
        groups.append(_group(network, members, tuple(owners.get(timeline, ())), reference))
    return tuple(groups)


def _is_driver(network: Network, index: int) -> bool:
    process = network.processes[index]
    return process.is_source and process.fires is not None and process.fires > 2


def _members(
    timeline: int,
    owners: Mapping[int, Sequence[int]],
    guests: Mapping[int, Sequence[int]],
    find: Callable[[int], int],
) -> set[int]:
    """Return who takes part in a timeline, and in those nested in it."""
    seen, todo = {timeline}, [timeline]
    members = set(owners.get(timeline, ()))
    while todo:
        for guest in guests.get(todo.pop(), ()):
            members.add(guest)
            nested = find(2 * guest + 1)
            if nested not in seen:
                seen.add(nested)
                todo.append(nested)
                members.update(owners.get(nested, ()))
    return members


def _group(network: Network, members: set[int], owners: tuple[int, ...], reference: int) -> LoopGroup:
    inside: list[int] = []
    leaving: list[int] = []
    entering: list[int] = []
    for index in sorted(members):
        process = network.processes[index]
        for channel in process.outputs:
            (inside if network.channels[channel].receiver in members else leaving).append(channel)
        entering += [channel for channel in process.inputs if network.channels[channel].sender not in members]
    return LoopGroup(tuple(sorted(members)), owners, reference, tuple(inside), tuple(leaving), tuple(entering))
