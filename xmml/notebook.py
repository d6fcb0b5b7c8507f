"""Models in a notebook: loading one, and how models, checks and analyses show themselves there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from xmml.model import Instance, Model
from xmml.problems import Problem, render

if TYPE_CHECKING:
    from xmml.analysis.analysis import Analysis
    from xmml.check import CheckResult

#: Models with more instances are shown without a picture, and tables with more rows without the rest.
_MOST_PICTURED = 200
_MOST_ROWS = 200


def load(
    path: str | os.PathLike[str],
    parameter_files: Iterable[str | os.PathLike[str]] = (),
    overrides: Mapping[str, str] | None = None,
    *,
    allow_outside: bool = False,
) -> Model:
    """Read a model document (or a yMMSL file: `.ymmsl`) and return the model.

    A model that will get stuck is returned as well: that can be looked at (`check`, `analyse`, `graph`).

    Args:
        path: the document.
        parameter_files: xMML parameter files, in order of increasing precedence.
        overrides: `{"INSTANCE.PARAMETER": value}`, as with `xmml-run -p`.
        allow_outside: files that the documents name may lie anywhere, not only below the folder of the document and the
            working folder.

    Raises:
        ModelError: the document cannot be read, or has errors; its text names them with their places.
    """
    from xmml.check import check
    from xmml.problems import ModelError

    if os.fspath(path).endswith(".ymmsl"):
        from xmml.convert.conversion import model_of_ymmsl

        return model_of_ymmsl(os.fspath(path), parameter_files, overrides, allow_outside=allow_outside)
    result = check(path, parameter_files, overrides, allow_outside=allow_outside)
    if result.resolved is None:
        raise ModelError(result.problems)
    return replace(result.resolved, found=result.problems)


def check_loaded(model: Model) -> CheckResult:
    """Return what was found when the model was loaded; of one made otherwise, what can be said of what it will do."""
    from xmml.check import CheckResult
    from xmml.checks.model import model_problems
    from xmml.problems import errors_in, in_order

    problems = model.found if model.found is not None else tuple(in_order(model_problems(model)))
    return CheckResult(problems, None if errors_in(problems) else model, model)


def summary(model: Model) -> str:
    """Return the model in a line."""
    return f"<Model {model.id}: {_count(model)}, from {model.path}>"


def model_html(model: Model) -> str:
    """Return the model as HTML: a picture of its couplings (if Graphviz is there), and its instances."""
    title = f"<b>{escape(model.name or model.id)}</b> {escape(_count(model))}"
    description = f"<p>{escape(model.description)}</p>" if model.description else ""
    rows = [_instance_row(instance) for instance in model.instances.values()]
    table = _table(("instance", "made of", "copies", "steps", "delta [s]", "total [s]"), rows)
    return f"<div>{title}{description}{_picture(model)}<details><summary>instances</summary>{table}</details></div>"


def check_html(result: CheckResult) -> str:
    """Return the problems as HTML, each as on a terminal."""
    errors = len(result.errors)
    warnings = len(result.problems) - errors
    verdict = f"{_number(errors, 'error')}, {_number(warnings, 'warning')}"
    return f"<div><b>{verdict}</b>{''.join(_problem(each) for each in result.problems[:_MOST_ROWS])}</div>"


def analysis_html(analysis: Analysis) -> str:
    """Return the analysis as HTML: the verdict, then runs, messages and times."""
    colour = "#1a7f37" if analysis.finishes else "#b42318"
    parts = [f'<b style="color: {colour}">{escape(analysis.model)}: {escape(analysis.verdict)}</b>']
    if analysis.witness:
        parts.append(f"<pre>{escape(analysis.witness)}</pre>")
    if analysis.times is not None:
        times = analysis.times
        least = "" if times.is_exact else "at least "
        parts.append(
            f"<p>takes {least}{times.makespan_s:.6g} s, {times.core_hours:.6g} core hours; "
            f"{times.parallelism:.3g} instances compute at a time</p>"
        )
    parts.append(_table(("instance", "runs"), [(name, _known(runs)) for name, runs in analysis.runs.items()]))
    messages = [
        (name, each.template or "", _known(each.sent), _known(each.received), _known(each.capacity), _known(each.bytes))
        for name, each in analysis.messages.items()
    ]
    parts.append(_table(("coupling", "template", "sent", "received", "capacity", "bytes"), messages))
    return f"<div>{''.join(parts)}</div>"


def _picture(model: Model) -> str:
    if len(model.instances) > _MOST_PICTURED:
        return ""
    from xmml.graphs.render import RenderError
    from xmml.graphs.views import picture

    try:
        text = picture(model, "coupling", "svg").decode("utf-8")
    except RenderError:
        return ""
    return text[max(text.find("<svg"), 0) :]


def _count(model: Model) -> str:
    pools = [_number(len(model.pools), "pool")] if model.pools else []
    return ", ".join([_number(len(model.instances), "instance"), _number(len(model.couplings), "coupling"), *pools])


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _instance_row(instance: Instance) -> tuple[str, ...]:
    steps = "until it stops" if instance.until else str(instance.steps) if instance.kind == "submodel" else ""
    scale = tuple("" if value is None else f"{value:g}" for value in (instance.delta_s, instance.total_s))
    return instance.id, f"{instance.kind} {instance.definition.id}", str(instance.multiplicity), steps, *scale


def _known(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _problem(problem: Problem) -> str:
    colour = "#b42318" if problem.is_error else "#9a6700"
    return f'<pre style="border-left: 3px solid {colour}; padding-left: 0.5em">{escape(render(problem))}</pre>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows[:_MOST_ROWS]]
    if len(rows) > _MOST_ROWS:
        lines.append(f'<td colspan="{len(head)}">and {len(rows) - _MOST_ROWS} more</td>')
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
