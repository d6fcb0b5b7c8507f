"""Deadlocks that no number of steps can avoid: cycles in which everybody waits for somebody else's first message.

Within a run the operators follow each other, finit, Oi, then S and B in any order, then Of; a receive follows the send
of its message. If these precedences of one run and one iteration alone form a cycle, none of its operators is ever
carried out. The graph has four vertices for each submodel and one for each mapper or terminal, whatever the number of
steps, so this takes time linear in instances and couplings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xmml.analysis.network import Channel, Network
from xmml.model import Operator

#: The operators as vertices: S and B of an iteration are one, since their order does not matter.
FINIT, OI, SB, OF = range(4)
_VERTEX = {"finit": FINIT, "Oi": OI, "S": SB, "B": SB, "Of": OF}


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


def zero_delay_cycles(network: Network) -> list[Cycle]:
    """Return one shortest cycle of each group of operators that wait for each other.

    Tarjan's algorithm finds the groups, a breadth-first search the cycle in each. Linear in instances and couplings.
    """
    names = list(network.by_instance)
    place = {name: number for number, name in enumerate(names)}
    submodel = [network.processes[network.by_instance[name][0]].is_submodel for name in names]
    size = 4 * len(names)
    successors: list[list[int]] = [[] for _ in range(size)]
    by_edge: dict[tuple[int, int], Channel] = {}
    for number in range(len(names)):
        if submodel[number]:
            first = 4 * number
            for vertex in (FINIT, OI, SB):
                successors[first + vertex].append(first + vertex + 1)
    for own in network.by_coupling:
        channel = network.channels[own[0]]
        if channel.is_state:
            continue
        sender = place[network.processes[channel.sender].instance]
        receiver = place[network.processes[channel.receiver].instance]
        sends = _VERTEX[channel.sender_operator] if channel.sender_operator else 0
        if channel.filters.waits_for_end_of_run and channel.sender_operator:
            sends = OF
        receives = _VERTEX[channel.receiver_operator] if channel.receiver_operator else 0
        edge = (4 * sender + sends, 4 * receiver + receives)
        if edge not in by_edge:
            by_edge[edge] = channel
            successors[edge[0]].append(edge[1])
    cycles = []
    for component in components(successors):
        if len(component) > 1 or component[0] in successors[component[0]]:
            vertices = _shortest_cycle(component, successors)
            cycles.append(_cycle(vertices, by_edge, network))
    return cycles


def components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, successors first.

    Tarjan, "Depth-first search and linear graph algorithms", 1972, without recursion. Linear in vertices and edges.
    """
    size = len(successors)
    index, low = [0] * size, [0] * size
    on_stack = bytearray(size)
    stack: list[int] = []
    found: list[list[int]] = []
    counter = 0
    for root in range(size):
        if index[root]:
            continue
        counter += 1
        index[root] = low[root] = counter
        stack.append(root)
        on_stack[root] = 1
        path = [(root, iter(successors[root]))]
        while path:
            vertex, remaining = path[-1]
            for other in remaining:
                if not index[other]:
                    counter += 1
                    index[other] = low[other] = counter
                    stack.append(other)
                    on_stack[other] = 1
                    path.append((other, iter(successors[other])))
                    break
                if on_stack[other] and index[other] < low[vertex]:
                    low[vertex] = index[other]
            else:
                path.pop()
                if path and low[vertex] < low[path[-1][0]]:
                    low[path[-1][0]] = low[vertex]
                if low[vertex] == index[vertex]:
                    component = []
                    while True:
                        other = stack.pop()
                        on_stack[other] = 0
                        component.append(other)
                        if other == vertex:
                            break
                    found.append(component)
    return found


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
        if before + 1 == vertex and before // 4 == vertex // 4:
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
