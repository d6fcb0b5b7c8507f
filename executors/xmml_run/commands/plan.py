"""`xmml plan`: what a run would start."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from xmml_executors.outcome import ExitStatus
from xmml_planner import NoPlan, Plan, PlanFormatError, summary

from xmml.graphs.render import IMAGE_FORMATS
from xmml.problems import ModelError
from xmml_run.allocated import AllocationProblem, allocation_of
from xmml_run.arguments import (
    UsageError,
    add_allocation_option,
    add_hosts_option,
    add_model_options,
    add_site_options,
    overrides_of,
)
from xmml_run.reading import read_and_plan, show_problems, show_refused, sites_of

DESCRIPTION = "Plan a run: what is started where, and how it is wired."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("model", metavar="MODEL", help="the model document, or a plan.json")
    add_model_options(parser)
    add_hosts_option(parser)
    add_site_options(parser)
    add_allocation_option(parser)
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        type=Path,
        help='write the plan: as JSON ("-": to standard output), or over sites as a picture (.svg, .png, .pdf)',
    )


def run(options: Namespace) -> int:
    """Plan the run, and print or write the plan."""
    try:
        planned = read_and_plan(
            options.model,
            options.parameter_files,
            overrides_of(options.overrides),
            options.hosts,
            sites_of(options),
            allocation_of(options),
            allow_outside=options.allow_outside,
        )
    except AllocationProblem as error:
        if str(error):
            print(f"xmml plan: {error}", file=sys.stderr)
        return error.exit_status
    except NoPlan as error:
        print(f"xmml plan: no plan satisfies the sites: {error}", file=sys.stderr)
        return ExitStatus.NO_PLAN
    except UsageError as error:
        print(f"xmml plan: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    except ModelError as error:
        print(show_refused(error, "xmml plan", options.model, "planned"), file=sys.stderr)
        return ExitStatus.MODEL_ERROR
    except PlanFormatError as error:
        print(f"xmml plan: {error}", file=sys.stderr)
        return ExitStatus.MODEL_ERROR
    for note in planned.notes:
        print(f"xmml plan: {note}", file=sys.stderr)
    if planned.warnings:
        show_problems(planned.warnings)
    if options.output == Path("-"):
        print(planned.plan.to_text(), end="")
        return ExitStatus.DONE
    if options.output is not None:
        try:
            options.output.write_bytes(_content(planned.plan, options.output))
            print(f"xmml plan: written to {options.output}", file=sys.stderr)
        except UsageError as error:
            print(f"xmml plan: {error}", file=sys.stderr)
            return ExitStatus.USAGE
        except OSError as error:
            print(f"xmml plan: {options.output} cannot be written: {error.strerror}", file=sys.stderr)
            return ExitStatus.SITE_FAILED
    print(summary(planned.plan))
    return ExitStatus.DONE


def _content(plan: Plan, output: Path) -> bytes:
    """Return what is written to a file: a picture by its suffix, else JSON."""
    form = output.suffix.lower().removeprefix(".")
    if form not in IMAGE_FORMATS:
        return plan.to_text().encode()
    if plan.expected is None:
        raise UsageError(f"{output}: only plans over sites (--sites) have a picture; xmml graph draws the model")
    from xmml_planner.plan_figure import plan_picture

    return plan_picture(plan, IMAGE_FORMATS[IMAGE_FORMATS.index(form)])
