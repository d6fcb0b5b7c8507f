"""`xmml new`: a model that runs, to begin with."""

from __future__ import annotations

import argparse
import sys
from argparse import ArgumentParser, Namespace

from xmml_executors.outcome import ExitStatus

DESCRIPTION = """Write a model that runs, with skeletons of its submodels and a README.

templates:
  macro-micro   a slow model calls a fast one in every step and takes its result (call and release)
  interact      two models exchange boundary values in every step
  pipeline      each model starts from the final state of the one before (dispatch)"""

_EPILOG = """examples:
  xmml new reaction
  xmml new channel --template interact --language cpp
  xmml new mixed --language python,c          the submodels in turn in Python and in C"""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("name", metavar="NAME", help="name of the model and of its folder")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument(
        "--template",
        choices=("macro-micro", "interact", "pipeline"),
        default="macro-micro",
        help="which kind of model (default: macro-micro)",
    )
    parser.add_argument(
        "--language",
        metavar="LANGUAGE[,...]",
        default="python",
        help="python, c, cpp, fortran or java; several are dealt out to the submodels in turn (default: python)",
    )


def run(options: Namespace) -> int:
    """Write the files."""
    from xmml_run.new_model import NameTaken, write_model

    try:
        files = write_model(options.name, options.template, *options.language.split(","))
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
