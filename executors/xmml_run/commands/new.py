"""`xmml new`: a model that runs, to begin with."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from xmml_executors.outcome import ExitStatus

DESCRIPTION = "Write a model that runs, with skeletons of its submodels."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("name", metavar="NAME", help="name of the model and of its folder")
    parser.add_argument("--template", choices=("macro-micro", "interact", "pipeline"), default="macro-micro")
    parser.add_argument("--language", choices=("python", "c", "cpp"), default="python")


def run(options: Namespace) -> int:
    """Write the files."""
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
