"""Which loops of a model go in step, and what follows from that: groups of instances that surely never deadlock.

Every submodel has two timelines: the outer one counts its runs (finit, Of), the inner one its iterations (Oi, S, B); a
mapper or terminal has one, of its firings. A coupling without counting filters joins the timelines of its two ends: the
k-th occurrence of one is the k-th of the other. If all timelines of a feedback group fit together like nested loops, a
deadlock can only be a cycle inside one pass of some loop, and those are few enough to look at, whatever the steps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from xmml.analysis.components import components
from xmml.analysis.counts import is_one_for_one
from xmml.analysis.network import Channel, Network, Process
from xmml.analysis.precedence import FINIT, OF, OI, SB, order_in_run, receiving_vertex, sending_vertex

#: Most edges that are looked at over all nested loops of one group; beyond, a group is not decided here.
_EDGE_LIMIT = 500_000


@dataclass(frozen=True)
class FeedbackGroup:
    """Instances whose messages come back to them: a strongly connected component of the coupling topology.

    Attributes:
        instances: their ids.
        channels: one for each coupling between two of them.
    """

    instances: tuple[str, ...]
    channels: tuple[Channel, ...]


def feedback_groups(network: Network) -> list[FeedbackGroup]:
    """Return the groups of instances that depend on each other. Linear in instances and couplings.

    Only inside such a group can somebody wait for itself; the couplings between groups just wait for their numbers.
    """
    names = list(network.by_instance)
    place = {name: number for number, name in enumerate(names)}
    ends = []
    successors: list[set[int]] = [set() for _ in names]
    for own in network.by_coupling:
        channel = network.channels[own[0]]
        if channel.is_state:
            continue
        sender = place[network.processes[channel.sender].instance]
        receiver = place[network.processes[channel.receiver].instance]
        ends.append((sender, receiver, channel))
        successors[sender].add(receiver)
    group_of = [0] * len(names)
    groups = components([tuple(sorted(each)) for each in successors])
    for number, group in enumerate(groups):
        for member in group:
            group_of[member] = number
    inside: dict[int, list[Channel]] = defaultdict(list)
    for sender, receiver, channel in ends:
        if group_of[sender] == group_of[receiver]:
            inside[group_of[sender]].append(channel)
    return [
        FeedbackGroup(tuple(names[member] for member in sorted(groups[number])), tuple(channels))
        for number, channels in sorted(inside.items())
    ]


def is_surely_live(network: Network, group: FeedbackGroup) -> bool:
    """Whether no deadlock is possible inside a feedback group, given that enough messages reach it.

    False means that it takes a simulation to know. Why True holds: number the occurrences of an operator by the passes
    of the loops around it. A message joins occurrences of the same numbers, and going on to the next pass of a loop
    raises a number. So a cycle of waits stays inside one pass of the outermost loop it touches; in that pass, loops
    further inside may go round. `_may_cycle` looks for such cycles.
    """
    processes = {name: network.processes[network.by_instance[name][0]] for name in group.instances}
    if any(not network.model.instances[name].check_order for name in group.instances):
        return False
    if any(not is_one_for_one(channel.filters) for channel in group.channels):
        return False
    timelines = _fit_timelines(processes, group, network)
    return timelines is not None and not _may_cycle(processes, group, network, timelines)


class _Classes:
    """Disjoint sets of numbers (Tarjan, 1975)."""

    def __init__(self, size: int) -> None:
        self.parent = list(range(size))

    def find(self, member: int) -> int:
        parent = self.parent
        while parent[member] != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    def union(self, one: int, other: int) -> bool:
        """Join two sets; return whether they were different."""
        one, other = self.find(one), self.find(other)
        self.parent[other] = one
        return one != other


def _loops(process: Process) -> bool:
    """Whether a run may have more than one iteration."""
    return process.is_submodel and (process.until or process.steps > 1)


@dataclass(frozen=True)
class _Timelines:
    """The timelines of a group: the class of both timelines of each instance, and the class around each class."""

    outer: dict[str, int]
    inner: dict[str, int]
    around: dict[int, int]
    depth: dict[int, int]


def _fit_timelines(processes: dict[str, Process], group: FeedbackGroup, network: Network) -> _Timelines | None:
    """Return the timelines of a group, or `None` if they do not fit together like nested loops."""
    place = {name: number for number, name in enumerate(group.instances)}
    classes = _Classes(2 * len(place))
    looping = set()
    for channel in group.channels:
        ends = []
        for process, operator in (
            (network.processes[channel.sender], channel.sender_operator),
            (network.processes[channel.receiver], channel.receiver_operator),
        ):
            is_inner = operator in ("Oi", "S", "B")
            if is_inner:
                looping.add(process.instance)
            ends.append(2 * place[process.instance] + is_inner)
        classes.union(*ends)
    for name, process in processes.items():
        if not _loops(process):
            classes.union(2 * place[name], 2 * place[name] + 1)
    looping = {name for name in looping if _loops(processes[name])}
    changed = True
    while changed:  # whose iterations go in step, their runs do too
        changed = False
        first: dict[int, int] = {}
        for name in sorted(looping):
            number = place[name]
            other = first.setdefault(classes.find(2 * number + 1), number)
            changed |= classes.union(2 * other, 2 * number)
    steps: dict[int, int] = {}
    around: dict[int, int] = {}
    for name in sorted(looping):
        process, number = processes[name], place[name]
        outer, inner = classes.find(2 * number), classes.find(2 * number + 1)
        if inner == outer or (inner in steps and (process.until or steps[inner] != process.steps)):
            return None
        steps[inner] = 0 if process.until else process.steps  # 0: equal to no other
        around[inner] = outer
    depth = _depths(around)
    if depth is None:
        return None
    return _Timelines(
        outer={name: classes.find(2 * number) for name, number in place.items()},
        inner={name: classes.find(2 * number + 1) for name, number in place.items()},
        around=around,
        depth=depth,
    )


def _depths(around: dict[int, int]) -> dict[int, int] | None:
    """Return how many loops are around each timeline, or `None` if one is, in the end, around itself."""
    depth: dict[int, int] = {}
    for start in around:
        path = [start]
        while path[-1] in around and path[-1] not in depth:
            path.append(around[path[-1]])
            if len(path) > len(around) + 1:
                return None
        for timeline in reversed(path):
            depth[timeline] = depth[around[timeline]] + 1 if timeline in around else 0
    return depth


def _may_cycle(processes: dict[str, Process], group: FeedbackGroup, network: Network, timelines: _Timelines) -> bool:
    """Whether waits may form a cycle inside one pass of some loop.

    For each loop, look at the precedences in one of its passes, with the loops inside it going round: a cycle that
    stays in the loops inside was looked at there; one that touches the loop itself may be a deadlock.
    """
    place = {name: number for number, name in enumerate(group.instances)}
    timeline_of = [0] * (4 * len(place))
    edges: list[tuple[int, int, int]] = []  # from, to, the innermost timeline whose pass it belongs to

    def around(timeline: int) -> int:
        return timelines.around.get(timeline, -1)

    for name, number in place.items():
        outer, inner = timelines.outer[name], timelines.inner[name]
        for vertex, timeline in ((FINIT, outer), (OI, inner), (SB, inner), (OF, outer)):
            timeline_of[4 * number + vertex] = timeline
        if processes[name].is_submodel:
            for before, after in order_in_run(network, name):
                edges.append((4 * number + before, 4 * number + after, inner if (before, after) == (OI, SB) else outer))
            if _loops(processes[name]):
                edges.append((4 * number + SB, 4 * number + OI, around(inner)))
            edges.append((4 * number + OF, 4 * number + FINIT, around(outer)))
    for channel in group.channels:
        sender = 4 * place[network.processes[channel.sender].instance] + sending_vertex(channel)
        receiver = 4 * place[network.processes[channel.receiver].instance] + receiving_vertex(channel)
        edges.append((sender, receiver, timeline_of[sender]))
    passes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    looked_at = 0
    for before, after, timeline in edges:
        while timeline != -1:
            passes[timeline].append((before, after))
            looked_at += 1
            timeline = around(timeline)
        if looked_at > _EDGE_LIMIT:
            return True
    return any(_cycle_touches(timeline, pairs, timeline_of) for timeline, pairs in passes.items())


def _cycle_touches(timeline: int, edges: list[tuple[int, int]], timeline_of: list[int]) -> bool:
    """Whether a cycle of the edges has a vertex on the timeline."""
    numbers: dict[int, int] = {}
    successors: list[list[int]] = []
    for before, after in edges:
        for vertex in (before, after):
            if vertex not in numbers:
                numbers[vertex] = len(numbers)
                successors.append([])
        successors[numbers[before]].append(numbers[after])
    vertices = list(numbers)
    return any(
        (len(group) > 1 or group[0] in successors[group[0]])
        and any(timeline_of[vertices[member]] == timeline for member in group)
        for group in components(successors)
    )
