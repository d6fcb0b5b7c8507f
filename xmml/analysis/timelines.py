"""Which loops of a model go in step, and what follows from that: groups of instances that surely never deadlock.

Every submodel has two timelines: the outer one counts its runs (finit, Of), the inner one its iterations (Oi, S, B); a
mapper or terminal has one, of its firings. A coupling without counting filters joins the timelines of its two ends: the
k-th occurrence of one is the k-th of the other. If all timelines of a feedback group fit together like nested loops, a
deadlock can only be a cycle inside one pass of some loop, and those are few enough to look at, whatever the steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from xmml.analysis.components import components
from xmml.analysis.filter_counts import NO_FILTERS
from xmml.analysis.filter_numbers import is_one_for_one
from xmml.analysis.network import Channel, Network, Process
from xmml.analysis.precedence import FINIT, OF, OI, SB, Precedences, order_in_run
from xmml.late_dataclass import dataclass

#: Most edges that are looked at over all nested loops of one group; beyond, a group is not decided here.
_EDGE_LIMIT = 500_000


@dataclass(frozen=True)
class FeedbackGroup:
    """Instances whose messages come back to them: a strongly connected component of the coupling topology.

    Attributes:
        instances: their ids.
        edges: for each coupling between two of them, the vertex of the send, that of the receive (see
            `xmml.analysis.precedence`, but the n-th instance is the n-th of this group), and a channel.
    """

    instances: tuple[str, ...]
    edges: tuple[tuple[int, int, Channel], ...]

    @property
    def channels(self) -> Iterator[Channel]:
        """One channel for each coupling between two of the instances."""
        return (channel for _, _, channel in self.edges)


def feedback_groups(couplings: Precedences) -> list[FeedbackGroup]:
    """Return the groups of instances that depend on each other. Linear in instances and couplings.

    Only inside such a group can somebody wait for itself; the couplings between groups just wait for their numbers.
    """
    names = couplings.instances
    successors: list[dict[int, None]] = [{} for _ in names]
    for sends, receives, _ in couplings.edges:
        successors[sends // 4][receives // 4] = None
    groups = [sorted(group) for group in components([tuple(each) for each in successors])]
    group_of, place = [0] * len(names), [0] * len(names)
    for number, group in enumerate(groups):
        for position, member in enumerate(group):
            group_of[member], place[member] = number, position
    inside: dict[int, list[tuple[int, int, Channel]]] = defaultdict(list)
    for sends, receives, channel in couplings.edges:
        sender, receiver = sends // 4, receives // 4
        if group_of[sender] == group_of[receiver]:
            edge = (4 * place[sender] + sends % 4, 4 * place[receiver] + receives % 4, channel)
            inside[group_of[sender]].append(edge)
    return [
        FeedbackGroup(tuple(names[member] for member in groups[number]), tuple(edges))
        for number, edges in sorted(inside.items())
    ]


def is_surely_live(network: Network, group: FeedbackGroup) -> bool:
    """Whether no deadlock is possible inside a feedback group, given that enough messages reach it.

    False means that it takes a simulation to know. Why True holds: number the occurrences of an operator by the passes
    of the loops around it. A message joins occurrences of the same numbers, and going on to the next pass of a loop
    raises a number. So a cycle of waits stays inside one pass of the outermost loop it touches; in that pass, loops
    further inside may go round. `_may_cycle` looks for such cycles.
    """
    if any(not network.model.instances[name].check_order for name in group.instances):
        return False
    if any(channel.filters is not NO_FILTERS and not is_one_for_one(channel.filters) for channel in group.channels):
        return False
    processes = [network.processes[network.by_instance[name][0]] for name in group.instances]
    timelines = _fit_timelines(processes, group)
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
    """The timelines of a group: that of both kinds of operators of each instance, and the one around each."""

    outer: list[int]
    inner: list[int]
    around: dict[int, int]


def _fit_timelines(processes: Sequence[Process], group: FeedbackGroup) -> _Timelines | None:
    """Return the timelines of a group, or `None` if they do not fit together like nested loops."""
    classes = _Classes(2 * len(processes))  # the outer timeline of the n-th instance is 2n, the inner one 2n + 1
    for sends, receives, _ in group.edges:
        one = sends // 4 * 2 + (sends % 4 in (OI, SB))
        classes.union(one, receives // 4 * 2 + (receives % 4 in (OI, SB)))
    looping = [number for number, process in enumerate(processes) if _loops(process)]
    for number, process in enumerate(processes):
        if not _loops(process):
            classes.union(2 * number, 2 * number + 1)
    changed = True
    while changed:  # whose iterations go in step, their runs do too
        changed = False
        first: dict[int, int] = {}
        for number in looping:
            other = first.setdefault(classes.find(2 * number + 1), number)
            changed |= classes.union(2 * other, 2 * number)
    steps: dict[int, int] = {}
    around: dict[int, int] = {}
    for number in looping:
        process = processes[number]
        outer, inner = classes.find(2 * number), classes.find(2 * number + 1)
        if inner == outer or (inner in steps and (process.until or steps[inner] != process.steps)):
            return None
        steps[inner] = 0 if process.until else process.steps  # 0: equal to no other
        around[inner] = outer
    if not _is_nested(around):
        return None
    find = classes.find
    numbers = range(len(processes))
    return _Timelines([find(2 * each) for each in numbers], [find(2 * each + 1) for each in numbers], around)


def _is_nested(around: dict[int, int]) -> bool:
    """Whether no timeline is, in the end, around itself."""
    outermost: set[int] = set()
    for timeline in around:
        path = [timeline]
        while path[-1] in around and path[-1] not in outermost:
            path.append(around[path[-1]])
            if len(path) > len(around) + 1:
                return False
        outermost.update(path)
    return True


def _may_cycle(processes: Sequence[Process], group: FeedbackGroup, network: Network, timelines: _Timelines) -> bool:
    """Whether waits may form a cycle inside one pass of some loop.

    For each loop, look at the precedences in one of its passes, with the loops inside it going round: a cycle that
    stays in the loops inside was looked at there; one that touches the loop itself may be a deadlock.
    """
    timeline_of: list[int] = []
    edges: dict[tuple[int, int], int] = {}  # by from and to, the innermost timeline whose pass it belongs to

    def around(timeline: int) -> int:
        return timelines.around.get(timeline, -1)

    for number, (process, outer, inner) in enumerate(zip(processes, timelines.outer, timelines.inner, strict=True)):
        timeline_of += [outer, inner, inner, outer]
        if not process.is_submodel:
            continue
        first = 4 * number
        for before, after in order_in_run(network, group.instances[number]):
            edges[first + before, first + after] = inner if (before, after) == (OI, SB) else outer
        if _loops(process):
            edges[first + SB, first + OI] = around(inner)
        edges[first + OF, first + FINIT] = around(outer)
    for sends, receives, _ in group.edges:
        edges[sends, receives] = timeline_of[sends]
    passes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    looked_at = 0
    for (before, after), timeline in edges.items():
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
