"""From the file on the command line to a plan: check, resolve, plan; what is wrong goes to people."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xmml_planner import Plan, PlanFormatError, plan, plan_from_text
from xmml_planner.hosting import share_processes

from xmml.model import Model
from xmml.problems import ModelError, Problem, in_order, render_all


@dataclass(frozen=True)
class Planned:
    """A plan, the model it was made from (none if the plan was read from a file), and the warnings on the way."""

    plan: Plan
    model: Model | None
    warnings: tuple[Problem, ...]


def read_and_plan(
    path: str, parameter_files: Sequence[str], overrides: Mapping[str, str], hosts: int | None = None
) -> Planned:
    """Return the plan of a model document, or the one that a `plan.json` holds.

    `hosts` is the number of processes that instances share; `None`: as many as cores, or as the `plan.json` says.

    Raises:
        ModelError: the model has errors, or something it names cannot be started.
        PlanFormatError: the file is a plan that cannot be read.
    """
    if path.endswith(".json"):
        made = plan_from_text(_text(path))
        return Planned(made if hosts is None else share_processes(made, hosts), None, ())
    from xmml.check import check

    result = check(path, parameter_files, overrides)
    model = result.model_or_raise()
    warnings = [problem for problem in result.problems if not problem.is_error]
    try:
        return Planned(plan(model, hosts=hosts), model, tuple(warnings))
    except ModelError as error:
        others = [
            problem for problem in warnings if problem.code != "W14"
        ]  # what is not there, planning tells as errors
        raise ModelError(in_order([*error.problems, *others])) from None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanFormatError(f"{path}: cannot be read: {error}") from None


def show_problems(problems: Sequence[Problem]) -> None:
    """Print problems to standard error, in colour on a terminal."""
    print(render_all(problems, colour=sys.stderr.isatty()), file=sys.stderr)


def refusal(error: ModelError, command: str, path: str, what: str = "run") -> str:
    """Return the last line for a model with errors: what cannot be done with it, and the first one of how many."""
    errors = [problem for problem in error.problems if problem.is_error]
    first = errors[0]
    place = f"{first.position}: " if first.position else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{command}: {path} cannot be {what}: {place}{first.message}{more}"
