"""Planning over several sites: from a model and a catalogue of sites to the plan of a run.

The placement comes from `placement`; here it becomes jobs, programs, routes, relays, and what is staged where.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xmml.analysis.self_timed import simulate
from xmml.analysis.source_data import source_data
from xmml.analysis.static import static_analysis
from xmml.model import Model
from xmml.problems import did_you_mean
from xmml_planner.copies import copy_names
from xmml_planner.execution_plan import (
    Build,
    ConduitSpec,
    Expectation,
    InstanceTimes,
    Plan,
    PlannedInstance,
    StagedFile,
)
from xmml_planner.hosting import share_processes
from xmml_planner.job_settings import JobSettings
from xmml_planner.placement.demands import demands
from xmml_planner.placement.prediction import SECOND_NS, Predictor
from xmml_planner.placement.refusal import nodes_that_would_do, why
from xmml_planner.placement.search import EFFORT, NoPlacement, Placement, Search
from xmml_planner.planning import Draft, builds_of, draft, missing_programs, place_instances, refuse
from xmml_planner.problems import NoPlan, WishError
from xmml_planner.programs import TOOLS_HERE, Tools
from xmml_planner.ranks import RANK_MARK
from xmml_planner.routing import Routing
from xmml_planner.site_jobs import jobs_of
from xmml_planner.sites.catalogue import Site, SiteCatalogue
from xmml_planner.sites.ways import Ways
from xmml_planner.staging import staged_paths
from xmml_planner.wiring import FilterTable

#: Messages that a conduit between sites may hold so that a long way is never empty; more are no use to a prediction.
_MOST_ON_THE_WAY = 1_024


def plan_over_sites(
    model: Model,
    catalogue: SiteCatalogue,
    *,
    wishes: Mapping[str, str] | None = None,
    max_cost: float | None = None,
    effort: float = EFFORT,
    filter_cost: FilterTable | None = None,
    hosts: int | None = None,
    jobs: Mapping[str, JobSettings] | None = None,
) -> Plan:
    """Return the plan of the run that is predicted to end first.

    The same model, catalogue and wishes always give the same plan.

    Args:
        model: the effective model, without errors.
        wishes: sites by name of an instance (all its copies) or of a copy.
        max_cost: what all jobs together may cost; `None`: anything.
        effort: deterministic time of the solver, about seconds.
        filter_cost: what built-in filters make of their input; by default the table of the native filters.
        hosts: processes that instances share in each job; by default as many as a node has cores.
        jobs: what jobs ask for, by site, where that is not what the catalogue says.

    Raises:
        ModelError: something cannot be started or wired; its problems say what and where.
        WishError: a wish names something that there is not.
        NoPlan: no plan satisfies the sites.
        SolverMissing: OR-Tools is not installed.
    """
    wishes, jobs, described = wishes or {}, jobs or {}, catalogue
    catalogue = replace(
        catalogue,
        sites={name: jobs[name].of_site(site) if name in jobs else site for name, site in catalogue.sites.items()},
    )
    _check_wishes(model, catalogue, wishes)
    drawn = draft(model, filter_cost)
    ways = Ways(catalogue)
    predictor = _predictor(model, drawn, ways, wishes)
    sites = list(catalogue.sites)
    try:
        placement = Search(predictor, sites, max_cost, effort).placement()
    except NoPlacement as error:
        would_do = nodes_that_would_do(predictor, catalogue[sites[0]]) if len(sites) == 1 else None
        raise NoPlan(why(predictor, sites, max_cost, error.because), would_do) from None
    made = _Assembly(model, drawn, predictor, placement).plan(hosts)
    asked = (jobs[job.site].of_job(job, described[job.site]) if job.site in jobs else job for job in made.jobs)
    return replace(made, jobs=tuple(asked))


def _check_wishes(model: Model, catalogue: SiteCatalogue, wishes: Mapping[str, str]) -> None:
    known = dict.fromkeys(
        name for instance in model.instances.values() for name in (instance.id, *copy_names(instance))
    )
    for name, site in wishes.items():
        if name not in known:
            raise WishError(f'there is no instance "{name}"; {did_you_mean(name, model.instances, "instances")}')
        if site not in catalogue.sites:
            raise WishError(f'there is no site "{site}"; {did_you_mean(site, catalogue.sites, "sites")}')


def _predictor(model: Model, drawn: Draft, ways: Ways, wishes: Mapping[str, str]) -> Predictor:
    whole = drawn.network
    static = static_analysis(whole, source_data(model).uncertain)
    alone = simulate(whole, drawn.room.chosen)
    wanted = demands(whole, static, wishes, alone.begin_ns, alone.busy_ns)
    return Predictor(whole, wanted, ways, _wide(drawn, ways), alone.final.sent)


def _wide(drawn: Draft, ways: Ways) -> list[int]:
    """Return what every channel may hold so that the longest way between two sites is never empty for want of room."""
    names = list(ways.catalogue.sites)
    most = max(
        (
            2 * way.latency_s * way.bandwidth
            for place, one in enumerate(names)
            for other in names[place + 1 :]
            if (way := ways.way(one, other)) is not None
        ),
        default=0.0,
    )
    return [
        channel.capacity or _room(chosen, most, channel.size_bytes)
        for channel, chosen in zip(drawn.network.channels, drawn.room.chosen, strict=True)
    ]


def _room(chosen: int, on_the_way: float, size: float | None) -> int:
    """Return how many messages a conduit holds on a way that has so many bytes on it."""
    if not size:
        return max(chosen, _MOST_ON_THE_WAY)
    return max(chosen, min(_MOST_ON_THE_WAY, math.ceil(on_the_way / size) + 1))


def tools_of(site: Site) -> Tools:
    """Return what programs are started with at a site."""

    find = TOOLS_HERE.find if site.is_here else lambda name: name

    def launcher(ranks: int) -> tuple[str, ...] | None:
        if site.is_here and not site.has_queue and site.mpi == "mpirun":
            return TOOLS_HERE.launcher(ranks)
        if "{ranks}" in site.mpi:
            program, *arguments = shlex.split(site.mpi.replace("{ranks}", str(ranks)))
            return (find(program) or program, *arguments)
        return (find(site.mpi) or site.mpi, "-n", str(ranks))

    return Tools(site.python, find, launcher, site.container, is_elsewhere=not site.is_here)


class _Assembly:
    """A plan in the making, from where everything runs."""

    def __init__(self, model: Model, drawn: Draft, predictor: Predictor, placement: Placement) -> None:
        self._model, self._drawn, self._predictor, self._placement = model, drawn, predictor, placement
        self._catalogue = predictor.ways.catalogue
        self._site_of = {
            process.name: site for process, site in zip(drawn.network.processes, placement.sites, strict=True)
        }
        for own in drawn.own_filters:  # a filter that runs by itself is where what it filters comes from
            into = next(conduit for conduit in drawn.conduits if conduit.receiver == own.name)
            self._site_of[own.name] = self._site_of[_instance(into.sender)]

    def plan(self, hosts: int | None) -> Plan:
        tools = {name: tools_of(site) for name, site in self._catalogue.sites.items()}
        instances = place_instances(self._model, self._drawn, self._site_of.__getitem__, tools.__getitem__)
        routing = Routing(self._predictor, self._site_of, self._drawn)
        conduits = tuple(self._far(conduit, routing) for conduit in self._drawn.conduits)
        used = [*dict.fromkeys(self._site_of.values()), *routing.sites]
        part = self._catalogue.only(used)
        builds = self._builds()
        jobs, instances = jobs_of(self._predictor, self._placement.prediction, instances, conduits)
        made = Plan(
            model=self._model.id,
            model_version=self._model.version,
            model_path=os.path.abspath(self._model.path),
            model_folder=self._drawn.folder,
            jobs=jobs,
            builds=builds,
            instances=instances,
            conduits=conduits,
            sites=tuple(part.sites.values()),
            links=part.links,
            relays=routing.relays(),
            paths=routing.paths(),
            routes=routing.routes(conduits),
            stage=self._stage(instances, builds),
            expected=self._expected(routing, sum(job.cost for job in jobs)),
        )
        built = {name for build in builds for name in build.instances}
        elsewhere = {site.name for site in made.sites if not site.is_here}
        refuse(missing_programs(made, built, elsewhere))
        return share_processes(made, hosts)

    def _far(self, conduit: ConduitSpec, routing: Routing) -> ConduitSpec:
        """Return a conduit with what it needs if it leads to another site: methods, and room for what is on the way."""
        way = routing.way(conduit)
        if way is None:
            return conduit
        on_the_way = 2 * way.latency_s * way.bandwidth
        size = routing.size_bytes(conduit)
        fixed = routing.fixed_capacity(conduit)
        return replace(
            conduit,
            methods=routing.methods(conduit),
            capacity=fixed or _room(conduit.capacity, on_the_way, size),
            byte_budget=max(conduit.byte_budget, math.ceil(2 * on_the_way)),
        )

    def _builds(self) -> tuple[Build, ...]:
        found = []
        for build in builds_of(self._model, self._drawn.folder):
            by_site: dict[str, list[str]] = {}
            for name in build.instances:
                by_site.setdefault(self._site_of[name], []).append(name)
            found += [replace(build, instances=tuple(names), site=site) for site, names in by_site.items()]
        return tuple(found)

    def _stage(self, instances: Sequence[PlannedInstance], builds: Sequence[Build]) -> tuple[StagedFile, ...]:
        """Return what of the model's folder is needed at the sites that are reached by ssh."""
        wanted: dict[tuple[str, str], list[PlannedInstance]] = {}
        building = {(build.site, name) for build in builds for name in build.instances}
        for instance in instances:
            if self._catalogue[instance.site].is_here or instance.rank_of is not None:
                continue
            builds_here = (instance.site, instance.name) in building
            for path in staged_paths(instance, self._drawn.folder, builds_here):
                wanted.setdefault((instance.site, path), []).append(instance)
        return tuple(
            StagedFile(site, path, tuple(each.name for each in needing), _unneeded_by_all(needing))
            for (site, path), needing in wanted.items()
        )

    def _expected(self, routing: Routing, total_cost: float) -> Expectation:
        prediction = self._placement.prediction
        simulated = prediction.simulated
        network = self._drawn.network
        return Expectation(
            makespan_s=prediction.makespan_ns / SECOND_NS,
            at_least_s=self._placement.at_least_ns / SECOND_NS,
            is_complete=simulated.is_complete,
            cost=total_cost,
            instances={
                process.name: InstanceTimes(
                    max(0, simulated.begin_ns[process.index]) / SECOND_NS,
                    simulated.end_ns[process.index] / SECOND_NS,
                    simulated.busy_ns[process.index] / SECOND_NS,
                )
                for process in network.processes
            },
            unknown=tuple(
                name
                for name, own in network.by_instance.items()
                if network.processes[own[0]].is_submodel and not network.processes[own[0]].runtime_ns
            ),
            guessed=routing.guessed(),
        )


def _instance(member: str) -> str:
    return member.partition(RANK_MARK)[0]


def _unneeded_by_all(instances: Sequence[PlannedInstance]) -> tuple[str, ...]:
    """Return the patterns of the files that none of the instances needs."""
    return tuple(
        pattern for pattern in instances[0].stage_exclude if all(pattern in each.stage_exclude for each in instances)
    )
