"""`xmml`: finds the command and carries it out."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from xmml_executors.outcome import ExitStatus

import xmml
from xmml_run.arguments import Parser
from xmml_run.commands import COMMANDS
from xmml_run.errors import NotARun


def xmml_command(arguments: Sequence[str]) -> int:
    """Carry out one of the commands and return its exit status."""
    command = next((word for word in arguments if word in COMMANDS), None)
    behind = getattr(_module(command), "BEHIND", None) if command is not None else None
    place = arguments.index("--") if behind is not None and "--" in arguments else len(arguments)
    options = xmml_parser(command).parse_args(arguments[:place])
    if behind is not None and place < len(arguments):
        setattr(options, behind, list(arguments[place + 1 :]))
    try:
        return int(_module(options.command).run(options))
    except NotARun as error:
        print(f"xmml {options.command}: {error}", file=sys.stderr)
        return ExitStatus.USAGE


def xmml_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The commands of `xmml`, and the options of one of them."""
    parser = Parser(prog="xmml", description="Write, check, plan and look after coupled multiscale models.")
    parser.add_argument("--version", action="version", version=f"xmml {xmml.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, help in COMMANDS.items():
        options = commands.add_parser(name, help=help)
        if name == command:
            module = _module(name)
            options.description = module.DESCRIPTION
            module.add_options(options)
    return parser


def _module(command: str) -> Any:
    return importlib.import_module(f"xmml_run.commands.{command}")
