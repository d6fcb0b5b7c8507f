"""Where in a job its instances run: on which node, on which of its cores, with which of its GPUs.

Ranks are packed as in `packing`: the largest first, each onto the first node that has room, or onto the fullest one.
Of all numbers of cores that the job could ask for on each node, the smallest one is taken with which that works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import networkx

from xmml.late_dataclass import dataclass
from xmml_planner.execution_plan import NodeShare
from xmml_planner.placement.demands import Demands, Group, Turns
from xmml_planner.sites.catalogue import Site

#: Memory of a node of which nobody has said how much it has.
_PLENTY = 1 << 62


@dataclass(frozen=True)
class Layout:
    """How a job fills its nodes.

    Attributes:
        nodes: how many it has.
        cores, memory_bytes, gpus: the most that it needs on one of them; memory 0: not known.
        shares: by process of the network, what it has of each of its nodes.
    """

    nodes: int
    cores: int
    memory_bytes: int
    gpus: int
    shares: Mapping[int, tuple[NodeShare, ...]]


@dataclass(frozen=True)
class _Rank:
    """What has to be found on one node: a rank of a process, or the whole of a process that has no ranks."""

    process: int
    number: int
    cores: int
    memory: int
    gpus: int


@dataclass(frozen=True)
class _Seat:
    """Where a rank is."""

    node: int
    cores: tuple[int, ...]
    gpus: tuple[int, ...]
    takes_turns: bool


@dataclass(frozen=True)
class _Round:
    """Ranks that are placed together.

    Attributes:
        ranks: those that have cores of their own.
        by_turns: those that use cores of others, since these wait while they compute; with these others.
        beside: earlier rounds whose ranks may run at the same time.
    """

    ranks: Sequence[_Rank]
    by_turns: Sequence[tuple[Sequence[_Rank], Sequence[_Rank]]]
    beside: Sequence[int] = ()


_Seats = dict[_Rank, _Seat]


def lay_out(
    wanted: Demands,
    groups: Sequence[int],
    here: Mapping[int, Sequence[int]],
    site: Site,
    neighbours: Callable[[int], Iterable[int]],
) -> Layout:
    """Return where the instances of a job run.

    Args:
        groups: the groups of the job, in the order in which they begin.
        here: the processes at the site, by unit.
        site: where the job is.
        neighbours: returns the processes with which a process exchanges messages: what only hands messages on runs on
            the node of one of them.
    """
    rounds = _rounds(wanted, groups, here)
    nodes, seats = _packed(rounds, site)
    by_process: dict[int, list[tuple[_Rank, _Seat]]] = {}
    for rank in sorted(seats, key=lambda each: (each.process, each.number)):
        by_process.setdefault(rank.process, []).append((rank, seats[rank]))
    shares = {process: _shares(ranks) for process, ranks in by_process.items()}
    _put_beside([process for own in here.values() for process in own if process not in shares], shares, neighbours)
    return Layout(
        nodes=nodes,
        cores=1 + max((core for seat in seats.values() for core in seat.cores), default=0),
        memory_bytes=_most_memory(rounds, seats),
        gpus=1 + max((gpu for seat in seats.values() for gpu in seat.gpus), default=-1),
        shares=shares,
    )


# --- what is placed -------------------------------------------------------------------------------------------------


def _rounds(wanted: Demands, groups: Sequence[int], here: Mapping[int, Sequence[int]]) -> list[_Round]:
    """Return the groups as one round if none is over before another begins, else as one round each."""
    each = [_round(wanted, wanted.groups[number], here) for number in groups]
    order = networkx.DiGraph(wanted.before)
    after = {number: networkx.descendants(order, number) if number in order else set() for number in groups}
    if not any(other in after[one] for one in groups for other in groups):
        return [_Round([rank for own in each for rank in own.ranks], [turns for own in each for turns in own.by_turns])]
    return [
        _Round(own.ranks, own.by_turns, [before for before in range(at) if number not in after[groups[before]]])
        for at, (number, own) in enumerate(zip(groups, each, strict=True))
    ]


def _round(wanted: Demands, group: Group, here: Mapping[int, Sequence[int]]) -> _Round:
    turns = {turn.caller: turn for turn in group.turns}
    called = {unit for turn in group.turns for unit in turn.called}
    trees = [_tree(wanted, here, unit, turns) for unit in group.units if unit not in called]
    return _Round([rank for own in trees for rank in own.ranks], [turns for own in trees for turns in own.by_turns])


def _tree(wanted: Demands, here: Mapping[int, Sequence[int]], root: int, turns: Mapping[int, Turns]) -> _Round:
    """Return the ranks of a unit and of those that it calls: the side that needs fewer cores uses those of the
    other."""
    unit = wanted.units[root]
    ranks = unit.ranks if unit.cores else 1
    computes = unit.cores or unit.memory_of_rank or unit.gpus_of_rank
    own = [
        _Rank(process, number, unit.cores_of_rank, unit.memory_of_rank, unit.gpus_of_rank)
        for process in (here.get(root, ()) if computes else ())
        for number in range(ranks)
    ]
    below = [_tree(wanted, here, each, turns) for each in (turns[root].called if root in turns else ())]
    called = [rank for each in below for rank in each.ranks]
    by_turns = [turns for each in below for turns in each.by_turns]
    if not own or not called:
        return _Round(own + called, by_turns)
    larger, smaller = sorted((own, called), key=lambda side: sum(rank.cores for rank in side), reverse=True)
    return _Round(larger, [(smaller, larger), *by_turns])


# --- packing --------------------------------------------------------------------------------------------------------


class _Node:
    """What is free of a node."""

    def __init__(self, cores: int, memory: int, gpus: int) -> None:
        self.cores, self.memory, self.gpus = list(range(cores)), memory, list(range(gpus))

    def has_room(self, rank: _Rank) -> bool:
        return len(self.cores) >= rank.cores and self.has_room_beside_cores(rank)

    def has_room_beside_cores(self, rank: _Rank) -> bool:
        return self.memory >= rank.memory and len(self.gpus) >= rank.gpus

    def seat(self, number: int, rank: _Rank) -> _Seat:
        """Take what a rank needs."""
        seat = _Seat(number, tuple(self.cores[: rank.cores]), tuple(self.gpus[: rank.gpus]), takes_turns=False)
        self.take(rank, seat)
        return seat

    def take(self, rank: _Rank, seat: _Seat) -> None:
        self.cores = [core for core in self.cores if core not in seat.cores]
        self.gpus = [gpu for gpu in self.gpus if gpu not in seat.gpus]
        self.memory -= rank.memory


def _packed(rounds: Sequence[_Round], site: Site) -> tuple[int, _Seats]:
    """Return on how many nodes everything is, and where. What finds no room, which the placement has taken care of but
    for what its heuristics miss, uses the cores of others."""
    largest = max((rank.cores for each in rounds for rank in each.ranks), default=0)
    cores = max((sum(rank.cores for rank in each.ranks) for each in rounds), default=0)
    gpus = max((sum(rank.gpus for rank in each.ranks) for each in rounds), default=0)

    def packed(nodes: int, of_each: int) -> _Seats | None:
        ways = (_pack(rounds, nodes, of_each, site, size, best) for size in _SIZES for best in (False, True))
        return next((seats for seats in ways if seats is not None), None)

    least = max(1, -(-cores // site.cores), -(-gpus // max(1, site.gpus)))
    nodes = _least(least, site.nodes, lambda number: packed(number, site.cores) is not None)
    if nodes is not None:
        for of_each in range(max(1, largest, -(-cores // nodes)), site.cores + 1):
            seats = packed(nodes, of_each)
            if seats is not None:
                return nodes, seats
    seats = _pack(rounds, site.nodes, site.cores, site, _SIZES[0], best=False, crowded=True)
    assert seats is not None
    return site.nodes, seats


def _least(least: int, most: int, works: Callable[[int], bool]) -> int | None:
    """Return the smallest number that works, if all greater ones do, too; `None`: none does.

    Small ones are tried first.
    """
    fails, step = least - 1, 1
    while fails < most and not works(number := min(fails + step, most)):
        fails, step = number, 2 * step
    if fails >= most:
        return None
    while number - fails > 1:
        middle = (fails + number) // 2
        fails, number = (fails, middle) if works(middle) else (middle, number)
    return number


_Size = Callable[[_Rank], tuple[int, ...]]
_SIZES: tuple[_Size, ...] = (
    lambda rank: (rank.cores, rank.gpus, rank.memory),
    lambda rank: (rank.gpus, rank.memory, rank.cores),
)


def _pack(
    rounds: Sequence[_Round], nodes: int, cores: int, site: Site, size: _Size, best: bool, *, crowded: bool = False
) -> _Seats | None:
    """Return a seat for every rank on nodes of which so many cores are used; `None`: this way one finds none.

    Args:
        best: it is put onto the fullest node that has room, instead of the first one.
        crowded: what finds no room is put where most is free.
    """
    found: list[_Seats] = []
    for each in rounds:
        free = _free(nodes, cores, site, [found[before] for before in each.beside])
        seats: _Seats = {}
        for rank in sorted(each.ranks, key=size, reverse=True):
            fitting = [number for number in range(nodes) if free[number].has_room(rank)]
            if fitting:
                number = min(fitting, key=lambda at: len(free[at].cores)) if best else fitting[0]
                seats[rank] = free[number].seat(number, rank)
            elif crowded:
                number = max(range(nodes), key=lambda at: len(free[at].cores))
                seats[rank] = _Seat(number, (), (), takes_turns=True)
            else:
                return None
        for ranks, others in each.by_turns:
            if not _seat_by_turns(ranks, others, seats, free, crowded=crowded):
                return None
        found.append(seats)
    return {rank: seat for seats in found for rank, seat in seats.items()}


def _free(nodes: int, cores: int, site: Site, taken: Iterable[_Seats]) -> list[_Node]:
    memory = site.memory_bytes if site.memory_bytes is not None else _PLENTY
    free = [_Node(cores, memory, site.gpus) for _ in range(nodes)]
    for seats in taken:
        for rank, seat in seats.items():
            free[seat.node].take(rank, seat)
    return free


def _seat_by_turns(
    ranks: Sequence[_Rank], others: Sequence[_Rank], seats: _Seats, free: Sequence[_Node], *, crowded: bool
) -> bool:
    """Give ranks the cores of others, each core to one of them as long as there are enough.

    Where these have no memory or GPUs left, ranks get what another node has. Return whether all have found a place.
    """
    cores: dict[int, list[int]] = {}
    for other in others:
        cores.setdefault(seats[other].node, []).extend(seats[other].cores)
    left = {node: list(own) for node, own in cores.items()}
    for rank in ranks:
        fitting = [node for node in cores if free[node].has_room_beside_cores(rank)]
        if not fitting:
            fitting = [node for node in range(len(free)) if free[node].has_room_beside_cores(rank)]
        if not fitting and not crowded:
            return False
        node = max(fitting or cores, key=lambda each: len(left.get(each, free[each].cores)))
        if node not in cores:
            seats[rank] = free[node].seat(node, rank)
            continue
        if len(left[node]) < rank.cores:
            left[node] = list(cores[node])
        own, left[node] = left[node][: rank.cores], left[node][rank.cores :]
        seats[rank] = _Seat(node, tuple(own), tuple(free[node].gpus[: rank.gpus]), takes_turns=True)
        free[node].take(rank, seats[rank])
    return True


# --- what is said of it ---------------------------------------------------------------------------------------------


def _shares(ranks: Sequence[tuple[_Rank, _Seat]]) -> tuple[NodeShare, ...]:
    """Return what a process has of each node, from where its ranks are."""
    by_node: dict[int, list[tuple[_Rank, _Seat]]] = {}
    for rank, seat in ranks:
        by_node.setdefault(seat.node, []).append((rank, seat))
    return tuple(
        NodeShare(
            node,
            len(own),
            tuple(core for _, seat in own for core in seat.cores),
            tuple(gpu for _, seat in own for gpu in seat.gpus),
            sum(rank.memory for rank, _ in own),
            takes_turns=any(seat.takes_turns for _, seat in own),
        )
        for node, own in sorted(by_node.items())
    )


def _put_beside(
    processes: Sequence[int], shares: dict[int, tuple[NodeShare, ...]], neighbours: Callable[[int], Iterable[int]]
) -> None:
    """Put processes that need nothing onto the node of a neighbour."""
    while processes:
        nodes = {
            process: next((shares[other][0].node for other in neighbours(process) if other in shares), None)
            for process in processes
        }
        found = {process: (NodeShare(node),) for process, node in nodes.items() if node is not None}
        shares |= found or {process: (NodeShare(0),) for process in processes}
        processes = [process for process in processes if process not in shares]


def _most_memory(rounds: Sequence[_Round], seats: _Seats) -> int:
    """Return how much is needed on one node at the same time."""
    needed = []
    for at, each in enumerate(rounds):
        together = [
            each,
            *(other for number, other in enumerate(rounds) if at in other.beside or number in each.beside),
        ]
        by_node: dict[int, int] = {}
        for one in together:
            for rank in (*one.ranks, *(rank for ranks, _ in one.by_turns for rank in ranks)):
                by_node[seats[rank].node] = by_node.get(seats[rank].node, 0) + rank.memory
        needed.append(max(by_node.values(), default=0))
    return max(needed, default=0)
