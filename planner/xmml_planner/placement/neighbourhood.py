"""Parts of a search that is too large for one problem: for each unit, a few of the sites that it can be at.

A constraint problem of ten thousand units with a hundred sites each has a million choices, and the solver would spend
its whole effort on reading it. So placements near to a known one are searched instead: most units stay, or have few
sites to choose from, and those that the time depends on have all (large neighbourhood search: Shaw, "Using constraint
programming and local search methods to solve vehicle routing problems", 1998).

Each function returns, by unit, names of possible sites in the order of the catalogue, those where the unit is among
them, so that the known placement stays possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from xmml_planner.placement.demands import Demands
from xmml_planner.placement.prediction import Prediction

_T = TypeVar("_T")

#: Sites of partners that a unit can move to, at most.
_PARTNERS = 3

#: By unit, names of sites.
Choices = Sequence[Sequence[str]]


def near(wanted: Demands, possible: Choices, sites: Sequence[str], width: int) -> Choices:
    """Return where units are, and other sites, about `width` in all: sites from everywhere in the catalogue."""
    found = [
        own | set(_spread(possible[unit], wanted.group_of[unit], width - len(own)))
        for unit, own in enumerate(_homes(wanted, sites))
    ]
    return _ordered(possible, found)


def around_latest(wanted: Demands, possible: Choices, latest: Prediction, most: int, turn: int) -> Choices:
    """Return all possible sites for some of the units that the end waits for or that end last; for some others, where
    they are and one site to give way to. All others stay.

    Args:
        most: choices of those that need not stay, about; half of them are for the first ones.
        turn: another number leads to other units that give way, and to other sites.
    """
    found = _homes(wanted, latest.sites)
    left = most // 2
    others = _latest_first(wanted, latest)
    while others and left > 0:
        unit = others.pop(0)
        left -= len(possible[unit])
        found[unit] = set(possible[unit])
    for unit in _spread(sorted(others), turn, most // 4):
        found[unit].update(_spread(possible[unit], wanted.group_of[unit] + turn, 1))
    return _ordered(possible, found)


def cheaper_or_nearer(
    wanted: Demands,
    possible: Choices,
    sites: Sequence[str],
    coupled: Sequence[tuple[int, int]],
    costs: Mapping[str, float],
    most: int,
) -> Choices:
    """Return for the units that cost most, or have partners at other sites, where these are and a cheaper site. All
    others stay.

    Args:
        coupled: pairs of units that exchange messages.
        costs: by site.
        most: choices of those that need not stay, about.
    """
    homes = _homes(wanted, sites)
    nearer: list[set[str]] = [set() for _ in homes]
    for one, other in coupled:
        nearer[one] |= homes[other] - homes[one]
        nearer[other] |= homes[one] - homes[other]
    dearest = [max(costs[site] for site in own) for own in homes]
    price = [cost * unit.cores * unit.count for cost, unit in zip(dearest, wanted.units, strict=True)]
    for unit in sorted(range(len(homes)), key=lambda unit: (-price[unit], not nearer[unit], unit)):
        if most <= 0:
            break
        cheaper = [site for site in possible[unit] if costs[site] < dearest[unit]]
        homes[unit] |= {*sorted(nearer[unit])[:_PARTNERS], *_spread(cheaper, wanted.group_of[unit], 1)}
        most -= len(homes[unit])
    return _ordered(possible, homes)


def _homes(wanted: Demands, sites: Sequence[str]) -> list[set[str]]:
    """Return by unit where its copies are."""
    return [{sites[process] for process in unit.processes} for unit in wanted.units]


def _spread(members: Sequence[_T], first: int, number: int) -> list[_T]:
    """Return so many members of a list at equal distances, from a place on; behind its end it begins anew.

    If that place is the number of a group, all units of the group get the same sites, and other groups get others.
    """
    number = min(number, len(members))
    return [members[(first + each * len(members) // number) % len(members)] for each in range(number)]


def _latest_first(wanted: Demands, latest: Prediction) -> list[int]:
    """Return the units on the chain that the end waits for, then the others, those that end last first."""
    ends = latest.ends_ns
    last = max(range(len(ends)), key=lambda process: (ends[process], -process))
    chain = [wanted.unit_of[process] for process in (last, *latest.path_to(last).computing_ns)]
    by_end = sorted(
        range(len(wanted.units)),
        key=lambda unit: (-max(ends[process] for process in wanted.units[unit].processes), unit),
    )
    return list(dict.fromkeys([*chain, *by_end]))


def _ordered(possible: Choices, chosen: Sequence[set[str]]) -> Choices:
    """Return the chosen sites that are possible, in the order of the possible ones; all of these if none is."""
    return [[site for site in sites if site in own] or sites for sites, own in zip(possible, chosen, strict=True)]
