"""`xmml report`: the report of a run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from xmml_executors.outcome import ExitStatus

from xmml_run.arguments import add_run_argument
from xmml_run.commands.status import status_lines
from xmml_run.inspection import open_run, read_run
from xmml_run.terminal_text import printable

DESCRIPTION = "Print a summary of a run, and where its report is."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_run_argument(parser)


def run(options: Namespace) -> int:
    """Print the summary."""
    folder = open_run(options.run)
    view = read_run(folder)
    print("\n".join(map(printable, status_lines(view))))
    has_page = folder.status("report.html") is not None
    print(f"report: {folder.path / 'report.html'}" if has_page else "the report is written when the run has ended")
    return ExitStatus.DONE
