"""Planning for one site, this machine: from a model to the plan of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from xmml.analysis.capacity import Capacities, capacities
from xmml.analysis.network import Network, network
from xmml.analysis.source_data import source_data
from xmml.late_dataclass import dataclass
from xmml.model import Instance, Model
from xmml.problems import ModelError, Problem
from xmml_planner.copies import check_copies, copies_by_port, copy_names
from xmml_planner.execution_plan import Build, ConduitSpec, Job, Plan, PlannedInstance, PortSpec, ScaleSpec
from xmml_planner.hosting import OWN, share_processes
from xmml_planner.problems import position_from_text, problem_at
from xmml_planner.program import Program
from xmml_planner.programs import TOOLS_HERE, Tools, check_file, check_image, filter_program, program_of
from xmml_planner.ranks import members, port_spec
from xmml_planner.wiring import FILTER_PORTS, FilterTable, OwnFilter, check_filters, wire, with_copies

#: The only site until there is a catalogue of sites.
THIS_MACHINE = "local"


def plan(
    model: Model, *, site: str = THIS_MACHINE, filter_cost: FilterTable | None = None, hosts: int | None = None
) -> Plan:
    """Return how the model runs on one site.

    The same model always gives the same plan. Programs that a build makes are not looked for: they exist after the
    build only (see `missing_programs`).

    Args:
        model: the effective model, without errors.
        site: name of the site that everything runs on.
        filter_cost: what built-in filters make of their input; by default the table of the native filters.
        hosts: how many processes instances share that need none of their own; by default as many as this machine has
            cores, 0 for none.

    Raises:
        ModelError: something cannot be started or wired; its problems say what and where.
    """
    drawn = draft(model, filter_cost)
    instances = place_instances(model, drawn, lambda name: site, lambda name: TOOLS_HERE)
    made = Plan(
        model=model.id,
        model_version=model.version,
        model_path=os.path.abspath(model.path),
        model_folder=drawn.folder,
        jobs=(Job("all", site, tuple(instance.name for instance in instances if instance.rank_of is None)),),
        builds=builds_of(model, drawn.folder),
        instances=instances,
        conduits=drawn.conduits,
    )
    refuse(missing_programs(made, _built(made)))
    return share_processes(made, hosts)


@dataclass(frozen=True)
class Draft:
    """What does not depend on where anything runs.

    Attributes:
        folder: of the model, absolute.
        network: for the analyses.
        room: what every channel of it may hold.
        copies: by instance and port, copies at the other end.
    """

    folder: str
    network: Network
    room: Capacities
    copies: Mapping[tuple[str, str], int]
    conduits: tuple[ConduitSpec, ...]
    own_filters: tuple[OwnFilter, ...]


def draft(model: Model, filter_cost: FilterTable | None = None) -> Draft:
    """Return how a model is wired.

    Raises:
        ModelError: it cannot be wired; its problems say what and where.
    """
    if filter_cost is None:
        from xmml_planner.native_filters import filter_cost as native_filter_cost

        filter_cost = native_filter_cost
    copies, problems = copies_by_port(model)
    refuse([*check_copies(model), *problems, *check_filters(model, filter_cost)])
    whole = network(model, source_data(model).fires)
    room = capacities(whole)
    conduits, own_filters = wire(model, filter_cost, room)
    return Draft(os.path.dirname(os.path.abspath(model.path)), whole, room, copies, conduits, own_filters)


def place_instances(
    model: Model, drawn: Draft, site_of: Callable[[str], str], tools_of: Callable[[str], Tools]
) -> tuple[PlannedInstance, ...]:
    """Return everything that is started, as it is started at its site.

    Args:
        site_of: returns the site of an instance by name.
        tools_of: returns what programs are started with at a site.

    Raises:
        ModelError: something cannot be started; its problems say what and where.
    """
    problems: list[Problem] = []
    instances: list[PlannedInstance] = []
    for instance in model.instances.values():
        sites = {name: site_of(name) for name in copy_names(instance)}
        programs: dict[str, Program] = {}
        for site in dict.fromkeys(sites.values()):
            program = program_of(instance, drawn.folder, tools_of(site))
            if isinstance(program, Problem):
                problems.append(program)
            else:
                programs[site] = program
        if len(programs) == len(set(sites.values())):
            ports = tuple(port_spec(instance, port) for port in instance.ports.values())
            instances += _copies_of(instance, programs, with_copies(ports, instance.id, drawn.copies), sites)
    for own in drawn.own_filters:
        site = site_of(own.name)
        program = filter_program(own.applied, drawn.folder, tools_of(site))
        if isinstance(program, Problem):
            problems.append(program)
            continue
        instances.append(_filter_instance(own, program, site))
    refuse(problems)
    return tuple(instances)


def refuse(problems: Sequence[Problem]) -> None:
    """Raise the problems, if there are any."""
    if problems:
        raise ModelError(list(dict.fromkeys(problems)))


def _copies_of(
    instance: Instance, programs: Mapping[str, Program], ports: tuple[PortSpec, ...], sites: Mapping[str, str]
) -> list[PlannedInstance]:
    implementation = instance.definition.implementation
    run = implementation.run if implementation else None
    planned = [
        PlannedInstance(
            name=name,
            element=instance.id,
            kind=instance.kind,
            index=index,
            count=len(sites),
            check_order=instance.check_order,
            steps=instance.steps,
            until=instance.until,
            delta_s=instance.delta_s or 0.0,
            total_s=instance.total_s or 0.0,
            params={**instance.params, **instance.copy_params.get(index, {})},
            ports=ports,
            command=(program := programs[site]).command,
            env=dict(program.env),
            cores=program.cores,
            folder=f"instances/{name}",
            site=site,
            host=_host(instance),
            program=program.file,
            image=program.image,
            position=str(program.position or instance.position or ""),
            stage_in=run.stage_in if run else (),
            stage_exclude=run.stage_exclude if run else (),
            stage_out=run.stage_out if run else (),
            bind=instance.bind or (run.bind if run else None) or "",
            scales=tuple(ScaleSpec(**scale.in_base_units()) for scale in instance.scales),  # type: ignore[arg-type]
        )
        for index, (name, site) in enumerate(sites.items())
    ]
    return [member for each in planned for member in members(each, instance)]


def _host(instance: Instance) -> str | None:
    """Return `run:host` of the instance, else of its implementation; who wants GPUs for itself has its own process."""
    implementation = instance.definition.implementation
    run = implementation.run if implementation else None
    if instance.host is not None or run is None:
        return instance.host
    return run.host or (OWN if run.gpus else None)


def _filter_instance(own: OwnFilter, program: Program, site: str) -> PlannedInstance:
    applied = own.applied
    params = dict(applied.params)
    run = applied.definition.implementation.run if applied.definition.implementation else None
    if applied.factor is not None:
        params.setdefault("factor", repr(applied.factor))
    return PlannedInstance(
        name=own.name,
        element=applied.definition.id,
        kind="mapper",
        index=0,
        count=1,
        check_order=False,
        steps=1,
        until=False,
        delta_s=0.0,
        total_s=0.0,
        params=params,
        ports=FILTER_PORTS,
        command=program.command,
        env=dict(program.env),
        cores=1,
        folder=f"instances/{own.name}",
        site=site,
        host=run.host if run else None,
        bind=(run.bind if run else None) or "",
        position=str(applied.position or applied.definition.position or ""),
    )


def builds_of(model: Model, folder: str) -> tuple[Build, ...]:
    """Return the distinct builds in the order of the model, each with the instances that wait for it."""
    users: dict[str, list[str]] = {}
    positions: dict[str, str] = {}
    for instance in model.instances.values():
        implementation = instance.definition.implementation
        if implementation is None or implementation.run.build is None:
            continue
        command = implementation.run.build
        users.setdefault(command, []).extend(copy_names(instance))
        positions.setdefault(command, str(implementation.position or ""))
    return tuple(Build(command, folder, tuple(names), positions[command]) for command, names in users.items())


def _built(plan: Plan) -> set[str]:
    return {name for build in plan.builds for name in build.instances}


def missing_programs(
    plan: Plan, ignore: Collection[str] = frozenset(), elsewhere: Collection[str] = frozenset()
) -> list[Problem]:
    """Return a problem for each program and each image of the plan that is missing or cannot be started.

    Args:
        ignore: instances that are not looked at.
        elsewhere: sites of which only what lies in the model's folder can be known here.
    """
    problems, built = [], _built(plan)
    for instance in plan.instances:
        if instance.name in ignore:
            continue
        has_build = instance.name in built
        for file in (instance.program, instance.image):
            if file is None or (instance.site in elsewhere and not is_below(file, plan.model_folder)):
                continue
            if file == instance.image:
                wrong = check_image(file)
            else:
                wrong = check_file(file, _starts_itself(instance), plan.model_folder, has_build=has_build)
            if wrong is not None:
                message, help = wrong
                problems.append(
                    problem_at(position_from_text(instance.position), f'instance "{instance.name}": {message}', help)
                )
    return problems


def is_below(file: str, folder: str) -> bool:
    """Whether a file lies in a folder, or below."""
    return not os.path.relpath(file, folder).startswith(os.pardir)


def _starts_itself(instance: PlannedInstance) -> bool:
    """Whether the program is started directly, not by an interpreter (an MPI launcher starts it directly, too)."""
    place = instance.command.index(instance.program) if instance.program in instance.command else 0
    before = instance.command[place - 1]
    return instance.program == instance.command[0] or before.isdecimal() or before == instance.image
