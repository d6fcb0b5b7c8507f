"""The fastest placement by trying all of them, and what a placement must satisfy, said in the plainest way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from random_timing import random_timing
from xmml_planner.placement.demands import Demands, demands
from xmml_planner.placement.prediction import Predictor
from xmml_planner.sites.catalogue import Link, Site, SiteCatalogue
from xmml_planner.sites.ways import Ways

from xmml.analysis.network import Network
from xmml.analysis.self_timed import simulate
from xmml.analysis.static import static_analysis

#: More placements than this are not tried one by one.
MOST_PLACEMENTS = 800


@dataclass(frozen=True)
class Case:
    """A random model, random sites, and how to say which."""

    words: str
    predictor: Predictor
    sites: tuple[str, ...]


def random_case(seed: int) -> Case | None:
    """Return the case of a seed; `None` if its model never ends, or has too many placements."""
    choose = random.Random(seed)
    timing = random_timing(seed)
    network = _stretched(timing.network, choose)
    alone = simulate(network, timing.capacities, event_limit=20_000)
    finishes = alone.is_complete and all(stop.finished for stop in alone.final.stops)
    sites = _sites(choose, len(network.processes))
    if not finishes or len(sites) ** len(network.processes) > MOST_PLACEMENTS:
        return None
    links = tuple(
        Link((one, other), choose.choice([0.0, 1e-6, 1e-3, 0.01]), choose.choice([1e3, 1e6, 1e9]))
        for place, one in enumerate(sites)
        for other in list(sites)[place + 1 :]
        if choose.random() < 0.8
    )
    names = list(network.by_instance)
    wishes = {choose.choice(names): choose.choice(list(sites))} if choose.random() < 0.2 else {}
    wanted = demands(network, static_analysis(network), wishes, alone.begin_ns, alone.busy_ns)
    wanted = replace(
        wanted,
        units=tuple(
            replace(unit, memory_bytes=memory, memory_of_rank=memory)
            for unit in wanted.units
            for memory in [choose.choice([0, 0, 1, 2])]
        ),
    )
    predictor = Predictor(network, wanted, Ways(SiteCatalogue(sites, links)), timing.capacities, alone.final.sent)
    words = f"seed {seed}: {timing.words}\n{sites}\n{links}\n{wishes}\n{[unit.memory_bytes for unit in wanted.units]}"
    return Case(words, predictor, tuple(sites))


def _stretched(network: Network, choose: random.Random) -> Network:
    """Return a network with run times of milliseconds, messages with sizes, and cores."""
    return replace(
        network,
        processes=tuple(
            replace(process, runtime_ns=process.runtime_ns * 1_000_000, cores=cores)
            for own in network.by_instance.values()
            for cores in [choose.choice([1, 1, 2, 3])]
            for process in (network.processes[index] for index in own)
        ),
        channels=tuple(
            replace(channel, size_bytes=choose.choice([None, 8.0, 1e3, 1e5])) for channel in network.channels
        ),
    )


def _sites(choose: random.Random, size: int) -> dict[str, Site]:
    count = 2 if size > 5 else choose.choice([2, 3])
    return {
        name: Site(
            name,
            ssh=name,
            scheduler=choose.choice(["slurm", "local"]),
            nodes=choose.choice([1, 2, 3]),
            cores=choose.choice([2, 4, 8]),
            memory_bytes=choose.choice([None, 4]),
            speed=choose.choice([0.5, 1.0, 2.0]),
            queue_wait_s=choose.choice([None, 0.001, 0.05]),
        )
        for name in ("a", "b", "c")[:count]
    }


def all_placements(case: Case) -> Iterator[tuple[str, ...]]:
    """Yield every placement that satisfies the sites."""
    for sites in product(case.sites, repeat=len(case.predictor.network.processes)):
        if satisfies(case, sites):
            yield sites


def satisfies(case: Case, sites: Sequence[str]) -> bool:
    """Say whether a placement satisfies wishes, ways, cores, memory, and fits node by node."""
    wanted, catalogue = case.predictor.demands, case.predictor.ways.catalogue
    for process, site in enumerate(sites):
        unit = wanted.units[wanted.unit_of[process]]
        if unit.wish not in (None, site):
            return False
    for channel in case.predictor.network.channels:
        one, other = sites[channel.sender], sites[channel.receiver]
        if one != other and case.predictor.way(channel.index, one, other) is None:
            return False
    return all(_has_room(wanted, catalogue[name], sites, name) for name in set(sites))


def _has_room(wanted: Demands, site: Site, sites: Sequence[str], name: str) -> bool:
    here = [wanted.unit_of[process] for process, each in enumerate(sites) if each == name]
    memory = sum(wanted.units[unit].memory_bytes for unit in here)
    if site.memory_bytes is not None and memory > site.nodes * site.memory_bytes:
        return False
    groups = [
        sum(_needed(wanted, here, unit, group.turns) for unit in group.units if not _is_called(unit, group.turns))
        for group in wanted.groups
    ]
    if _most_at_once(groups, set(wanted.before)) > site.all_cores:
        return False
    return _fits_on_nodes(wanted, site, here)


def _is_called(unit: int, turns: Sequence[object]) -> bool:
    return any(unit in turn.called for turn in turns)  # type: ignore[attr-defined]


def _needed(wanted: Demands, here: Sequence[int], unit: int, turns: Sequence[object]) -> int:
    own = wanted.units[unit].cores * here.count(unit)
    below = [
        _needed(wanted, here, called, turns)
        for turn in turns
        if turn.caller == unit  # type: ignore[attr-defined]
        for called in turn.called  # type: ignore[attr-defined]
    ]
    return max(own, sum(below))


def _most_at_once(groups: Sequence[int], before: set[tuple[int, int]]) -> int:
    """Return the most cores of groups of which no one is over before another begins."""
    for middle in range(len(groups)):
        before |= {(one, last) for one, other in before if other == middle for first, last in before if first == middle}
    most = 0
    for chosen in product((False, True), repeat=len(groups)):
        members = [number for number, is_chosen in enumerate(chosen) if is_chosen]
        if not any((one, other) in before for one in members for other in members):
            most = max(most, sum(groups[number] for number in members))
    return most


def _fits_on_nodes(wanted: Demands, site: Site, here: Sequence[int]) -> bool:
    """Whether the placement passes the test that the planner makes: this part is shared with it, and tested by
    itself."""
    from xmml_planner.placement.packing import fits, pieces_at

    counts = {unit: list(here).count(unit) for unit in here}
    return all(fits(pieces, site) for pieces in pieces_at(wanted, counts))
