"""`xmml convert`: a model in another format."""

from __future__ import annotations

import argparse
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from xmml_executors.outcome import ExitStatus

from xmml.problems import ModelError
from xmml_run.arguments import add_model_options, overrides_of
from xmml_run.reading import show_problems

if TYPE_CHECKING:
    from xmml.convert.converted import Converted

DESCRIPTION = """Write a model in another format.

formats:
  xmml    xMML 0.4; an xMML document comes back as it is, with comments, annotations and includes
  ymmsl   yMMSL, the format of MUSCLE3; it can be read as well (MODEL ends in .ymmsl, .yaml or .yml)
  cxa     CxA, the format of MUSCLE 2

What the other format cannot say, and what had to be assumed, is told on standard error."""

_EPILOG = """examples:
  xmml convert model.xmml --to ymmsl -o model.ymmsl
  xmml convert model.ymmsl --to xmml -o model.xmml
  xmml convert model.xmml --to cxa > model.cxa.rb
  xmml convert model.xmml --to xmml --expand          the included files written out"""

_YMMSL_SUFFIXES = (".ymmsl", ".yaml", ".yml")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("model", metavar="MODEL", help="an xMML document, or a yMMSL file")
    parser.add_argument("--to", choices=("cxa", "ymmsl", "xmml"), required=True, help="the format to write")
    parser.add_argument("-o", dest="output", metavar="FILE", type=Path, help="where to (default: standard output)")
    parser.add_argument("--expand", action="store_true", help="xMML to xMML: write included files out")
    parser.add_argument(
        "--ymmsl-version", choices=("0.1", "0.2"), default="0.2", help="which yMMSL to write (default: 0.2)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no notes on what was left out or assumed")
    add_model_options(parser)


def run(options: Namespace) -> int:
    """Write the file; notes go to standard error."""
    if _is_cxa(options.model):
        print("xmml convert: a CxA script is a program in Ruby: it can be written, not read", file=sys.stderr)
        return ExitStatus.USAGE
    try:
        converted = _converted(options)
    except ModelError as error:
        show_problems(error.problems)
        return ExitStatus.MODEL_ERROR
    if not options.quiet:
        for note in converted.notes:
            print(f"note: {note}", file=sys.stderr)
    if options.output is None or options.output == Path("-"):
        sys.stdout.write(converted.text)
        return ExitStatus.DONE
    try:
        options.output.write_text(converted.text, encoding="utf-8")
    except OSError as error:
        print(f"xmml convert: {options.output} cannot be written: {error.strerror}", file=sys.stderr)
        return ExitStatus.SITE_FAILED
    print(options.output)
    return ExitStatus.DONE


def _is_cxa(name: str) -> bool:
    """Whether a file is a CxA script, which is a program in Ruby."""
    return Path(name).suffix.lower() in (".cxa", ".rb")


def _converted(options: Namespace) -> Converted:
    """Return the model in the format that was asked for.

    Raises:
        ModelError: it has errors.
    """
    from xmml.convert.conversion import convert

    return convert(
        options.model,
        options.to,
        is_ymmsl=Path(options.model).suffix.lower() in _YMMSL_SUFFIXES,
        ymmsl_version=options.ymmsl_version,
        expand=options.expand,
        parameter_files=options.parameter_files,
        overrides=overrides_of(options.overrides),
        allow_outside=options.allow_outside,
    )
