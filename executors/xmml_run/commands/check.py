"""`xmml check`: every error and warning of model documents."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from xmml_executors.outcome import ExitStatus

from xmml.problems import Problem, render_all
from xmml_run.arguments import add_model_options, overrides_of

DESCRIPTION = "Find every error and warning in model documents."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("models", metavar="MODEL", nargs="+")
    add_model_options(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(options: Namespace) -> int:
    """Check the documents."""
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
