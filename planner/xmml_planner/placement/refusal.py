"""Why no placement satisfies the sites: which constraint, and by how much."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from xmml.graphs.quantity_text import value_text
from xmml.units import Dimension
from xmml_planner.placement.greedy import cores_of
from xmml_planner.placement.layout import lay_out
from xmml_planner.placement.limits import amount, shortages
from xmml_planner.placement.master import Master
from xmml_planner.placement.packing import at_the_same_time
from xmml_planner.placement.prediction import SECOND_NS, Predictor
from xmml_planner.placement.search import NoPlacement, Search, group_times
from xmml_planner.problems import NodesWanted
from xmml_planner.sites.catalogue import Site, SiteCatalogue
from xmml_planner.sites.ways import Ways

#: Deterministic time of the solver for one question.
_EFFORT = 2.0
#: So many wishes are named at most.
_MOST_WISHES = 5


def why(predictor: Predictor, sites: Sequence[str], max_cost: float | None, because: frozenset[str]) -> str:
    """Return why there is no placement, in lines for people."""
    homeless = _homeless(predictor, sites)
    if homeless:
        return "\n".join(homeless)
    lacking = _lacking(predictor, sites) if len(sites) > 1 else _plainly_lacking(predictor, sites)
    if lacking:
        return lacking
    too_long = _too_long(predictor, sites)
    if too_long:
        return too_long
    if max_cost is not None:
        return _too_dear(predictor, sites, max_cost)
    if "nodes" in because:
        return (
            "the sites have cores, memory and GPUs enough, but not node by node: no way was found to spread what has "
            "to be on one node each so that all of it fits"
        )
    return "no placement was found that satisfies sites and wishes; there may be one"


def nodes_that_would_do(predictor: Predictor, site: Site) -> NodesWanted | None:
    """Return nodes on which everything would find room: one that is large enough for a site of one node, else as much
    like those of the site as can be. `None`: what lacks is something else."""
    units = predictor.demands.units
    if any(set(unit.needs) - set(site.software) for unit in units):
        return None
    ranks = [unit.ranks * unit.count for unit in units]

    def wanted_of(what: Sequence[int], there: int) -> int:
        total = sum(each * number for each, number in zip(what, ranks, strict=True))
        return max([there, *what]) if site.nodes > 1 else max(there, total)

    memory = wanted_of([unit.memory_of_rank for unit in units], site.memory_bytes or 0)
    roomy = replace(
        site,
        nodes=sum(ranks) if site.nodes > 1 else 1,
        cores=wanted_of([unit.cores_of_rank for unit in units], site.cores),
        memory_bytes=None if site.memory_bytes is None else memory,
        gpus=wanted_of([unit.gpus_of_rank for unit in units], site.gpus),
    )
    wanted = predictor.demands
    here = {number: unit.processes for number, unit in enumerate(wanted.units)}
    layout = lay_out(wanted, range(len(wanted.groups)), here, roomy, lambda process: ())
    if layout.nodes <= site.nodes and roomy == replace(site, nodes=roomy.nodes):
        return None
    return NodesWanted(layout.nodes, layout.cores, layout.memory_bytes, layout.gpus)


def _homeless(predictor: Predictor, sites: Sequence[str]) -> list[str]:
    """Return a paragraph for each unit that can be nowhere, whatever the others do."""
    lines = []
    for unit in predictor.demands.units:
        reasons = {site: shortages(unit, predictor.ways.catalogue[site]) for site in sites}
        if all(reasons.values()):
            lines.append(f'"{unit.name}" can run at no site:')
            lines += [f"  {each}" for found in reasons.values() for each in found]
    return lines


def _lacking(predictor: Predictor, sites: Sequence[str]) -> str:
    master = Master(predictor, sites, best_ns=1 << 60, busy_ns=[0] * len(predictor.network.processes), is_elastic=True)
    lacking = master.least_lacking(_EFFORT)
    if lacking is None:
        return _no_way(predictor, sites)
    if not lacking.amounts:
        return _plainly_lacking(predictor, sites)
    words = ", ".join(_more(what, site, number) for (what, site), number in lacking.amounts.items())
    total = _totals(predictor, sites, {what for what, _ in lacking.amounts})
    takes = (
        f"it would take at least {words}" if lacking.is_least else f"with {words} there is a placement, maybe with less"
    )
    wishes = _too_much(predictor, sites, {site for _, site in lacking.amounts})
    return f"the sites are too small{wishes and f' for {wishes}'}: {takes}\n{total}"


def _too_much(predictor: Predictor, sites: Sequence[str], small: Collection[str]) -> str:
    """Return which wishes the small sites are too small for; empty: none, or all sites together are too small."""
    wished = [f"--place {unit.name}={unit.wish}" for unit in predictor.demands.units if unit.wish in small]
    if not wished or _plainly_lacking(predictor, sites):
        return ""
    more = f" and {len(wished) - _MOST_WISHES} more" if len(wished) > _MOST_WISHES else ""
    return f"{' '.join(wished[:_MOST_WISHES])}{more}"


def _plainly_lacking(predictor: Predictor, sites: Sequence[str]) -> str:
    """Return what is too much for all sites together, whoever is where; empty: that is not why."""
    wanted, known = predictor.demands, [predictor.ways.catalogue[site] for site in sites]
    cores = [cores_of(predictor, group) for group in wanted.groups]
    together = at_the_same_time(wanted, range(len(cores)))
    needed = {
        "GPUs": sum(unit.gpus * unit.count for unit in wanted.units),
        "cores": max(sum(cores[group] for group in groups) for groups in together),
    }
    there = {"GPUs": sum(site.all_gpus for site in known), "cores": sum(site.all_cores for site in known)}
    memory = [site.nodes * site.memory_bytes for site in known if site.memory_bytes is not None]
    if len(memory) == len(known):
        needed["memory"] = sum(unit.memory_bytes * unit.count for unit in wanted.units)
        there["memory"] = sum(memory)
    return "\n".join(
        f"the sites are too small: what runs at the same time needs {_amount(needed[what], what)}, all sites together "
        f"have {_amount(there[what], what)}"
        for what in needed
        if needed[what] > there[what]
    )


def _amount(number: int, what: str) -> str:
    return f"{amount(number, what)} of memory" if what == "memory" else f"{number} {what}"


def _more(what: str, site: str, number: int) -> str:
    if what == "memory":
        return f"{amount(number, what)} more memory at {site}"
    return f"{number} more {what if number != 1 else what[:-1]} at {site}"


def _totals(predictor: Predictor, sites: Sequence[str], whats: set[str]) -> str:
    """Return what everything needs together, and what there is."""
    catalogue, units = predictor.ways.catalogue, predictor.demands.units
    known = [catalogue[site] for site in sites]
    needed: Mapping[str, float] = {
        "cores": sum(unit.cores * unit.count for unit in units),
        "memory": sum(unit.memory_bytes * unit.count for unit in units),
        "GPUs": sum(unit.gpus * unit.count for unit in units),
    }
    there: Mapping[str, float] = {
        "cores": sum(site.all_cores for site in known),
        "memory": sum(math.inf if site.memory_bytes is None else site.nodes * site.memory_bytes for site in known),
        "GPUs": sum(site.all_gpus for site in known),
    }
    shares = " (those that compute by turns share cores)" if any(g.turns for g in predictor.demands.groups) else ""
    return "; ".join(
        f"{what}: all instances together need {amount(needed[what], what)}{shares if what == 'cores' else ''}, "
        f"all sites together have {amount(there[what], what) if there[what] < math.inf else 'an unknown amount'}"
        for what in ("cores", "memory", "GPUs")
        if what in whats
    )


def _no_way(predictor: Predictor, sites: Sequence[str]) -> str:
    """Return between whom there is no way for messages."""
    wanted, lines = predictor.demands, []
    for pair in sorted(wanted.together):
        one, other = (wanted.units[unit] for unit in pair)
        homes = [
            {site for site in sites if not shortages(unit, predictor.ways.catalogue[site])} for unit in (one, other)
        ]
        if not homes[0] & homes[1]:
            lines.append(
                f'"{one.name}" and "{other.name}" must be at one site, since run:methods allows nothing between '
                f"sites, but no site can have both: {one.name} can be at {_names(homes[0])}, "
                f"{other.name} at {_names(homes[1])}"
            )
    for channel in predictor.network.channels:
        units = wanted.units[wanted.unit_of[channel.sender]], wanted.units[wanted.unit_of[channel.receiver]]
        homes = [{site for site in sites if not shortages(unit, predictor.ways.catalogue[site])} for unit in units]
        if not any(
            one == other or predictor.way(channel.index, one, other) is not None
            for one in homes[0]
            for other in homes[1]
        ):
            lines.append(
                f"there is no way for {channel.name}: {units[0].name} can be at {_names(homes[0])}, "
                f"{units[1].name} at {_names(homes[1])}; let relays run there, or give the link methods"
            )
    if not lines:
        lines = ["messages find no way between any sites that would have room for everything"]
    return "\n".join(dict.fromkeys(lines))


def _names(sites: set[str]) -> str:
    return ", ".join(sorted(sites)) or "no site"


def _unlimited(predictor: Predictor) -> Predictor:
    """Return a predictor for the same sites, at which jobs can be as long as they like."""
    catalogue = predictor.ways.catalogue
    sites = {name: replace(site, walltime_s=None) for name, site in catalogue.sites.items()}
    return predictor.with_ways(Ways(SiteCatalogue(sites, catalogue.links, catalogue.path)))


def _too_long(predictor: Predictor, sites: Sequence[str]) -> str:
    """Return which jobs would be longer than their sites allow; empty: that is not why."""
    if all(predictor.ways.catalogue[site].walltime_s is None for site in sites):
        return ""
    relaxed = _unlimited(predictor)
    try:
        found = Search(relaxed, sites, None, _EFFORT).placement()
    except NoPlacement:
        return ""
    lines = []
    for times in group_times(relaxed, found.prediction):
        needs = (times.ends_ns - times.begins_ns) / SECOND_NS
        for site in times.sites:
            longest = predictor.ways.catalogue[site].walltime_s
            if longest is not None and needs > longest:
                lines.append(
                    f"also in the fastest placement, a job at {site} would run for {_time(needs)}, "
                    f"{_time(needs - longest)} longer than its walltime of {_time(longest)}"
                )
    return "\n".join(lines)


def _too_dear(predictor: Predictor, sites: Sequence[str], max_cost: float) -> str:
    search = Search(predictor, sites, math.inf, _EFFORT)
    try:
        search.placement()
    except NoPlacement:
        return "no placement satisfies sites and wishes, whatever it costs"
    least = search.cheapest(_EFFORT)
    if least is None or least <= max_cost:
        return f"no plan was found that costs at most {max_cost:g}"
    return f"no plan costs less than {least:.4g}, which is {least - max_cost:.3g} more than the {max_cost:g} allowed"


def _time(seconds: float) -> str:
    return value_text(seconds, Dimension.TIME)
