"""`xmml plan`: what a run would start."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from xmml_executors.outcome import ExitStatus
from xmml_planner import PlanFormatError, summary

from xmml.problems import ModelError
from xmml_run.arguments import add_hosts_option, add_model_options, overrides_of
from xmml_run.reading import read_and_plan, refusal, show_problems

DESCRIPTION = "Plan a run: what is started where, and how it is wired."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("model", metavar="MODEL")
    add_model_options(parser)
    add_hosts_option(parser)
    parser.add_argument(
        "-o", dest="output", metavar="FILE", type=Path, help='write the plan as JSON ("-": to standard output)'
    )


def run(options: Namespace) -> int:
    """Plan the run, and print or write the plan."""
    try:
        planned = read_and_plan(options.model, options.parameter_files, overrides_of(options.overrides), options.hosts)
    except ModelError as error:
        show_problems(error.problems)
        print(refusal(error, "xmml plan", options.model, "planned"), file=sys.stderr)
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
