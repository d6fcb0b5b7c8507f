"""`xmml check`: every error and warning of model documents."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace

from xmml_executors.outcome import ExitStatus

from xmml.problems import CODES, Problem, Severity, did_you_mean, render_all
from xmml_run.arguments import add_model_options, overrides_of

DESCRIPTION = "Find every error and warning in model documents."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("models", metavar="MODEL", nargs="*", help="model documents")
    add_model_options(parser)
    parser.add_argument(
        "--format",
        choices=("text", "json", "sarif"),
        default="text",
        help="text for people (default), a JSON array, or SARIF 2.1.0 for editors and code hosts",
    )
    parser.add_argument("--strict", action="store_true", help="warnings are errors")
    parser.add_argument("--explain", metavar="CODE", help="say what a code such as E06 means, and how to mend it")
    parser.epilog = "exit status: 0 no errors; 1 errors; 2 wrong usage"


def run(options: Namespace) -> int:
    """Check the documents, or explain a code."""
    if options.explain is not None:
        return _explain(options.explain.strip().upper())
    if not options.models:
        print("xmml check: name at least one model document, or a code to --explain", file=sys.stderr)
        return ExitStatus.USAGE
    from xmml.check import check

    problems: list[Problem] = []
    for path in dict.fromkeys(options.models):
        overrides = overrides_of(options.overrides)
        problems += check(path, options.parameter_files, overrides, allow_outside=options.allow_outside).problems
    problems = list(dict.fromkeys(problems))  # what several documents include is told once
    if options.strict:
        problems = [replace(problem, severity=Severity.ERROR) for problem in problems]
    _show(problems, options.format, len(dict.fromkeys(options.models)))
    return ExitStatus.MODEL_ERROR if any(problem.is_error for problem in problems) else ExitStatus.DONE


def _show(problems: list[Problem], form: str, models: int) -> None:
    if form == "json":
        print(json.dumps([problem.as_json() for problem in problems], indent=1, ensure_ascii=False))
    elif form == "sarif":
        from xmml.sarif import sarif

        print(json.dumps(sarif(problems), indent=1, ensure_ascii=False))
    else:
        if problems:
            print(render_all(problems, colour=sys.stdout.isatty()))
            sys.stdout.flush()
        print(_verdict(models, problems), file=sys.stderr)


def _explain(code: str) -> int:
    from xmml.explanations import has_page, page

    if not has_page(code):
        print(f'xmml check: there is no code "{code}"; {did_you_mean(code, CODES, "codes")}', file=sys.stderr)
        return ExitStatus.USAGE
    print(page(code), end="")
    return ExitStatus.DONE


def _verdict(models: int, problems: list[Problem]) -> str:
    def count(number: int, noun: str) -> str:
        return f"{number} {noun}{'' if number == 1 else 's'}"

    errors = sum(problem.is_error for problem in problems)
    codes = sorted({problem.code for problem in problems if problem.code in CODES})
    more = f"; xmml check --explain {codes[0]} says more" if codes else ""
    return (
        f"{count(models, 'model')} checked: {count(errors, 'error')}, {count(len(problems) - errors, 'warning')}{more}"
    )
