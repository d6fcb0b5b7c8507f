"""From the file on the command line to a plan: check, resolve, plan; what is wrong goes to people."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xmml_planner import NoPlan, Plan, PlanFormatError, WishError, plan, plan_from_text
from xmml_planner.hosting import share_processes
from xmml_planner.planning import refuse

from xmml.late_dataclass import dataclass
from xmml.model import Model
from xmml.problems import ModelError, Problem, in_order, render_all
from xmml.reach import CODE, Reach, real_path
from xmml_run.allocated import allocated_sites, plan_in_allocation
from xmml_run.arguments import UsageError

if TYPE_CHECKING:
    from xmml_planner.sites.allocation import Allocation

    from xmml.check import CheckResult


@dataclass(frozen=True)
class Planned:
    """A plan, the model it was made from (none if the plan was read from a file), and the warnings on the way.

    Attributes:
        notes: what people have to know of where it runs.
    """

    plan: Plan
    model: Model | None
    warnings: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sites:
    """What the command line says of sites.

    Attributes:
        path: the file of sites.
        wishes: sites by instance.
        max_cost: what a run may cost; `None`: anything.
        jobs: what jobs ask their queues for, by key, or site, dot and key.
    """

    path: str
    wishes: Mapping[str, str]
    max_cost: float | None = None
    jobs: Sequence[tuple[str, str]] = ()


def sites_of(options: Namespace) -> Sites | None:
    """Return what the options say of sites; `None`: everything runs on this machine.

    Raises:
        UsageError: there are wishes, and no file of sites.
    """
    if options.sites is None:
        given = {"--place": options.place, "--max-cost": options.max_cost is not None, "--job": options.jobs}
        for option, is_given in given.items():
            if is_given:
                raise UsageError(f"{option} needs the sites to choose from: add --sites FILE")
        return None
    return Sites(options.sites, dict(options.place), options.max_cost, options.jobs)


def read_and_plan(
    path: str,
    parameter_files: Sequence[str],
    overrides: Mapping[str, str],
    hosts: int | None = None,
    sites: Sites | None = None,
    allocation: Allocation | None = None,
    *,
    allow_outside: bool = False,
    record: Sequence[str] = (),
) -> Planned:
    """Return the plan of a model document, or the one that a `plan.json` holds.

    Args:
        hosts: the number of processes that instances share; `None`: as many as cores, or as the `plan.json` says.
        allocation: that of the job in which this process runs, if its nodes are to be used.
        allow_outside: files that the model names may lie anywhere.
        record: patterns of out ports; an archive keeps what passes there.

    Raises:
        ModelError: the model has errors, or something it names cannot be started.
        PlanFormatError: the file is a plan that cannot be read.
        SitesError: the file of sites cannot be used.
        NoPlan: no plan satisfies the sites.
        UsageError: a wish or a port to record names something that there is not, a setting of jobs is wrong, the solver
            that planning over sites needs is not installed, or the plan has its sites, and what it records, already.
    """
    if path.endswith(".json"):
        if sites is not None:
            raise UsageError(f"{path} is a plan, which says where everything runs: leave out --sites")
        if record:
            raise UsageError(f"{path} is a plan, which cannot be changed: give --record with the model")
        made = plan_from_text(_text(path))
        return Planned(made if hosts is None else share_processes(made, hosts), None, ())
    from xmml.check import check

    result = check(path, parameter_files, overrides, allow_outside=allow_outside)
    if record:
        result = _with_record(result.model_or_raise(), record, parameter_files, overrides)
    model = result.model_or_raise()
    warnings = [problem for problem in result.problems if not problem.is_error]
    try:
        made, notes = _plan(model, hosts, sites, allocation)
        if sites is not None and model.document is not None:
            refuse(_staged_out_of_reach(made, model.document.reach))
        return Planned(made, model, tuple(warnings), notes)
    except ModelError as error:
        others = [
            problem for problem in warnings if problem.code != "W14"
        ]  # what is not there, planning tells as errors
        raise ModelError(in_order([*error.problems, *others])) from None


def _with_record(
    model: Model, record: Sequence[str], parameter_files: Sequence[str], overrides: Mapping[str, str]
) -> CheckResult:
    from xmml.check import check_document
    from xmml.recording import RecordError, with_record

    try:
        document = with_record(model, record)
    except RecordError as error:
        raise UsageError(f"--record: {error}") from None
    return check_document(document, parameter_files, overrides)


def _plan(
    model: Model, hosts: int | None, sites: Sites | None, allocation: Allocation | None
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of a model, and what people have to know of where it runs."""
    if sites is None and allocation is None:
        return plan(model, hosts=hosts), ()
    from xmml_planner.placement.solver import SolverMissing

    try:
        if sites is None:
            assert allocation is not None
            return plan_in_allocation(model, hosts, allocation)
        return _plan_over_sites(model, hosts, sites, allocation)
    except SolverMissing as error:
        raise UsageError(str(error)) from None


