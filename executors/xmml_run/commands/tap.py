"""`xmml tap`: show what passes out ports of a run that goes on, to people or to a program of theirs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import ArgumentParser, Namespace

from xmml_executors.outcome import ExitStatus
from xmml_executors.taps import PORT
from xmml_native.archives.plain import plain_attributes

from xmml_run.errors import NotARun
from xmml_run.object_text import object_line
from xmml_run.tapping import add_tap_options, join_as_tap
from xmml_run.terminal_text import shown

#: What stands behind `--` is this argument, wherever options stand before.
BEHIND = "program"

DESCRIPTION = (
    "Show what passes out ports of a run that goes on: the messages of ordinary couplings, and the objects of pools. "
    "The run does not wait for a tap, and goes on whatever becomes of it; what it is too slow for is lost to it. "
    "Without a command, a line for each object is printed; a command joins the run as the instance xmml.Instance(), "
    "whose in port is called objects."
)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.usage = "xmml tap RUN PORTS [--select SELECTOR] [--limit SIZE] [--json | -- COMMAND ...]"
    add_tap_options(parser)
    parser.add_argument("--json", action="store_true", help="an object of JSON a line, with all attributes")
    parser.add_argument(
        BEHIND, metavar="-- COMMAND", nargs="*", help="a program that takes the objects, and its arguments"
    )


def run(options: Namespace) -> int:
    """Print objects, or become the program that takes them."""
    if options.program and shutil.which(options.program[0]) is None:
        # Before anything joins: the run would wait for nobody, but name a tap that never was.
        raise NotARun(f"{options.program[0]} cannot be started: there is no such program")
    join_as_tap(options, "tap")
    if options.program:
        try:
            os.execvp(options.program[0], options.program)
        except OSError as error:
            raise NotARun(f"{options.program[0]} cannot be started: {error.strerror}") from None
    try:
        return _show(as_json=options.json)
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED


def _show(*, as_json: bool) -> int:
    from xmml_native import Instance
    from xmml_native.errors import RunAborted

    with Instance() as me:
        try:
            while (found := me.take(PORT)) is not None:
                plain = json.dumps(plain_attributes(found.attributes)) if as_json else None
                print(plain or shown(object_line(found.attributes, found.data)), flush=True)
        except RunAborted as error:
            print(f"xmml tap: {shown(str(error))}", file=sys.stderr)
        except KeyboardInterrupt:
            return ExitStatus.INTERRUPTED  # after it has left the run in order
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # who reads has seen enough
    return ExitStatus.DONE
