"""`xmml logs`: what an instance has written."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from xmml_executors.outcome import ExitStatus

from xmml_run.arguments import add_run_argument
from xmml_run.errors import NotARun
from xmml_run.inspection import follow, open_run, read_run
from xmml_run.terminal_text import unguarded

DESCRIPTION = "Print what an instance of a run has written."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_run_argument(parser)
    parser.add_argument("instance", metavar="INST", help="an instance; a copy as c[3]")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended")
    parser.add_argument("--stderr", action="store_true", help="only standard error")
    parser.add_argument(
        "--raw", action="store_true", help="print everything as it was written, also what commands the terminal"
    )


def run(options: Namespace) -> int:
    """Print the output of an instance."""
    folder = open_run(options.run)
    view = read_run(folder)
    if options.instance not in view.instances:
        from xmml.problems import did_you_mean

        raise NotARun(
            f'{options.run} has no instance "{options.instance}"; '
            f"{did_you_mean(options.instance, view.instances, 'instances')}"
        )
    streams = ("stderr",) if options.stderr else ("stdout", "stderr")
    files = [f"instances/{options.instance}/{stream}" for stream in streams]
    out = unguarded(sys.stdout) if options.raw else sys.stdout
    for text in follow(files, folder, options.follow):
        out.write(text)
        out.flush()
    return ExitStatus.DONE
