"""A placement to begin with, found in one pass: group by group to where it would end first, the longest first.

It need not satisfy everything; the solver mends what is wrong with it, which is less work than to begin with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xmml_planner.placement.demands import Group
from xmml_planner.placement.limits import possible_sites
from xmml_planner.placement.packing import roomy_cores
from xmml_planner.placement.prediction import Prediction, Predictor


class _Room:
    """What is still free at the sites."""

    def __init__(self, predictor: Predictor, sites: Sequence[str], is_roomy: bool) -> None:
        self._units, catalogue = predictor.demands.units, predictor.ways.catalogue
        self.cores = {
            name: roomy_cores(catalogue[name], predictor.demands) if is_roomy else catalogue[name].all_cores
            for name in sites
        }
        self._gpus = {name: catalogue[name].all_gpus for name in sites}
        self._memory = {
            name: float("inf") if memory is None else float(memory * catalogue[name].nodes)
            for name in sites
            for memory in [catalogue[name].memory_bytes]
        }

    def has(self, site: str, units: Sequence[int], cores: int) -> bool:
        """Whether all copies of these units fit into a site."""
        chosen = [self._units[unit] for unit in units]
        return (
            self.cores[site] >= cores
            and self._gpus[site] >= sum(unit.gpus * unit.count for unit in chosen)
            and self._memory[site] >= sum(unit.memory_bytes * unit.count for unit in chosen)
        )

    def copies(self, site: str, number: int) -> int:
        """Return how many copies of a unit fit into a site."""
        unit = self._units[number]
        limits = (
            (self.cores[site], unit.cores),
            (self._gpus[site], unit.gpus),
            (self._memory[site], unit.memory_bytes),
        )
        return min((int(free // each) for free, each in limits if each and free != float("inf")), default=unit.count)

    def take(self, site: str, number: int, copies: int, cores: int) -> None:
        unit = self._units[number]
        self.cores[site] -= cores
        self._gpus[site] -= unit.gpus * copies
        self._memory[site] -= unit.memory_bytes * copies


def greedy_placement(
    predictor: Predictor, sites: Sequence[str], alone: Prediction, *, is_roomy: bool = False
) -> tuple[str, ...]:
    """Return by process a site, as a hint.

    Args:
        alone: what happens if everything is at one fast site.
        is_roomy: no site is filled so far that what has to lie on one node each might not find one.
    """
    wanted = predictor.demands
    room = _Room(predictor, sites, is_roomy)
    possible = possible_sites(wanted.units, [predictor.ways.catalogue[site] for site in sites])
    partners = _partners(predictor)
    chosen: dict[int, list[str]] = {}
    lasts = {number: _duration_ns(predictor, group, alone) for number, group in enumerate(wanted.groups)}
    figures = {site: (predictor.wait_ns(site), predictor.speed(site)) for site in sites}
    for number in sorted(lasts, key=lambda each: (-lasts[each], each)):
        group = wanted.groups[number]
        ends = {site: wait + lasts[number] / speed for site, (wait, speed) in figures.items()}
        best = sorted(sites, key=ends.__getitem__)
        cores = cores_of(predictor, group)
        home = next(
            (
                site
                for site in best
                if all(site in possible[unit] for unit in group.units) and room.has(site, group.units, cores)
            ),
            None,
        )
        if home is not None:
            for unit in group.units:
                chosen[unit] = [home] * wanted.units[unit].count
                room.take(home, unit, wanted.units[unit].count, 0)
            room.cores[home] -= cores
            continue
        for unit in _breadth_first(group, partners):
            chosen[unit] = _spread(predictor, room, unit, [site for site in best if site in possible[unit]] or best)
    places = {unit: iter(own) for unit, own in chosen.items()}
    return tuple(next(places[wanted.unit_of[process.index]]) for process in predictor.network.processes)


def _spread(predictor: Predictor, room: _Room, number: int, sites: Sequence[str]) -> list[str]:
    """Return a site for each copy of a unit, the best ones first as long as they have room."""
    unit = predictor.demands.units[number]
    found: list[str] = []
    for site in sites:
        copies = min(unit.count - len(found), max(0, room.copies(site, number)))
        room.take(site, number, copies, unit.cores * copies)
        found += [site] * copies
    return found + [sites[0]] * (unit.count - len(found))


def _duration_ns(predictor: Predictor, group: Group, alone: Prediction) -> float:
    begins, ends = alone.simulated.begin_ns, alone.simulated.end_ns
    members = [process for unit in group.units for process in predictor.demands.units[unit].processes]
    first = min((begins[process] for process in members if begins[process] >= 0), default=0)
    speed = predictor.speed(alone.sites[0])
    return (max(ends[process] for process in members) - first) * speed


def cores_of(predictor: Predictor, group: Group) -> int:
    """Return how many cores a group needs at least, wherever its units are: those that take turns share them."""
    units = predictor.demands.units
    turns = {turn.caller: turn.called for turn in group.turns}
    called = {unit for below in turns.values() for unit in below}

    def needed(unit: int) -> int:
        own = units[unit].cores * units[unit].count
        return max(own, sum(needed(each) for each in turns.get(unit, ())))

    return sum(needed(unit) for unit in group.units if unit not in called)


def _partners(predictor: Predictor) -> Mapping[int, Sequence[int]]:
    partners: dict[int, dict[int, None]] = {}
    for channel in predictor.network.channels:
        one, other = (predictor.demands.unit_of[end] for end in (channel.sender, channel.receiver))
        partners.setdefault(one, {})[other] = None
        partners.setdefault(other, {})[one] = None
    return {unit: list(others) for unit, others in partners.items()}


def _breadth_first(group: Group, partners: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the units such that those that exchange messages are near each other."""
    members = set(group.units)
    order: dict[int, None] = {}
    for first in group.units:
        queue = [first]
        for unit in queue:
            if unit not in order:
                order[unit] = None
                queue += [each for each in partners.get(unit, ()) if each in members and each not in order]
    return list(order)
