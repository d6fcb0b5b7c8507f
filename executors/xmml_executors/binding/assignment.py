"""Which cores each process gets: a pure function of the free cores, what processes want, and who talks to whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle

from xmml.late_dataclass import dataclass
from xmml_executors.binding.topology import Core

#: How many couplings join two processes; the names of a pair stand in alphabetic order.
Ties = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Demand:
    """What a process wants.

    Attributes:
        name: of the process.
        cores: it needs at least.
        grows: it does not say how many it uses, so it gets spare cores of its NUMA node as well.
        shares: it shares cores with the other processes that do, as far as they are coupled.
        cpus: the list that its cores have to be of; processes with the same list divide it. Empty: any.
    """

    name: str
    cores: int = 1
    grows: bool = False
    shares: bool = False
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Bundle:
    """Processes that get the same cores."""

    names: tuple[str, ...]
    cores: int
    grows: bool


def assign(cores: Sequence[Core], demands: Sequence[Demand], ties: Ties) -> dict[str, tuple[Core, ...]] | None:
    """Return the cores of each process, of which no other has one; `None` if there are too few.

    Processes that are coupled get cores that share a cache, else those of one NUMA node, as far as these have room.
    The same input gives the same result.

    Args:
        cores: those that are free; hardware threads count as cores if they are given as such.
    """
    by_list: dict[tuple[int, ...], list[Demand]] = defaultdict(list)
    for demand in demands:
        by_list[demand.cpus].append(demand)
    found: dict[str, tuple[Core, ...]] = {}
    free = list(cores)
    for cpus in sorted(by_list, reverse=True):  # those without a list come last
        own = _only(free, cpus) if cpus else free
        assigned = _assign_group(own, _bundles(by_list[cpus], ties), ties, is_list=bool(cpus))
        if assigned is None:
            return None
        found.update(assigned)
        used = {cpu for each in assigned.values() for core in each for cpu in core.cpus}
        used.update(cpus)
        free = _without(free, used)
    return found


def _only(cores: Iterable[Core], cpus: Sequence[int]) -> list[Core]:
    return _with(cores, lambda cpu: cpu in cpus)


def _without(cores: Iterable[Core], cpus: Iterable[int]) -> list[Core]:
    gone = set(cpus)
    return _with(cores, lambda cpu: cpu not in gone)


def _with(cores: Iterable[Core], keep: Callable[[int], bool]) -> list[Core]:
    kept = (Core(tuple(filter(keep, core.cpus)), core.siblings, core.node, core.cache) for core in cores)
    return [core for core in kept if core.cpus]


def _bundles(demands: Sequence[Demand], ties: Ties) -> list[_Bundle]:
    single = [_Bundle((each.name,), each.cores, each.grows) for each in demands if not each.shares]
    sharing = [each for each in demands if each.shares]
    needs = {each.name: each.cores for each in sharing}
    together = [
        _Bundle(tuple(names), sum(needs[name] for name in names), grows=True)
        for names in _components([each.name for each in sharing], ties)
    ]
    return single + together


def _components(names: Sequence[str], ties: Ties) -> list[list[str]]:
    """Return the names that couplings join, each group in an order in which the heaviest tie comes first."""
    partners: dict[str, dict[str, int]] = {name: {} for name in names}
    for (one, other), weight in ties.items():
        if one in partners and other in partners:
            partners[one][other] = partners[other][one] = weight
    place = {name: number for number, name in enumerate(names)}
    components, left = [], dict.fromkeys(names)
    while left:
        first = next(iter(left))
        order, border = [], {first: 0}
        while border:
            name = min(border, key=lambda each: (-border[each], place[each]))
            del border[name], left[name]
            order.append(name)
            for partner, weight in partners[name].items():
                if partner in left:
                    border[partner] = max(border.get(partner, 0), weight)
        components.append(order)
    return components


def _assign_group(
    cores: Sequence[Core], bundles: Sequence[_Bundle], ties: Ties, is_list: bool
) -> dict[str, tuple[Core, ...]] | None:
    if sum(bundle.cores for bundle in bundles) > len(cores):
        return None
    by_name = {name: bundle for bundle in bundles for name in bundle.names}
    room = _Room(cores)
    components = _components(list(by_name), ties)
    groups = [list(dict.fromkeys(by_name[name] for name in names)) for names in components]
    for group in sorted(groups, key=lambda group: -sum(bundle.cores for bundle in group)):
        room.place(group)
    room.grow([bundle for bundle in bundles if bundle.grows or is_list], across_nodes=is_list)
    return {name: tuple(room.placed[bundle]) for name, bundle in by_name.items()}


class _Room:
    """The cores that nobody has yet, and who has which."""

    def __init__(self, cores: Sequence[Core]) -> None:
        self.free = list(cores)
        self.placed: dict[_Bundle, list[Core]] = {}

    def place(self, group: Sequence[_Bundle]) -> None:
        """Give coupled bundles their cores, near each other."""
        needed = sum(bundle.cores for bundle in group)
        near = self._roomiest(_cache, needed) or self._roomiest(_node, needed)
        if near:
            for bundle in group:
                self._take(bundle, near)
                near = near[bundle.cores :]
            return
        node: tuple[int, ...] = ()
        for bundle in group:
            # Where the one before it is, or where most is free.
            by_node = self._by(_node)
            if node not in by_node or len(by_node[node]) < bundle.cores:
                node = max(by_node, key=lambda each: (len(by_node[each]), -each[0]))
            others = [core for each in by_node if each != node for core in by_node[each]]
            self._take(bundle, [*by_node[node], *others])

    def grow(self, bundles: Sequence[_Bundle], *, across_nodes: bool) -> None:
        """Deal spare cores out, one after the other, to bundles of their node."""
        for cores in [list(self.free)] if across_nodes else list(self._by(_node).values()):
            here = [each for each in bundles if across_nodes or self.placed[each][0].node == cores[0].node]
            for core, bundle in zip(cores, cycle(here), strict=False):
                self.placed[bundle].append(core)
                self.free.remove(core)

    def _take(self, bundle: _Bundle, cores: Sequence[Core]) -> None:
        self.placed[bundle] = list(cores[: bundle.cores])
        for core in self.placed[bundle]:
            self.free.remove(core)

    def _by(self, key: Callable[[Core], tuple[int, ...]]) -> dict[tuple[int, ...], list[Core]]:
        found: dict[tuple[int, ...], list[Core]] = defaultdict(list)
        for core in self.free:
            found[key(core)].append(core)
        return found

    def _roomiest(self, key: Callable[[Core], tuple[int, ...]], needed: int) -> list[Core]:
        """Return the free cores of a cache or a node that has enough: of the emptiest node, so that groups that do not
        exchange messages share neither memory nor caches."""
        by_node = self._by(_node)
        fitting = [cores for cores in self._by(key).values() if len(cores) >= needed]
        return max(fitting, key=lambda cores: (len(by_node[_node(cores[0])]), len(cores)), default=[])


def _node(core: Core) -> tuple[int, ...]:
    return (core.node,)


def _cache(core: Core) -> tuple[int, ...]:
    return (core.node, core.cache)