def _plan_over_sites(
    model: Model, hosts: int | None, sites: Sites, allocation: Allocation | None
) -> tuple[Plan, tuple[str, ...]]:
    from xmml_planner.job_settings import job_settings
    from xmml_planner.several_sites import plan_over_sites
    from xmml_planner.sites import read_sites

    catalogue = read_sites(sites.path)
    notes: tuple[str, ...] = ()
    if allocation is not None:
        catalogue, notes = allocated_sites(catalogue, allocation)
    try:
        jobs = job_settings(catalogue, sites.jobs)
    except WishError as error:
        raise UsageError(f"--job {error}") from None
    try:
        made = plan_over_sites(model, catalogue, wishes=sites.wishes, max_cost=sites.max_cost, hosts=hosts, jobs=jobs)
    except WishError as error:
        raise UsageError(f"--place: {error}") from None
    except NoPlan as error:
        raise NoPlan("\n".join((str(error), *notes))) from None
    return made, notes


def _staged_out_of_reach(made: Plan, reach: Reach) -> list[Problem]:
    """Return what sites would get of the folder of the model, although links in it lead elsewhere."""
    from xmml_executors.launch.site.staging import out_of_reach
    from xmml_planner.problems import position_from_text, problem_at

    problems = []
    for staged, file in out_of_reach(made, reach):
        found = problem_at(
            position_from_text(made.by_name[staged.instances[0]].position),
            f'site {staged.site} would get "{file.relative_to(made.model_folder)}", which leads to '
            f'"{real_path(str(file))}", out of the folder of the model, and out of the working folder',
            "name it in .xmmlignore or run:stage-exclude, put the file itself there, or trust it with --allow-outside",
        )
        problems.append(replace(found, code=CODE))
    return problems


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanFormatError(f"{path}: cannot be read: {error}") from None


def show_problems(problems: Sequence[Problem]) -> None:
    """Print problems to standard error, in colour on a terminal."""
    print(render_all(problems, colour=sys.stderr.isatty()), file=sys.stderr)


def show_refused(error: ModelError, command: str, path: str, what: str = "run") -> str:
    """Show what is wrong with a model that has errors. Return the last line: what cannot be done with it, and the first
    error of how many; the only one, if that concerns a file as a whole and so has no line to be shown."""
    errors = [problem for problem in error.problems if problem.is_error]
    first = errors[0]
    if len(error.problems) == 1 and first.code == "E01" and not first.quote and first.mark is None:
        said = f"{first.message}; {first.help}" if first.help else first.message
        other = first.position.file if first.position is not None and first.position.file != path else ""
        file = f"{other}: " if other else ""
        return f"{command}: {path} cannot be {what}: {file}{said}"
    show_problems(error.problems)
    place = f"{first.position}: " if first.position else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{command}: {path} cannot be {what}: {place}{first.message}{more}"
