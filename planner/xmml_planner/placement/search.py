"""The search for the fastest placement: the solver proposes, the simulation answers with what really bounds it.

Each round, the solver returns the placement whose time is least by the critical chains known so far: no placement can
be faster than that. The simulation gives the true time of it, and the chain that caused it. When both meet, the
placement is best, and that is proven.

A model with so many units and sites that the solver could not take all choices in is placed by the greedy algorithm,
which is improved part by part (`neighbourhood`); how far from the best that is at most, is then known from the chains
of the model alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from xmml.analysis.path_weights import PathWeights
from xmml.late_dataclass import dataclass
from xmml_planner.placement.greedy import cores_of, greedy_placement
from xmml_planner.placement.limits import possible_sites
from xmml_planner.placement.master import Answer, Master
from xmml_planner.placement.neighbourhood import Choices, around_latest, cheaper_or_nearer, near
from xmml_planner.placement.packing import fits, pieces_at, pieces_of_group
from xmml_planner.placement.prediction import SECOND_NS, Prediction, Predictor
from xmml_planner.sites.ways import WITHIN_SITE_S

#: Deterministic time of the solver for a whole search: some seconds each.
EFFORT = 2.0
#: Rounds of proposing and answering.
_ROUNDS = 60
#: One round may take this part of the whole effort.
_MOST_IN_ONE_ROUND = 4
#: Chains that are taken from one simulation, to the processes that end last; and one for each group that begins no
#: other.
_CHAINS = 12
#: So many sites are tried for everything together, each with so much effort.
_HOMES = 3
_GLANCE = 0.2
#: To find any placement at all, so many times the whole effort may be spent, and each time that the solver is asked at
#: least so much.
_BEGINNING = 2.0
_AT_LEAST = 0.5
#: So many placements that promise to be equally fast, and tidier, are tried.
_TIDYINGS = 8
#: Deterministic time for choosing among placements that are equally fast.
_TIDYING = 0.3
#: What the best known placement may improve by before times are counted in finer ticks.
_FINER = 64
#: Choices of a site for a unit, all together, up to which the solver is given all of them: four thousand units at ten
#: sites.
_MOST_CHOICES = 40_000
#: So many parts of a larger search are tried one after the other, each with so many choices.
_PARTS = 4
_CHOICES_OF_A_PART = 6_000
#: A difference that comes from rounding only.
ROUNDING = 1e-6


class NoPlacement(Exception):
    """No placement satisfies the sites.

    Attributes:
        because: what kept the last ones from being accepted beyond what the solver itself knows: `nodes`, `walltime`,
            `cost`.
    """

    def __init__(self, because: frozenset[str]) -> None:
        super().__init__("no placement satisfies the sites")
        self.because = because


@dataclass(frozen=True)
class Placement:
    """Where everything runs.

    Attributes:
        sites: by process of the network.
        prediction: what happens there.
        at_least_ns: no placement is faster.
        effort: deterministic time that the solver took.
    """

    sites: tuple[str, ...]
    prediction: Prediction
    at_least_ns: int
    effort: float

    @property
    def is_best(self) -> bool:
        """Whether it is proven that no placement is faster."""
        return self.prediction.makespan_ns <= self.at_least_ns * (1 + ROUNDING) + 1


@dataclass(frozen=True)
class _Refusal:
    """Why a placement cannot be: the kind of reason, and the processes that alone make it so (`None`: all)."""

    kind: str
    processes: tuple[int, ...] | None = None


class Search:
    """What is known so far about the placements of one model."""

    def __init__(self, predictor: Predictor, sites: Sequence[str], max_cost: float | None, effort: float) -> None:
        self._predictor, self._sites, self._max_cost = predictor, sites, max_cost
        self._possible = possible_sites(predictor.demands.units, [predictor.ways.catalogue[site] for site in sites])
        self._is_whole = sum(map(len, self._possible)) <= _MOST_CHOICES
        self._left, self._round = effort, effort / _MOST_IN_ONE_ROUND
        self._most_to_begin = _BEGINNING * effort
        self._taken = 0.0
        self._best: Prediction | None = None
        self._at_least = 0
        self._paths: list[tuple[PathWeights, tuple[str, ...]]] = []
        self._durations: list[tuple[int, PathWeights, tuple[str, ...]]] = []
        self._loads: list[tuple[tuple[str, str], tuple[int, ...], tuple[str, ...]]] = []
        self._excluded: list[tuple[tuple[str, ...], tuple[int, ...] | None]] = []
        self._known: set[object] = set()
        self._kinds: set[str] = set()
        self._seen: dict[tuple[str, ...], bool] = {}
        # what one fast site of any size would do: the chains of the model itself
        fastest = max(sites, key=predictor.speed)
        alone = predictor.alone(fastest)
        # runs that nobody waits for any more count as busy, but the end of their process does not wait for them
        run = alone.simulated
        spans = (end - max(0, begin) for begin, end in zip(run.begin_ns, run.end_ns, strict=True))
        self._busy_ns = [
            round(min(busy, max(0, span)) * predictor.speed(fastest))
            for busy, span in zip(run.busy_ns, spans, strict=True)
        ]
        self._alone = alone
        group_of = [predictor.demands.group_of[unit] for unit in predictor.demands.unit_of]
        self._last_groups = set(group_of) - {
            group_of[channel.sender]
            for channel in predictor.network.channels
            if group_of[channel.sender] != group_of[channel.receiver]
        }
        if alone.simulated.is_complete and all(link.latency_s >= WITHIN_SITE_S for link in predictor.ways.links()):
            self._at_least = alone.simulated.makespan_ns + min(map(predictor.wait_ns, sites))
        self._learn(alone)

    def placement(self) -> Placement:
        """Return the best placement that the effort suffices to find.

        Raises:
            NoPlacement: there is none.
        """
        if len(self._sites) == 1:
            return self._only_placement()
        self._begin()
        if self._is_proven() and self._is_tidy():
            return self._found()
        if self._is_whole:
            master = self._improve()
        else:
            self._improve_in_parts()
            if self._is_tidy():
                return self._found()
            master = self._master(self._best_ns(), choices=self._tidier())
        self._tidy(master)
        return self._found()

    def _only_placement(self) -> Placement:
        """Return the placement at the only site, for which no solver is needed.

        Raises:
            NoPlacement: it does not satisfy that site.
        """
        sites = (self._sites[0],) * len(self._predictor.network.processes)
        prediction = self._predictor.predict(sites)
        refusal = self._beyond_nodes(sites) or self._beyond_walltime(prediction) or self._beyond_cost(prediction)
        if refusal is not None or not all(self._possible):
            raise NoPlacement(frozenset((refusal.kind,) if refusal is not None else ()))
        return Placement(sites, prediction, prediction.makespan_ns, 0.0)

    def _found(self) -> Placement:
        assert self._best is not None
        return Placement(self._best.sites, self._best, min(self._at_least, self._best.makespan_ns), self._taken)

    def _improve(self) -> Master:
        """Try what promises to be fastest until nothing does any more, or the effort is spent.

        Returns:
            the master that was asked last.
        """
        scale = self._best_ns()
        master = self._master(scale)
        for _ in range(_ROUNDS):
            if self._is_proven() or self._left <= 0:
                break
            answer = self._ask(master.fastest(min(self._left, self._round), self._best_sites()))
            if not answer.sites:
                if answer.is_best:  # everything that might be faster is excluded
                    self._at_least = self._best_ns()
                break
            self._at_least = max(self._at_least, min(answer.at_least_ns, self._best_ns()))
            if answer.sites in self._seen:
                if answer.is_best:
                    break
                self._round *= 2
                continue
            self._try(answer.sites, master)
            if not self._seen[answer.sites] and "nodes" in self._kinds:
                self._try_with_room(scale, master)
            if self._best_ns() * _FINER < scale:
                scale = self._best_ns()
                master = self._master(scale)
        return master

    def _improve_in_parts(self) -> None:
        """Try what promises to be fastest near to the best placement, part by part; nothing is proven by that."""
        for turn in range(_PARTS):
            if self._is_proven() or self._left <= 0:
                return
            assert self._best is not None
            wanted = self._predictor.demands
            choices = around_latest(wanted, self._possible, self._best, _CHOICES_OF_A_PART, turn)
            master = self._master(self._best_ns(), choices=choices)
            answer = self._ask(master.fastest(min(self._left, self._round), self._best_sites()))
            if answer.sites and answer.sites not in self._seen:
                self._try(answer.sites, master)

    def _tidier(self) -> Choices:
        """Return the sites at which units may be in a placement that is as fast as the best one, and tidier."""
        predictor = self._predictor
        wanted = predictor.demands
        coupled = dict.fromkeys(
            (wanted.unit_of[channel.sender], wanted.unit_of[channel.receiver]) for channel in predictor.network.channels
        )
        costs = {site: predictor.ways.catalogue[site].cost for site in self._sites}
        return cheaper_or_nearer(wanted, self._possible, self._best_sites(), list(coupled), costs, _CHOICES_OF_A_PART)

    def cheapest(self, effort: float) -> float | None:
        """Return what no placement costs less than, by what is known so far."""
        return self._master(self._longest_ns).cheapest(effort)

    def _try_any_with_room(self, master: Master) -> None:
        """Try a placement that leaves room at every node."""
        hint = greedy_placement(self._predictor, self._sites, self._alone, is_roomy=True)
        for choices in self._first_choices(hint):
            roomy = self._master(self._longest_ns, is_timed=False, is_roomy=True, choices=choices)
            answer = self._ask(roomy.any_placement(max(self._left, _AT_LEAST), hint))
            if answer.sites:
                break
        if answer.sites and answer.sites not in self._seen:
            self._try(answer.sites, master)

    def _try_with_room(self, scale: int, master: Master) -> None:
        """Try the placement that promises to be fastest of those that leave room at every node. Beside one that fails
        node by node there are very many more that do, if much is to be placed, and nothing tells the solver."""
        roomy = self._master(scale, is_roomy=True)
        answer = self._ask(roomy.fastest(min(self._left, self._round), self._best_sites()))
        if answer.sites and answer.sites not in self._seen:
            self._try(answer.sites, master)

    def _best_ns(self) -> int:
        assert self._best is not None
        return self._best.makespan_ns

    def _best_sites(self) -> tuple[str, ...]:
        assert self._best is not None
        return self._best.sites

    def _is_proven(self) -> bool:
        return self._best is not None and self._best_ns() <= self._at_least * (1 + ROUNDING) + 1

    def _is_tidy(self) -> bool:
        """Whether nothing costs anything, each group is at one site, and no messages go between sites."""
        if any(self._predictor.ways.catalogue[site].cost for site in self._sites):
            return False
        sites, wanted = self._best_sites(), self._predictor.demands
        homes = {(wanted.group_of[wanted.unit_of[process]], site) for process, site in enumerate(sites)}
        return len(homes) == len(wanted.groups) and all(
            sites[channel.sender] == sites[channel.receiver] for channel in self._predictor.network.channels
        )

    def _ask(self, answer: Answer) -> Answer:
        self._left -= answer.effort
        self._taken += answer.effort
        return answer

    def _begin(self) -> None:
        """Find some placement that satisfies the sites: all at one of the best, or a greedy one.

        Raises:
            NoPlacement: there is none, or none was found.
        """
        hint = greedy_placement(self._predictor, self._sites, self._alone)
        for number, choices in enumerate(self._first_choices(hint)):
            master = self._master(self._longest_ns, is_timed=False, choices=choices)
            if number == 0:
                self._try_homes(master)
            self._begin_within(master, hint)
            if self._best is not None:
                return
        raise NoPlacement(frozenset(self._kinds))

    def _first_choices(self, hint: Sequence[str]) -> Iterator[Choices]:
        """Yield what to choose from: everything, or at first what is near to a hint."""
        units = self._predictor.demands.units
        if not self._is_whole:
            for width in (1, _MOST_CHOICES // len(units)):
                yield near(self._predictor.demands, self._possible, hint, width)
        yield self._possible

    def _try_homes(self, master: Master) -> None:
        """Try everything together at one of the sites where that would end first."""
        size = len(self._predictor.network.processes)
        for site in sorted(self._sites, key=self._ends_alone)[:_HOMES]:
            if not self._may_hold_all(site):
                continue
            if not self._is_whole:
                master = self._master(self._longest_ns, is_timed=False, choices=[[site]] * len(self._possible))
            if master.satisfies([site] * size, _GLANCE):
                self._try((site,) * size, master)
                break

    def _may_hold_all(self, name: str) -> bool:
        """Whether a site is large enough for everything, as far as that is known without asking the solver."""
        site, wanted = self._predictor.ways.catalogue[name], self._predictor.demands
        cores = [cores_of(self._predictor, group) for group in wanted.groups]
        return (
            all(name in own for own in self._possible)
            and (max(cores) if wanted.before else sum(cores)) <= site.all_cores
            and sum(unit.gpus * unit.count for unit in wanted.units) <= site.all_gpus
        )

    def _begin_within(self, master: Master, hint: Sequence[str]) -> None:
        """Look for a placement near to a hint, until one satisfies also what the solver does not know."""
        has_tried_roomy = False
        for _ in range(_ROUNDS):
            if self._taken > self._most_to_begin:
                return
            answer = self._ask(master.any_placement(max(self._left, _AT_LEAST), hint))
            if not answer.sites:
                return
            if answer.sites not in self._seen:
                self._try(answer.sites, master)
            if self._best is None and "nodes" in self._kinds and not has_tried_roomy:
                has_tried_roomy = True
                self._try_any_with_room(master)
            if self._best is not None:
                return

    @cached_property
    def _longest_ns(self) -> int:
        return self._predictor.longest_ns(self._sites)

    def _ends_alone(self, site: str) -> float:
        """Return when everything would end at one site."""
        speed = self._predictor.speed(self._alone.sites[0]) / self._predictor.speed(site)
        return self._predictor.wait_ns(site) + self._alone.simulated.makespan_ns * speed

    def _master(
        self, best_ns: int, is_timed: bool = True, is_roomy: bool = False, choices: Choices | None = None
    ) -> Master:
        master = Master(
            self._predictor,
            self._sites,
            best_ns=best_ns,
            busy_ns=self._busy_ns,
            max_cost=self._max_cost,
            is_roomy=is_roomy,
            choices=choices or self._possible,
        )
        for duration in self._durations:
            master.add_duration(*duration)
        if is_timed:
            for path in self._paths:
                master.add_path(*path)
            for load in self._loads:
                master.add_load(*load)
        for excluded in self._excluded:
            master.exclude(*excluded)
        return master

    def _try(self, sites: tuple[str, ...], master: Master) -> Prediction | None:
        """Return what a placement does; keep it if it is the best so far, and tell the solver what bounds it.

        Of a placement in part of a large search that fails node by node nothing more is learned: `None`.
        """
        refusal = self._beyond_nodes(sites)
        if refusal is not None and not self._is_whole:
            self._refuse(sites, refusal, master)
            return None
        prediction = self._predictor.predict(sites)
        refusal = refusal or self._beyond_walltime(prediction) or self._beyond_cost(prediction)
        self._seen[sites] = refusal is None
        paths, durations, loads = len(self._paths), len(self._durations), len(self._loads)
        self._learn(prediction)
        for path in self._paths[paths:]:
            master.add_path(*path)
        for duration in self._durations[durations:]:
            master.add_duration(*duration)
        for load in self._loads[loads:]:
            master.add_load(*load)
        if refusal is not None:
            self._refuse(sites, refusal, master)
        elif self._best is None or prediction.makespan_ns < self._best.makespan_ns:
            self._best = prediction
        return prediction

    def _refuse(self, sites: tuple[str, ...], refusal: _Refusal, master: Master) -> None:
        self._seen[sites] = False
        self._kinds.add(refusal.kind)
        self._excluded.append((sites, refusal.processes))
        master.exclude(*self._excluded[-1])

    def _learn(self, prediction: Prediction) -> None:
        ends = prediction.simulated.end_ns
        wanted = self._predictor.demands
        latest = sorted(range(len(ends)), key=lambda process: (-ends[process], process))
        of_groups: dict[int, int] = {}
        for process in latest:
            if (group := wanted.group_of[wanted.unit_of[process]]) in self._last_groups:
                of_groups.setdefault(group, process)
        last = dict.fromkeys([*latest[:_CHAINS], *of_groups.values()])
        for process in last:
            path = prediction.path_to(process)
            of_copies = tuple(
                (each, prediction.sites[each])
                for each in path.computing_ns
                if wanted.units[wanted.unit_of[each]].count > 1
            )
            key = path.begins, tuple(path.computing_ns.items()), tuple(path.messages.items()), of_copies
            if key not in self._known:
                self._known.add(key)
                self._paths.append((path, prediction.sites))
        self._learn_durations(prediction)
        sites = prediction.sites
        if prediction.load_ns > prediction.simulated.makespan_ns:
            loads = self._predictor.loads_ns(sites)
            busiest = max(loads, key=lambda hop: (loads[hop], hop))
            over = tuple(
                number
                for number, hop in self._predictor.crossings(range(len(self._predictor.network.channels)), sites)
                if hop == busiest
            )
            self._loads.append((busiest, over, sites))

    def _learn_durations(self, prediction: Prediction) -> None:
        """Learn what bounds how long the groups run, if that matters."""
        wanted = self._predictor.demands
        if self._max_cost is None and all(
            self._predictor.ways.catalogue[site].walltime_s is None for site in self._sites
        ):
            return
        ends = prediction.simulated.end_ns
        for number, group in enumerate(wanted.groups):
            members = [process for unit in group.units for process in wanted.units[unit].processes]
            path = prediction.path_to(max(members, key=lambda process: (ends[process], -process)))
            if {wanted.group_of[wanted.unit_of[process]] for process in (path.begins, *path.computing_ns)} == {number}:
                self._durations.append((number, path, prediction.sites))

    # why a placement cannot be, beyond what the solver itself knows

    def _beyond_nodes(self, sites: Sequence[str]) -> _Refusal | None:
        by_site: dict[str, list[int]] = {}
        for process, site in enumerate(sites):
            by_site.setdefault(site, []).append(process)
        for site, here in by_site.items():
            if not self._fit(here, site):
                return _Refusal("nodes", tuple(self._fewest(here, site)))
        return None

    def _fit(self, processes: Sequence[int], site: str) -> bool:
        wanted = self._predictor.demands
        counts: dict[int, int] = {}
        for process in processes:
            counts[wanted.unit_of[process]] = counts.get(wanted.unit_of[process], 0) + 1
        return all(fits(pieces, self._predictor.ways.catalogue[site]) for pieces in pieces_at(wanted, counts))

    def _fewest(self, processes: Sequence[int], site: str) -> list[int]:
        """Return some of the processes that alone do not fit, such that none of them can be left out."""
        kept = list(processes)
        if len(kept) > 200:
            return kept
        for process in processes:
            fewer = [each for each in kept if each != process]
            if not self._fit(fewer, site):
                kept = fewer
        return kept

    def _beyond_walltime(self, prediction: Prediction) -> _Refusal | None:
        for times in group_times(self._predictor, prediction):
            for site in times.sites:
                longest = self._predictor.ways.catalogue[site].walltime_s
                if longest is not None and times.ends_ns - times.begins_ns > longest * SECOND_NS * (1 + ROUNDING):
                    return _Refusal("walltime")
        return None

    def _beyond_cost(self, prediction: Prediction) -> _Refusal | None:
        if self._max_cost is not None and cost(self._predictor, prediction) > self._max_cost * (1 + ROUNDING):
            return _Refusal("cost")
        return None

    def _tidy(self, master: Master) -> None:
        """Among placements that are as fast, take the cheapest on the fewest sites."""
        before = self._best
        at_most = round(self._best_ns() * (1 + ROUNDING))
        for _ in range(_TIDYINGS):
            answer = self._ask(master.tidiest(at_most, _TIDYING, self._best_sites()))
            if not answer.sites or answer.sites == self._best_sites():
                break
            prediction = self._try(answer.sites, master)
            if prediction and self._seen[answer.sites] and prediction.makespan_ns <= at_most:
                self._best = prediction
                return
            master.exclude(answer.sites)
        self._best = before


@dataclass(frozen=True)
class GroupTimes:
    """When a group runs, and what it takes where.

    Attributes:
        sites: the sites of its units, with the cores that it needs there.
    """

    begins_ns: int
    ends_ns: int
    sites: dict[str, int]


def group_times(predictor: Predictor, prediction: Prediction) -> list[GroupTimes]:
    """Return when each group runs and how many cores it needs where."""
    wanted = predictor.demands
    begins, ends = prediction.simulated.begin_ns, prediction.simulated.end_ns
    found = []
    for number, group in enumerate(wanted.groups):
        members = [process for unit in group.units for process in wanted.units[unit].processes]
        started = [begins[process] for process in members if begins[process] >= 0]
        counts: dict[str, dict[int, int]] = {}
        for process in members:
            here, unit = counts.setdefault(prediction.sites[process], {}), wanted.unit_of[process]
            here[unit] = here.get(unit, 0) + 1
        cores = {
            site: sum(piece.cores for piece in pieces_of_group(wanted, group, here)) for site, here in counts.items()
        }
        begin = max(min(started, default=0), prediction.releases_ns[number])
        found.append(GroupTimes(begin, max([begin, *(ends[process] for process in members)]), cores))
    return found


def cost(predictor: Predictor, prediction: Prediction) -> float:
    """Return what all jobs cost together."""
    total = 0.0
    for times in group_times(predictor, prediction):
        hours = (times.ends_ns - times.begins_ns) / SECOND_NS / 3600
        total += sum(cores * hours * predictor.ways.catalogue[site].cost for site, cores in times.sites.items())
    return total
