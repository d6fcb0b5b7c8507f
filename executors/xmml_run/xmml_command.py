"""`xmml`: check, plan, new, status, logs, report."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xmml_executors.outcome import ExitStatus
from xmml_planner import PlanFormatError, summary

from xmml.problems import ModelError, Problem, render_all
from xmml_run.arguments import overrides_of, xmml_parser
from xmml_run.inspection import NotARun, RunView, follow, read_run
from xmml_run.reading import read_and_plan, refusal, show_problems


def xmml_command(arguments: Sequence[str]) -> int:
    """Carry out one of the commands and return its exit status."""
    options = xmml_parser().parse_args(arguments)
    try:
        return COMMANDS[options.command](options)
    except NotARun as error:
        print(f"xmml {options.command}: {error}", file=sys.stderr)
        return ExitStatus.USAGE


def _check(options: Namespace) -> int:
    from xmml.check import check

    problems: list[Problem] = []
    for path in options.models:
        problems += check(path, options.parameter_files, overrides_of(options.overrides)).problems
    errors = sum(problem.is_error for problem in problems)
    if options.format == "json":
        print(json.dumps([problem.as_json() for problem in problems], indent=1, ensure_ascii=False))
    else:
        if problems:
            print(render_all(problems, colour=sys.stdout.isatty()))
        print(_verdict(len(options.models), errors, len(problems) - errors), file=sys.stderr)
    return ExitStatus.MODEL_ERROR if errors else ExitStatus.DONE


def _verdict(models: int, errors: int, warnings: int) -> str:
    def count(number: int, noun: str) -> str:
        return f"{number} {noun}{'' if number == 1 else 's'}"

    return f"{count(models, 'model')} checked: {count(errors, 'error')}, {count(warnings, 'warning')}"


def _plan(options: Namespace) -> int:
    try:
        planned = read_and_plan(options.model, options.parameter_files, overrides_of(options.overrides))
    except ModelError as error:
        show_problems(error.problems)
        print(refusal(error, "xmml plan", options.model), file=sys.stderr)
        return ExitStatus.MODEL_ERROR
    except PlanFormatError as error:
        print(f"xmml plan: {error}", file=sys.stderr)
        return ExitStatus.MODEL_ERROR
    if planned.warnings:
        show_problems(planned.warnings)
    if options.output == Path("-"):
        print(planned.plan.to_text(), end="")
        return ExitStatus.DONE
    if options.output is not None:
        try:
            options.output.write_text(planned.plan.to_text(), encoding="utf-8")
        except OSError as error:
            print(f"xmml plan: {options.output} cannot be written: {error.strerror}", file=sys.stderr)
            return ExitStatus.SITE_FAILED
    print(summary(planned.plan))
    return ExitStatus.DONE


def _new(options: Namespace) -> int:
    from xmml_run.new_model import NameTaken, write_model

    try:
        files = write_model(options.name, options.template, options.language)
    except (NameTaken, ValueError) as error:
        print(f"xmml new: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    except OSError as error:
        print(f"xmml new: {error.filename} cannot be written: {error.strerror}", file=sys.stderr)
        return ExitStatus.SITE_FAILED
    for file in files:
        print(f"  {file}")
    print(f"run it: xmml-run {files[0]}")
    return ExitStatus.DONE


def _status(options: Namespace) -> int:
    view = read_run(options.run)
    if options.json:
        print(json.dumps(view.as_json()))
    else:
        print("\n".join(_status_lines(view)))
    return ExitStatus.DONE


def _status_lines(view: RunView) -> list[str]:
    lines = [f"{view.folder.name}: {view.state}"]
    if view.reason:
        lines.append(f"  {view.reason}")
    width = max(map(len, view.instances), default=0)
    for name, row in view.instances.items():
        numbers = f"{row['messages_sent']:,} messages sent, {row['messages_received']:,} received"
        lines.append(f"  {name.ljust(width)}  {row['state']:<8}  {numbers}")
    return lines


def _logs(options: Namespace) -> int:
    view = read_run(options.run)
    if options.instance not in view.instances:
        from xmml.problems import did_you_mean

        raise NotARun(
            f'{options.run} has no instance "{options.instance}"; '
            f"{did_you_mean(options.instance, view.instances, 'instances')}"
        )
    folder = options.run / "instances" / options.instance
    streams = ("stderr",) if options.stderr else ("stdout", "stderr")
    files = [folder / stream for stream in streams]
    for text in follow(files, options.run, options.follow):
        sys.stdout.write(text)
        sys.stdout.flush()
    return ExitStatus.DONE


def _report(options: Namespace) -> int:
    view = read_run(options.run)
    print("\n".join(_status_lines(view)))
    page = options.run / "report.html"
    print(f"report: {page}" if page.exists() else "the report is written when the run has ended")
    return ExitStatus.DONE


COMMANDS: Mapping[str, Callable[[Namespace], int]] = {
    "check": _check,
    "plan": _plan,
    "new": _new,
    "status": _status,
    "logs": _logs,
    "report": _report,
}
