"""Deadlocks that no number of steps can avoid: cycles in which everybody waits for somebody else's first message.

If the precedences of one run and one iteration alone form a cycle, none of its operators is ever carried out. The graph
has four vertices for each submodel and one for each mapper or terminal, whatever the number of steps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xmml.analysis.components import components
from xmml.analysis.network import Channel, Network
from xmml.analysis.precedence import Precedences, order_in_run
from xmml.model import Operator


@dataclass(frozen=True, slots=True)
class Wait:
    """One instance waits for another.

    Attributes:
        instance, operator: who waits, and where in its run (`None` for a mapper or terminal).
        coupling: the coupling whose message it waits for.
        for_instance: who should send it.
        until_operator: where in its run that one sends it.
        filtered: the message is let go only at the end of the sender's run, by the filter `last`.
    """

    instance: str
    operator: Operator | None
    coupling: int
    for_instance: str
    until_operator: Operator | None
    filtered: bool = False


@dataclass(frozen=True, slots=True)
class Cycle:
    """Instances each of which waits for the next, the last for the first."""

    waits: tuple[Wait, ...]


def zero_delay_cycles(network: Network, couplings: Precedences, idle: Collection[str] = ()) -> list[Cycle]:
    """Return one shortest cycle of each group of operators that wait for each other.

    Tarjan's algorithm finds the groups, a breadth-first search the cycle in each. Linear in instances and couplings.

    Args:
        network: the network of a model.
        couplings: its couplings as `precedences` gives them.
        idle: instances that never run: they leave, so nobody waits for them for ever.
    """
    successors: list[list[int]] = [[] for _ in range(4 * len(couplings.instances))]
    for number, name in enumerate(couplings.instances):
        for before, after in order_in_run(network, name):
            successors[4 * number + before].append(4 * number + after)
    waiting_not = {number for number, name in enumerate(couplings.instances) if name in idle}
    by_edge: dict[tuple[int, int], Channel] = {}
    for sends, receives, channel in couplings.edges:
        if receives // 4 not in waiting_not and (sends, receives) not in by_edge:
            by_edge[sends, receives] = channel
            successors[sends].append(receives)
    cycles = []
    for component in components(successors):
        if len(component) > 1 or component[0] in successors[component[0]]:
            vertices = _shortest_cycle(component, successors)
            cycles.append(_cycle(vertices, by_edge, network))
    return cycles


def _shortest_cycle(component: Sequence[int], successors: Sequence[Sequence[int]]) -> list[int]:
    """Return a cycle through the smallest vertex of a component, with as few vertices as possible."""
    inside = set(component)
    start = min(component)
    before = {start: start}
    queue = [start]
    for vertex in queue:
        for other in successors[vertex]:
            if other == start:
                path = [vertex]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return path[::-1]
            if other in inside and other not in before:
                before[other] = vertex
                queue.append(other)
    raise AssertionError("a strongly connected component has a cycle through each of its vertices")


def _cycle(vertices: Sequence[int], by_edge: dict[tuple[int, int], Channel], network: Network) -> Cycle:
    """Return the waits of a cycle of vertices, in the order in which each waits for the next."""
    waits = []
    for place, vertex in enumerate(vertices):
        before = vertices[place - 1]
        if before < vertex and before // 4 == vertex // 4:
            continue  # the order of the operators within one run
        channel = by_edge[before, vertex]
        waits.append(
            Wait(
                instance=network.processes[channel.receiver].instance,
                operator=channel.receiver_operator,
                coupling=channel.coupling,
                for_instance=network.processes[channel.sender].instance,
                until_operator=channel.sender_operator,
                filtered=channel.filters.waits_for_end_of_run,
            )
        )
    return Cycle(tuple(reversed(waits)))
