"""`xmml attach`: follow a detached run as if it had been started here."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import ExitStatus

from xmml_run.arguments import add_run_argument
from xmml_run.commands.status import lost_lines
from xmml_run.detach import OUTPUT
from xmml_run.errors import NotARun
from xmml_run.inspection import follow, open_run, read_own_run, read_run

DESCRIPTION = "Follow a detached run to its end, and return its exit status. Ctrl-C leaves it alone."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_run_argument(parser)


def run(options: Namespace) -> int:
    """Print what the run prints until it has ended."""
    folder = open_run(options.run)
    path = folder.path
    read_own_run(folder)
    if folder.status(OUTPUT) is None:
        raise NotARun(f"{path} was not detached; its output is where it was started. See xmml status and xmml logs")
    try:
        for text in follow([OUTPUT], folder, go_on=True):
            sys.stdout.write(text)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"\n{path.name} goes on; xmml attach {path} follows it again", file=sys.stderr)
        return ExitStatus.DONE
    return exit_status(folder)


def exit_status(folder: OpenFolder) -> int:
    """Return how a run has ended that nobody carries out any more."""
    state = read_run(folder).state
    for status in ExitStatus:
        if status.word == state:
            return status
    print("\n".join(f"xmml attach: {line}" for line in lost_lines(folder)), file=sys.stderr)
    return ExitStatus.SITE_FAILED
