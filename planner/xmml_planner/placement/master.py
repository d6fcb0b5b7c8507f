"""The placement as a problem for a constraint solver (OR-Tools CP-SAT): what a placement must satisfy, and bounds of
the time that it takes.

The time itself is no formula: it comes from a simulation. But each chain of computations and messages that a simulation
finds critical bounds the time of every placement from below, linearly in who is where. The solver is given the chains
found so far and returns the placement that they promise most of (Benders, "Partitioning procedures for solving
mixed-variables programming problems", 1962; with a logical subproblem Hooker and Ottosson, 2003).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, permutations, product
from typing import Any

from xmml.analysis.path_weights import PathWeights
from xmml.late_dataclass import dataclass
from xmml_planner.placement.demands import Group, Unit
from xmml_planner.placement.limits import possible_sites
from xmml_planner.placement.packing import roomy_cores
from xmml_planner.placement.prediction import SECOND_NS, Predictor
from xmml_planner.placement.solver import cp_model, solve

#: The fastest placement known takes so many ticks; nothing longer is told apart.
_TICKS = 1 << 28
#: Time is counted so much coarser where it is multiplied by cores.
_COARSER = 1 << 10
#: Weight of what sites lack beside the number of sites.
_LACKING = 1_000_000
#: Weights of prices, the dearest having the largest.
_PRICES = 1 << 10
#: Pairs of sites of all coupled units together beyond which the time between two units is only bounded.
_MOST_PAIRS_OF_SITES = 10_000
#: More pairs of coupled units than this are not looked at when equally fast placements are compared.
_MOST_PAIRS = 3_000


#: A weight and the variable that it belongs to; `None`: a constant.
_Term = tuple[int, Any]


@dataclass(frozen=True)
class Answer:
    """What the solver returned.

    Attributes:
        sites: by process, where it is; empty: there is no placement.
        at_least_ns: no placement takes less, by the chains known so far.
        is_best: the solver has proven that it is best, by the chains known so far.
        effort: deterministic time that it took.
    """

    sites: tuple[str, ...]
    at_least_ns: int
    is_best: bool
    effort: float


@dataclass(frozen=True)
class Lacking:
    """What sites lack for a placement.

    Attributes:
        amounts: by what (`cores`, `memory`, `GPUs`) and site; nothing: nobody knows of anything.
        is_least: it is proven that less would not do.
    """

    amounts: Mapping[tuple[str, str], int]
    is_least: bool


class Master:
    """What a placement must satisfy, and what is known of the time that placements take."""

    def __init__(
        self,
        predictor: Predictor,
        sites: Sequence[str],
        *,
        best_ns: int,
        busy_ns: Sequence[int],
        max_cost: float | None = None,
        is_elastic: bool = False,
        is_roomy: bool = False,
        choices: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """
        Args:
            sites: that instances can be at.
            best_ns: what the fastest placement known so far takes; slower ones need not be found.
            busy_ns: by process, how long it computes in all at a site of speed 1.
            max_cost: no plan may cost more; `None`: as much as it likes.
            is_elastic: sites may lack cores, memory and GPUs; see `least_lacking`.
            is_roomy: no site is filled so far that what has to lie on one node each might not find one: fewer
                placements than there are, but none that fails node by node for want of a few cores.
            choices: by unit, the sites that the solver may choose from, all of them possible ones; `None`: all that
                are possible. Variables and constraints are in proportion to the number of choices.
        """
        self._is_roomy = is_roomy
        self._lacking: dict[tuple[str, str], Any] | None = {} if is_elastic else None
        self._cp = cp_model()
        self._model = self._cp.CpModel()
        self._predictor, self._sites = predictor, list(sites)
        self._wanted = predictor.demands
        self._tick = max(1, best_ns // _TICKS)
        self._longest = best_ns // self._tick + 2
        self._catalogue = predictor.ways.catalogue
        self._busy_ns = busy_ns
        self._terms_of_pair: dict[tuple[int, int], dict[tuple[str, str], Any]] = {}
        self._apart: dict[tuple[int, int], Any] = {}
        self._delays: dict[object, tuple[int, int]] = {}
        self._count: list[dict[str, Any]] = []
        self._used: list[dict[str, Any]] = []
        self._time = self._model.new_int_var(0, self._longest, "time")
        if choices is None:
            choices = possible_sites(self._wanted.units, [self._catalogue[site] for site in self._sites])
        for unit, own in enumerate(choices):
            self._place(unit, own)
        self._coupled = self._couplings()
        self._pairs_of_sites = sum(len(self._used[one]) * len(self._used[other]) for one, other in self._coupled)
        self._group_used = [self._uses(group) for group in self._wanted.groups]
        self._release = [self._released(number) for number, _ in enumerate(self._wanted.groups)]
        self._cores = [self._group_cores(group) for group in self._wanted.groups]
        self._keep_within()
        self._keep_ways()
        self._work_bounds()
        self._duration: list[Any] = []
        self._paid: Any = 0
        self._largest_price = 1.0
        if max_cost is not None:
            self._keep_cost(max_cost)

    def _couplings(self) -> list[tuple[int, int]]:
        """Return the pairs of single units between which messages go, in ascending order."""
        pairs = {
            (min(pair), max(pair))
            for channel in self._predictor.network.channels
            for pair in [(self._wanted.unit_of[channel.sender], self._wanted.unit_of[channel.receiver])]
        }
        return sorted(
            (one, other)
            for one, other in pairs
            if one != other and self._wanted.units[one].count == self._wanted.units[other].count == 1
        )

    # who is where

    def _place(self, number: int, sites: Sequence[str]) -> None:
        unit, model = self._wanted.units[number], self._model
        counts: dict[str, Any] = {}
        used: dict[str, Any] = {}
        for site in sites:
            used[site] = model.new_bool_var(f"{unit.name} at {site}")
            counts[site] = used[site]
            if unit.count > 1:
                counts[site] = model.new_int_var(0, unit.count, f"copies of {unit.name} at {site}")
                model.add(counts[site] >= 1).only_enforce_if(used[site])
                model.add(counts[site] == 0).only_enforce_if(~used[site])
        model.add(sum(counts.values()) == unit.count)
        self._count.append(counts)
        self._used.append(used)

    def _uses(self, group: Group) -> dict[str, Any]:
        """Return by site whether a group has anybody there (if not, this may be true all the same)."""
        if len(group.units) == 1:
            return self._used[group.units[0]]
        found: dict[str, Any] = {}
        for unit in group.units:
            for site, uses in self._used[unit].items():
                if site not in found:
                    found[site] = self._model.new_bool_var(f"group at {site}")
                self._model.add_implication(uses, found[site])
        return found

    def _released(self, number: int) -> Any:
        """When the jobs of a group have come through all queues."""
        release = self._model.new_int_var(0, self._longest, "release")
        for unit in self._wanted.groups[number].units:
            waits = {site: self._ticks(self._predictor.wait_ns(site)) for site in self._used[unit]}
            if self._wanted.units[unit].count == 1:
                self._model.add(release >= sum(waits[site] * uses for site, uses in self._used[unit].items()))
                continue
            for site, uses in self._used[unit].items():
                self._model.add(release >= waits[site] * uses)
        return release

    # capacity

    def _group_cores(self, group: Group) -> dict[str, Any]:
        """Return by site how many cores a group needs where it has anybody."""
        turns = {turn.caller: turn.called for turn in group.turns}
        called = {unit for units in turns.values() for unit in units}

        def needed(unit: int) -> dict[str, Any]:
            cores = self._wanted.units[unit].cores
            own = {site: cores * count for site, count in self._count[unit].items()}
            if unit not in turns:
                return own
            below = self._sums(needed(each) for each in turns[unit])
            for site, together in below.items():
                both = self._model.new_int_var(0, 1 << 31, "cores by turns")
                self._model.add(both >= own.get(site, 0))
                self._model.add(both >= together)
                own[site] = both
            return own

        return self._sums(needed(unit) for unit in group.units if unit not in called)

    def _sums(self, parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return by site the sum of what the parts have there."""
        terms: dict[str, list[Any]] = {}
        for part in parts:
            for site, term in part.items():
                terms.setdefault(site, []).append(term)
        return {site: self._cp.LinearExpr.sum(own) for site, own in terms.items()}

    def _keep_within(self) -> None:
        memory = self._sums(self._weighed_counts(lambda unit: unit.memory_bytes))
        gpus = self._sums(self._weighed_counts(lambda unit: unit.gpus))
        groups: dict[str, list[int]] = {}
        for group, used in enumerate(self._group_used):
            for name in used:
                groups.setdefault(name, []).append(group)
        for name in self._sites:
            site = self._catalogue[name]
            if site.memory_bytes is not None and name in memory:
                self._model.add(memory[name] <= site.nodes * site.memory_bytes + self._lack("memory", name, 1 << 50))
            if name in gpus:
                self._model.add(gpus[name] <= site.all_gpus + self._lack("GPUs", name, 1 << 31))
            cores = roomy_cores(site, self._wanted) if self._is_roomy else site.all_cores
            self._keep_cores(name, cores, groups.get(name, ()))

    def _weighed_counts(self, weight: Callable[[Unit], int]) -> Iterator[dict[str, Any]]:
        """Yield for each unit that has a weight, by site, the weight of all its copies there."""
        for unit, counts in zip(self._wanted.units, self._count, strict=True):
            each = weight(unit)
            if each:
                yield {site: each * count for site, count in counts.items()}

    def _lack(self, what: str, site: str, most: int) -> Any:
        """What a site may lack: nothing, unless that is what is asked."""
        if self._lacking is None:
            return 0
        lack = self._lacking[what, site] = self._model.new_int_var(0, most, f"{what} lacking at {site}")
        return lack

    def _keep_cores(self, site: str, cores: int, groups: Sequence[int]) -> None:
        """Keep the groups that may be at a site within its cores.

        Groups of which one is over before the other begins can have the same cores, one after the other.
        """
        here = set(groups)
        before = [(one, other) for one, other in self._wanted.before if one in here and other in here]
        lacking = self._lack("cores", site, 1 << 31)
        if not before:
            if groups:
                needed = self._cp.LinearExpr.sum([self._cores[group][site] for group in groups])
                self._model.add(needed <= cores + lacking)
            return
        most = cores if self._lacking is None else 1 << 31
        given: dict[int, list[Any]] = {}
        taken_over: dict[int, list[Any]] = {}
        for one, other in before:
            flow = self._model.new_int_var(0, most, "handed on")
            given.setdefault(one, []).append(flow)
            taken_over.setdefault(other, []).append(flow)
        fresh = []
        for group in groups:
            taken = self._model.new_int_var(0, most, "taken")
            fresh.append(taken)
            had = taken + sum(taken_over.get(group, ()))
            self._model.add(had >= self._cores[group][site])
            self._model.add(sum(given.get(group, ())) <= had)
        self._model.add(self._cp.LinearExpr.sum(fresh) <= cores + lacking)

    def least_lacking(self, effort: float) -> Lacking | None:
        """Return what sites lack together; `None`: more of it would not help."""
        assert self._lacking is not None
        one = {"cores": 1, "GPUs": 8, "memory": 1}
        gib = 1 << 30
        terms = []
        for (what, _), lack in self._lacking.items():
            if what == "memory":
                whole = self._model.new_int_var(0, 1 << 20, "GiB")
                self._model.add(whole * gib >= lack)
                lack = whole
            terms.append(one[what] * lack)
        self._model.minimize(_LACKING * sum(terms) + sum(self._used_sites()))
        answer = self._solved(effort, None)
        if not answer.sites:
            return None if answer.is_best else Lacking({}, False)
        at_least = answer.at_least_ns // self._tick
        if at_least < _LACKING and not answer.is_best:
            return Lacking({}, False)  # they may lack nothing
        amounts = {key: amount for key, lack in self._lacking.items() if (amount := self._value(lack))}
        return Lacking(amounts, answer.is_best or at_least >= _LACKING * sum(map(self._value, terms)))

    def cheapest(self, effort: float) -> float | None:
        """Return what no placement can cost less than, by what is known of how long groups run."""
        self._model.minimize(self._paid)
        answer = self._solved(effort, None)
        return self._money(answer.at_least_ns // self._tick) if answer.sites else None

    def _used_sites(self) -> list[Any]:
        return [uses for group in self._group_used for uses in group.values()]

    def _keep_ways(self) -> None:
        """Units that exchange messages are at one site, or at two with a way between them that the model allows."""
        done: set[tuple[int, int]] = set()
        without_way: dict[tuple[str, ...], set[tuple[str, str]]] = {}
        for channel in self._predictor.network.channels:
            pair = self._wanted.unit_of[channel.sender], self._wanted.unit_of[channel.receiver]
            if pair in done or pair[0] == pair[1]:
                continue
            done.add(pair)
            only = self._wanted.only.get(pair, ())
            if only not in without_way:
                without_way[only] = self._without_way(channel.index)
            apart = pair in self._wanted.together
            if not apart and not without_way[only]:
                continue
            for one, other in product(self._used[pair[0]], self._used[pair[1]]):
                if one != other and (apart or (one, other) in without_way[only]):
                    self._model.add_bool_or(~self._used[pair[0]][one], ~self._used[pair[1]][other])

    def _without_way(self, channel: int) -> set[tuple[str, str]]:
        """Return the pairs of sites between which there is no way for the messages of a channel."""
        return {pair for pair in permutations(self._sites, 2) if self._predictor.way(channel, *pair) is None}

    # cost

    def _keep_cost(self, max_cost: float) -> None:
        terms = []
        coarse = self._longest // _COARSER + 1
        for number, group in enumerate(self._wanted.groups):
            duration = self._model.new_int_var(0, self._longest, "duration")
            self._duration.append(duration)
            whole = self._model.new_int_var(0, coarse, "duration, rounded down")
            self._model.add_division_equality(whole, duration, _COARSER)
            for unit in group.units:
                for site, uses in self._used[unit].items():
                    self._model.add(duration >= self._work_ticks(unit, site)).only_enforce_if(uses)
            for site in self._group_used[number]:
                price = self._catalogue[site].cost
                if not price:
                    continue
                cores = self._model.new_int_var(0, self._catalogue[site].all_cores, "paid cores")
                self._model.add(cores >= self._cores[number][site])
                paid = self._model.new_int_var(0, coarse * self._catalogue[site].all_cores, "core time")
                self._model.add_multiplication_equality(paid, [cores, whole])
                terms.append((paid, price))
        self._largest_price = max((price for _, price in terms), default=1.0)
        self._paid = sum(int(_PRICES * price / self._largest_price) * paid for paid, price in terms)
        most = max_cost / self._money(1)
        if terms and most < 1 << 61:
            self._model.add(self._paid <= int(most) + 1)

    def _money(self, paid: float) -> float:
        """Return what an amount of weighted core time costs."""
        return paid * self._largest_price / _PRICES * _COARSER * self._tick / SECOND_NS / 3600

    # time

    def _work_ticks(self, unit: int, site: str) -> int:
        busiest = max(self._busy_ns[process] for process in self._wanted.units[unit].processes)
        return self._ticks(busiest / self._predictor.speed(site))

    def _ticks(self, ns: float) -> int:
        """Return a time in ticks, rounded down; anything slower than what is known already counts as that."""
        return min(int(ns) // self._tick, self._longest)

    def _work_bounds(self) -> None:
        """Nobody is done before the queue is over and its work is done."""
        for number, unit in enumerate(self._wanted.units):
            release = self._release[self._wanted.group_of[number]]
            works = {site: self._work_ticks(number, site) for site in self._used[number]}
            if not any(works.values()):
                continue
            if unit.count == 1:
                self._model.add(
                    self._time >= release + sum(works[site] * uses for site, uses in self._used[number].items())
                )
                continue
            for site, uses in self._used[number].items():
                self._model.add(self._time >= release + works[site] * uses)

    def add_path(self, path: PathWeights, sites: Sequence[str]) -> None:
        """Bound the time by a chain that was found with the processes at some sites."""
        release = self._release[self._wanted.group_of[self._wanted.unit_of[path.begins]]]
        for conditions, ticks in self._weighed(path, sites):
            self._model.add(self._time >= release + ticks).only_enforce_if(*conditions)

    def add_duration(self, group: int, path: PathWeights, sites: Sequence[str]) -> None:
        """Bound how long a group runs by a chain within it: by the longest job of each site, and by the cost."""
        for conditions, ticks in self._weighed(path, sites):
            if self._duration:
                self._model.add(self._duration[group] >= ticks).only_enforce_if(*conditions)
            for site, uses in self._group_used[group].items():
                longest_s = self._catalogue[site].walltime_s
                if longest_s is not None:
                    longest = round(longest_s * SECOND_NS) // self._tick
                    if longest < self._longest:
                        self._model.add(ticks <= longest).only_enforce_if(*conditions, uses)

    def _weighed(self, path: PathWeights, sites: Sequence[str]) -> list[tuple[list[Any], Any]]:
        """Return what a chain takes, as a linear expression; where it leads over one of several equal copies, for
        every site that this copy may be at, with the condition that one is there."""
        wanted = self._wanted
        involved = set(path.computing_ns) | {
            end
            for channel in path.messages
            for end in (
                self._predictor.network.channels[channel].sender,
                self._predictor.network.channels[channel].receiver,
            )
        }
        copies = sorted(process for process in involved if wanted.units[wanted.unit_of[process]].count > 1)
        choices: list[dict[int, str]] = [{process: sites[process] for process in copies}]
        if len(copies) == 1:
            choices = [{copies[0]: site} for site in self._used[wanted.unit_of[copies[0]]]]
        found = []
        for fixed in choices:
            if any(site not in self._used[wanted.unit_of[process]] for process, site in fixed.items()):
                continue
            conditions = [self._used[wanted.unit_of[process]][site] for process, site in fixed.items()]
            terms: list[_Term] = []
            for process, base in path.computing_ns.items():
                terms += self._computing(process, base, sites, fixed)
            for channel, count in path.messages.items():
                terms += self._travelling(channel, count, fixed)
            found.append((list(dict.fromkeys(conditions)), self._sum(terms)))
        return found

    def _sum(self, terms: Sequence[_Term]) -> Any:
        """Return a sum as an expression; adding terms one by one would take the square of their number."""
        weights: dict[Any, int] = {}
        variables: dict[Any, Any] = {}
        constant = 0
        for weight, variable in terms:
            if variable is None:
                constant += weight
            elif weight:
                weights[variable.index] = weights.get(variable.index, 0) + weight
                variables[variable.index] = variable
        whole = self._cp.LinearExpr.weighted_sum(list(variables.values()), list(weights.values()))
        return whole + constant

    def _computing(self, process: int, ns: int, sites: Sequence[str], fixed: Mapping[int, str]) -> list[_Term]:
        base = ns * self._predictor.speed(sites[process])

        def ticks(site: str) -> int:
            return self._ticks(base / self._predictor.speed(site))

        if process in fixed:
            return [(ticks(fixed[process]), None)]
        return [(ticks(site), uses) for site, uses in self._used[self._wanted.unit_of[process]].items()]

    def _travelling(self, number: int, count: int, fixed: Mapping[int, str]) -> list[_Term]:
        channel = self._predictor.network.channels[number]

        def ticks(sender: str, receiver: str) -> int:
            if sender != receiver and self._predictor.way(number, sender, receiver) is None:
                return 0  # nobody will be there
            return self._ticks(count * self._predictor.delay_ns(number, sender, receiver))

        sender, receiver = fixed.get(channel.sender), fixed.get(channel.receiver)
        units = self._wanted.unit_of[channel.sender], self._wanted.unit_of[channel.receiver]
        if sender is not None and receiver is not None:
            return [(ticks(sender, receiver), None)]
        if sender is not None:
            return [(ticks(sender, site), uses) for site, uses in self._used[units[1]].items()]
        if receiver is not None:
            return [(ticks(site, receiver), uses) for site, uses in self._used[units[0]].items()]
        if units[0] == units[1]:
            return [(ticks(site, site), uses) for site, uses in self._used[units[0]].items()]
        if self._pairs_of_sites > _MOST_PAIRS_OF_SITES:
            near, far = self._shortest(number, units)
            return [(self._ticks(count * near), None), (self._ticks(count * (far - near)), self._is_apart(units))]
        return [(ticks(*pair), both) for pair, both in self._pair(units).items()]

    def _shortest(self, number: int, units: tuple[int, int]) -> tuple[int, int]:
        """Return how long a message of a channel is on its way at least within a site, and between two."""
        size = self._predictor.network.channels[number].size_bytes
        places = [tuple(self._used[unit]) for unit in units]
        key = size, *places, self._wanted.only.get(units)
        if key not in self._delays:
            within = min((self._predictor.delay_ns(number, site, site) for site in places[0]), default=0)
            between = [
                self._predictor.delay_ns(number, one, other)
                for one, other in product(*places)
                if one != other and self._predictor.way(number, one, other) is not None
            ]
            self._delays[key] = within, max(within, min(between, default=within))
        return self._delays[key]

    def _is_apart(self, units: tuple[int, int]) -> Any:
        """Return whether two single units are at different sites."""
        key = min(units), max(units)
        if key not in self._apart:
            apart = self._apart[key] = self._model.new_bool_var("apart")
            ones, others = (self._used[unit] for unit in key)
            for site in {**ones, **others}:
                self._model.add(apart >= ones.get(site, 0) - others.get(site, 0))
        return self._apart[key]

    def _pair(self, units: tuple[int, int]) -> Mapping[tuple[str, str], Any]:
        """Return by pair of sites whether two single units are there, tied so that the linear relaxation is tight."""
        known = self._terms_of_pair.get(units) or self._terms_of_pair.get((units[1], units[0]))
        if known is None:
            ones, others = self._used[units[0]], self._used[units[1]]
            known = {
                (one, other): self._model.new_bool_var(f"{units} at {one}, {other}")
                for one, other in product(ones, others)
            }
            for one, uses in ones.items():
                self._model.add(sum(known[one, other] for other in others) == uses)
            for other, uses in others.items():
                self._model.add(sum(known[one, other] for one in ones) == uses)
            self._terms_of_pair[units] = known
        elif units not in self._terms_of_pair:
            return {(one, other): both for (other, one), both in known.items()}
        return known

    def add_load(self, hop: tuple[str, str], channels: Sequence[int], sites: Sequence[str]) -> None:
        """Bound the time by what a link needs for the messages of some channels, which now all go over it."""
        terms = []
        for number in channels:
            channel = self._predictor.network.channels[number]
            units = self._wanted.unit_of[channel.sender], self._wanted.unit_of[channel.receiver]
            ticks = self._ticks(self._predictor.carried_s(number, hop) * SECOND_NS)
            if ticks and units[0] != units[1] and all(self._wanted.units[unit].count == 1 for unit in units):
                terms.append(
                    sum(
                        ticks * both
                        for pair, both in self._pair(units).items()
                        if pair[0] != pair[1] and self._goes_over(number, pair, hop)
                    )
                )
        if terms:
            self._model.add(self._time >= sum(terms))

    def _goes_over(self, channel: int, pair: tuple[str, str], hop: tuple[str, str]) -> bool:
        way = self._predictor.way(channel, *pair)
        return way is not None and any({*step} == set(hop) for step in pairwise(way.sites))

    def exclude(self, sites: Sequence[str], processes: Sequence[int] | None = None) -> None:
        """Exclude placements with these processes (all of them, by default) at these sites."""
        counts: dict[tuple[int, str], int] = {}
        for process in range(len(sites)) if processes is None else processes:
            key = self._wanted.unit_of[process], sites[process]
            counts[key] = counts.get(key, 0) + 1
        if any(site not in self._used[unit] for unit, site in counts):
            return  # no choice leads there
        fewer = []
        for (unit, site), count in counts.items():
            if self._wanted.units[unit].count == 1:
                fewer.append(~self._used[unit][site])
            else:
                less = self._model.new_bool_var("fewer")
                self._model.add(self._count[unit][site] < count).only_enforce_if(less)
                fewer.append(less)
        self._model.add_bool_or(fewer)

    # solving

    def any_placement(self, effort: float, hint: Sequence[str]) -> Answer:
        """Return a placement that satisfies everything, near to a hint."""
        self._model.clear_objective()
        return self._solved(effort, hint)

    def satisfies(self, sites: Sequence[str], effort: float) -> bool:
        """Whether a placement satisfies everything."""
        self._model.clear_objective()
        return bool(self._solved(effort, sites, is_fixed=True).sites)

    def fastest(self, effort: float, hint: Sequence[str] | None = None) -> Answer:
        """Return the placement that promises to be fastest."""
        self._model.minimize(self._time)
        return self._solved(effort, hint)

    def tidiest(self, at_most_ns: int, effort: float, hint: Sequence[str] | None = None) -> Answer:
        """Return, of the placements that promise to take no longer than `at_most_ns`, the cheapest on the fewest sites
        with the least between them."""
        self._model.add(self._time <= self._ticks(at_most_ns) + 1)
        self._model.minimize(self._untidiness())
        return self._solved(effort, hint)

    def _untidiness(self) -> Any:
        money = {
            (number, site): self._busy_ns[unit.processes[0]]
            / SECOND_NS
            / 3600
            / self._predictor.speed(site)
            * unit.cores
            * self._catalogue[site].cost
            for number, unit in enumerate(self._wanted.units)
            for site in self._count[number]
        }
        dearest = max(money.values(), default=0.0)
        terms = [
            round(1e6 * price / dearest) * self._count[number][site] * 1000
            for (number, site), price in money.items()
            if price
        ]
        terms += [30 * uses for uses in self._used_sites()]
        for one, other in self._coupled[:_MOST_PAIRS]:
            terms.append(self._is_apart((one, other)))
        return sum(terms)

    def _solved(self, effort: float, hint: Sequence[str] | None, is_fixed: bool = False) -> Answer:
        self._model.clear_hints()
        if hint is not None:
            for number, unit in enumerate(self._wanted.units):
                here = [hint[process] for process in unit.processes]
                for site, count in self._count[number].items():
                    self._model.add_hint(count, here.count(site))
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.fix_variables_to_their_hinted_value = is_fixed
        solver.parameters.max_deterministic_time = max(0.01, effort)
        status = solve(solver, self._model)
        self._value = solver.value
        took = solver.response_proto.deterministic_time
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return Answer((), 0, status == self._cp.INFEASIBLE, took)
        sites = [""] * len(self._predictor.network.processes)
        for number, unit in enumerate(self._wanted.units):
            places = [site for site, count in self._count[number].items() for _ in range(solver.value(count))]
            for process, site in zip(unit.processes, places, strict=True):
                sites[process] = site
        at_least = int(solver.best_objective_bound + 0.5) * self._tick
        return Answer(tuple(sites), at_least, status == self._cp.OPTIMAL, took)
