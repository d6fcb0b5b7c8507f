"""`xmml graph`: pictures and graphs of a model."""

from __future__ import annotations

import argparse
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from xmml_executors.outcome import ExitStatus

from xmml.analysis.filter_counts import FilterCountError
from xmml.graphs.render import RenderError
from xmml.graphs.views import FORMATS, TEXT_FORMATS, VIEWS, ViewOptions, picture
from xmml_run.arguments import add_model_options, overrides_of
from xmml_run.reading import show_problems

DESCRIPTION = """Draw a model, or write it as a graph for other programs.

views:
  coupling   instances and couplings, the operators as symbols at their ends
  task       what happens when: runs and iterations on a time line, the critical path, deadlocks
  domain     the tree of domains, with the instances in them
  scales     the scale separation map: submodels as boxes over time and space"""

_EPILOG = """examples:
  xmml graph model.xmml                                   the couplings, as <id of the model>-coupling.svg
  xmml graph model.xmml --view scales -o scales.pdf       for a paper
  xmml graph model.xmml --view task --max-iterations 3    only the first iterations of every loop
  xmml graph model.xmml -o model.graphml                  every attribute, for networkx, yEd, Gephi
  xmml graph model.xmml -o - | dot -Tx11                  as DOT to another program

.svg, .png and .pdf of coupling and domain are laid out by Graphviz (apt-get install graphviz)."""


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number of at least 1')
    return int(text)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("model", metavar="MODEL", help="an xMML document, or a yMMSL file")
    add_model_options(parser)
    parser.add_argument("--view", choices=tuple(VIEWS), default="coupling", help="what to show (default: coupling)")
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        type=Path,
        help=f"where to; the suffix says as what: {', '.join(FORMATS)} "
        '("-": as text to standard output; default: ID-VIEW.svg, ID being the id of the model)',
    )
    parser.add_argument("--format", choices=FORMATS, help="as what, whatever the suffix (default for -o -: dot)")
    parser.add_argument("--direction", choices=("LR", "TB"), help="grow to the right or downwards")
    parser.add_argument("--no-collapse", action="store_true", help="every operator, every instance its own node")
    task = parser.add_argument_group("the task graph")
    task.add_argument(
        "--start",
        choices=("spontaneous", "external"),
        default="spontaneous",
        help="who starts an instance without finit messages: it itself (as in a run), or the first message it gets",
    )
    task.add_argument("--max-iterations", metavar="N", type=_positive, help="only so many iterations of every loop")
    task.add_argument("--node-limit", metavar="N", type=_positive, help="stop unrolling at so many nodes")


def run(options: Namespace) -> int:
    """Write the picture; also that of a model that will get stuck, which is where one needs it most."""
    from xmml.check import check

    output: Path | None = options.output
    form = options.format or _format_of(output)
    if form not in FORMATS or (output == Path("-") and form not in TEXT_FORMATS):
        return _refuse(_unknown_format(output, form), ExitStatus.USAGE)
    overrides = overrides_of(options.overrides)
    result = check(options.model, options.parameter_files, overrides, allow_outside=options.allow_outside)
    if result.errors:
        show_problems(result.problems)
    model = result.resolved
    if model is None:
        return ExitStatus.MODEL_ERROR
    chosen = ViewOptions(
        direction=options.direction,
        collapse=not options.no_collapse,
        start=options.start,
        max_iterations=options.max_iterations,
        node_limit=options.node_limit,
    )
    try:
        content = picture(model, options.view, form, chosen)
    except FilterCountError as error:
        return _refuse(str(error), ExitStatus.MODEL_ERROR)
    except RenderError as error:
        return _refuse(str(error), ExitStatus.SITE_FAILED)
    status = ExitStatus.MODEL_ERROR if result.errors else ExitStatus.DONE
    if output == Path("-"):
        sys.stdout.write(content.decode())
        return status
    output = output or Path(f"{model.id}-{options.view}.{form}")
    try:
        output.write_bytes(content)
    except OSError as error:
        return _refuse(f"{output} cannot be written: {error.strerror}", ExitStatus.SITE_FAILED)
    print(output)
    return status


def _format_of(output: Path | None) -> str:
    if output is None:
        return "svg"
    return "dot" if output == Path("-") else output.suffix.lower().removeprefix(".")


def _unknown_format(output: Path | None, form: str) -> str:
    if output == Path("-"):
        return f"only text goes to standard output: --format {', '.join(TEXT_FORMATS)}; write a .{form} to a file"
    known = ", ".join(f".{one}" for one in FORMATS)
    return f'"{output}" has no suffix of a known format ({known}); change it, or say --format'


def _refuse(reason: str, status: ExitStatus) -> int:
    print(f"xmml graph: {reason}", file=sys.stderr)
    return status
