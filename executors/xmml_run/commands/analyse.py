"""`xmml analyse`: what a model will do, before it runs."""

from __future__ import annotations

import argparse
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from xmml_executors.measured_times import NotMeasured, runtimes_of_run
from xmml_executors.outcome import ExitStatus

from xmml.problems import ModelError
from xmml_run.analysis_report import MOST_ROWS, changes, report
from xmml_run.arguments import add_model_options, overrides_of
from xmml_run.reading import show_refused

if TYPE_CHECKING:
    from xmml.analysis.run_time import Link
    from xmml.model import Model

DESCRIPTION = """\
Analyse a model without running it: coupling templates, runs and messages, deadlocks, capacities, run time, jobs.

Run times come from runtime="..." of the implementations, from --set, or from an earlier run (--profile).
The cost does not depend on the number of steps.
"""
EPILOG = """\
examples:
  xmml analyse model.xmml
  xmml analyse model.xmml --set blood.runtime="10 min" --set blood.cores=256
  xmml analyse model.xmml --profile runs/model-20260314-101500 --json > analysis.json

exit status: 0 every instance finishes; 1 the model has errors or blocks; 2 wrong usage
"""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL", help="an xMML document, or a yMMSL file")
    add_model_options(parser)
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="INST.FIELD=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="what if: another runtime, cores, delta, total or multiplicity; the report also says what changes",
    )
    parser.add_argument(
        "--profile", metavar="RUN", type=Path, help="take the run times that an earlier run measured (its folder)"
    )
    parser.add_argument(
        "--latency", metavar="TIME", type=_quantity("TIME"), help='time that every message takes on its way, "20 us"'
    )
    parser.add_argument(
        "--bandwidth", metavar="SIZE", type=_quantity("DATA"), help='bytes per second of every conduit, "1 GB"'
    )
    parser.add_argument(
        "--start",
        choices=("spontaneous", "external"),
        default="spontaneous",
        help="external: instances without finit input wait for their first messages, as in published task graphs",
    )
    parser.add_argument("--task-graph", action="store_true", help="also the sizes of the task graph (takes longer)")
    parser.add_argument("--all", action="store_true", help="list every coupling and instance of a large model")
    parser.add_argument("--json", action="store_true", help="print the analysis as JSON (see analysis.schema.json)")


def run(options: Namespace) -> int:
    """Print the analysis of a model."""
    from xmml.analysis.analyse import AnalysisRefused, analyse
    from xmml.analysis.what_if import SettingError, with_runtimes, with_settings

    try:
        model = _model(options)
        link = _link(options)
        if options.profile is not None:
            model = with_runtimes(model, runtimes_of_run(options.profile))
        changed = with_settings(model, dict(options.settings))
        analysis = analyse(changed, start=options.start, link=link, task_graph=options.task_graph)
        plain = analyse(model, start=options.start, link=link) if options.settings and not options.json else None
    except ModelError as error:
        print(show_refused(error, "xmml analyse", options.model, "analysed"), file=sys.stderr)
        return ExitStatus.MODEL_ERROR
    except (SettingError, AnalysisRefused, NotMeasured) as error:
        print(f"xmml analyse: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    if options.json:
        print(json.dumps(analysis.as_json(), indent=1, ensure_ascii=False))
    else:
        print(report(analysis, most_rows=None if options.all else MOST_ROWS))
        if plain is not None:
            print("\n" + changes(plain, analysis, [f"{target}={value}" for target, value in options.settings]))
    return ExitStatus.DONE if analysis.finishes else ExitStatus.MODEL_ERROR


def _model(options: Namespace) -> Model:
    """Return the model; that it blocks is what the analysis says, not a reason to refuse it."""
    from xmml.document import load
    from xmml.problems import errors_in
    from xmml.resolve import resolve

    document, problems = load(options.model, allow_outside=options.allow_outside)
    if document is None:
        raise ModelError(problems)
    model, found = resolve(document, options.parameter_files, overrides_of(options.overrides))
    problems = [*problems, *found]
    if errors_in(problems):
        raise ModelError(problems)
    return model


def _link(options: Namespace) -> Link | None:
    from xmml.analysis.run_time import Link

    if options.latency is None and options.bandwidth is None:
        return None
    return Link(options.latency or 0.0, options.bandwidth)


def _quantity(dimension: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        from xmml.units import Dimension, UnitError, parse

        try:
            quantity = parse(text)
        except UnitError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if quantity.dimension not in (Dimension[dimension], Dimension.NONE) or float(quantity) <= 0:
            what = {"TIME": 'time, such as "20 us"', "DATA": 'number of bytes per second, such as "1 GB"'}[dimension]
            raise argparse.ArgumentTypeError(f'"{text}" is no positive {what}')
        return float(quantity)

    return read


def _setting(text: str) -> tuple[str, str]:
    target, equals, value = text.partition("=")
    if not equals or "." not in target:
        raise argparse.ArgumentTypeError(f'"{text}" is not INSTANCE.FIELD=VALUE, for example blood.runtime="10 min"')
    return target.strip(), value
