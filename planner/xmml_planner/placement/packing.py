"""Whether what has to lie on one node each fits onto the nodes of a site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, islice

import networkx

from xmml.late_dataclass import dataclass
from xmml_planner.placement.demands import Demands, Group, Turns
from xmml_planner.sites.catalogue import Site

#: So many choices of groups that run at the same time are looked at.
_MOST_CHOICES = 200


@dataclass(frozen=True)
class Piece:
    """One rank of a program: what it takes of a node.

    Attributes:
        unit: whose.
        memory: bytes; 0 also where nobody has said.
    """

    unit: int
    cores: int
    memory: int
    gpus: int


def fits(pieces: Sequence[Piece], site: Site) -> bool:
    """Return whether all pieces fit onto the nodes: first fit by decreasing size, then best fit.

    Both are heuristics: they may miss the last bit of a site that is filled to the brim, and never fill it too much.
    """
    return any(_packs(sorted(pieces, key=size, reverse=True), site, best) for size in _SIZES for best in (False, True))


_SIZES = (
    lambda piece: (piece.cores, piece.gpus, piece.memory),
    lambda piece: (piece.gpus, piece.memory, piece.cores),
)


def _packs(pieces: Sequence[Piece], site: Site, best: bool) -> bool:
    memory = site.memory_bytes if site.memory_bytes is not None else 1 << 62
    free = [[site.cores, memory, site.gpus] for _ in range(min(site.nodes, len(pieces)))]
    for piece in pieces:
        fitting = [
            node for node in free if node[0] >= piece.cores and node[1] >= piece.memory and node[2] >= piece.gpus
        ]
        if not fitting:
            return False
        node = min(fitting, key=lambda each: each[0]) if best else fitting[0]
        node[0] -= piece.cores
        node[1] -= piece.memory
        node[2] -= piece.gpus
    return True


def roomy_cores(site: Site, wanted: Demands) -> int:
    """Return how many cores of a site always find a node: where the largest piece has no room any more, at most so many
    cores as it has, less one, are idle."""
    largest = max((unit.cores_of_rank for unit in wanted.units if unit.cores_of_rank <= site.cores), default=1)
    return site.nodes * (site.cores - max(0, largest - 1))


def pieces_at(wanted: Demands, counts: Mapping[int, int]) -> list[list[Piece]]:
    """Return the pieces of the units at a site; `counts` says how many copies of each are there.

    Where units share cores by turns, those of the larger side count. Where groups come one after the other, there is a
    list for each choice of groups that may run at the same time.
    """
    by_group = {}
    for number in sorted({wanted.group_of[unit] for unit in counts}):
        own = pieces_of_group(wanted, wanted.groups[number], counts)
        if own:
            by_group[number] = own
    return [
        [piece for number in together for piece in by_group[number]]
        for together in at_the_same_time(wanted, list(by_group))
    ]


def pieces_of_group(wanted: Demands, group: Group, counts: Mapping[int, int]) -> list[Piece]:
    """Return the pieces of one group."""
    if not any(counts.get(unit) for unit in group.units):
        return []
    turns = {turn.caller: turn for turn in group.turns}
    called = {unit for turn in group.turns for unit in turn.called}
    return [piece for unit in group.units if unit not in called for piece in _of_tree(wanted, counts, unit, turns)]


def at_the_same_time(wanted: Demands, groups: Sequence[int]) -> list[Sequence[int]]:
    """Return the largest choices of groups of which none is over before another begins."""
    order = networkx.DiGraph(wanted.before)
    after = {number: networkx.descendants(order, number) if number in order else set() for number in groups}
    if all(after[one].isdisjoint(groups) for one in groups):
        return [groups]
    parallel = networkx.Graph()
    parallel.add_nodes_from(groups)
    parallel.add_edges_from(
        (one, other) for one, other in combinations(groups, 2) if other not in after[one] and one not in after[other]
    )
    return [sorted(clique) for clique in islice(networkx.find_cliques(parallel), _MOST_CHOICES)]


def _of_tree(wanted: Demands, counts: Mapping[int, int], root: int, turns: Mapping[int, Turns]) -> list[Piece]:
    unit = wanted.units[root]
    own = [
        Piece(root, unit.cores_of_rank, unit.memory_of_rank, unit.gpus_of_rank)
        for _ in range(counts.get(root, 0) * (unit.ranks if unit.cores else 1))
        if unit.cores or unit.memory_of_rank or unit.gpus_of_rank
    ]
    if root not in turns:
        return own
    below = [piece for each in turns[root].called for piece in _of_tree(wanted, counts, each, turns)]
    larger, smaller = sorted((own, below), key=lambda side: sum(piece.cores for piece in side), reverse=True)
    # the cores of the smaller side are shared, its memory and GPUs are not
    return larger + [Piece(each.unit, 0, each.memory, each.gpus) for each in smaller if each.memory or each.gpus]
