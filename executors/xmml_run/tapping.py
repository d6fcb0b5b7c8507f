"""Joining a run that goes on as a tap (see `xmml_executors.taps`)."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from xmml_executors.queries import AskTap

from xmml.model import DEFAULT_LIMIT_BYTES
from xmml.units import Dimension, UnitError, parse
from xmml_run.arguments import add_run_argument, ports
from xmml_run.errors import NotARun
from xmml_run.inspection import open_run, read_own_run
from xmml_run.run_queries import ask, no_answer
from xmml_run.terminal_text import shown


def add_tap_options(parser: ArgumentParser) -> None:
    """Add the options by which people say what they want to be shown."""
    add_run_argument(parser)
    parser.add_argument(
        "ports",
        metavar="PORTS",
        type=ports,
        help='out ports, such as "flow.velocity,tissue.*" (* stands for anything; all copies of an instance are meant)',
    )
    parser.add_argument(
        "--select",
        metavar="SELECTOR",
        default="",
        help='only what this selector chooses, such as "sys.t > 100" or, of a pool, "step %% 6 = 0"',
    )
    parser.add_argument(
        "--limit",
        metavar="SIZE",
        type=_size,
        default=DEFAULT_LIMIT_BYTES,
        help="how much is held at each port while it waits (64 MB); what passes meanwhile is missed",
    )


def _size(text: str) -> int:
    try:
        found = parse(text, Dimension.DATA).value
    except UnitError as error:
        raise ArgumentTypeError(str(error)) from None
    if found < 1:
        raise ArgumentTypeError(f"{text} is no amount of memory; write for example 64MB")
    return int(found)


def join_as_tap(options: Namespace, command: str) -> None:
    """Set the variables of this process by which it, or a program that it becomes, joins as a tap. Say what it will be
    shown.

    Args:
        command: of xmml, for messages.

    Raises:
        NotARun: the run does not go on, or has nothing to show.
    """
    run: Path = options.run
    folder = open_run(run)
    read_own_run(folder)
    answer = ask(folder, AskTap(options.ports, options.select, options.limit))
    if answer is None:
        where = "a tap joins a run that goes on, on the machine of its xmml-run"
        raise no_answer(folder, f"has ended, or does not go on on this machine; {where}")
    if "error" in answer:
        raise NotARun(answer["error"])
    for name in [each for each in os.environ if each.startswith("XMML_")]:
        del os.environ[name]  # of another run
    os.environ.update(answer["environment"])
    ports = ", ".join(answer["ports"])
    print(shown(f"xmml {command}: joins as {answer['tap']} and is shown {ports}"), file=sys.stderr, flush=True)
