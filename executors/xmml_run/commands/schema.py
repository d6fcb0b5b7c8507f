"""`xmml schema`: where the schemas are, for XML editors."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import xmml_schema
from xmml_executors.outcome import ExitStatus

DESCRIPTION = "Print where the schemas of xMML are installed, to be named in an editor (docs/editors.md)."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    which = parser.add_mutually_exclusive_group()
    for name, help in (
        ("model", "the schema of model documents"),
        ("parameters", "the schema of parameter files"),
        ("run", "the schema of the run extension (run: attributes)"),
        ("sites", "the schema of files of sites (sites.toml)"),
        ("catalog", "the XML catalog: which schema belongs to which namespace"),
    ):
        which.add_argument(f"--{name}", action="store_const", dest="which", const=name, help=help)


def run(options: Namespace) -> int:
    """Print the path."""
    paths = {
        "model": xmml_schema.MODEL,
        "parameters": xmml_schema.PARAMETERS,
        "run": xmml_schema.RUN,
        "sites": xmml_schema.SITES,
        "catalog": xmml_schema.CATALOG,
        None: xmml_schema.MODEL.parent,
    }
    print(paths[options.which])
    return ExitStatus.DONE
