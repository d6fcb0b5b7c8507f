"""`xmml report`: the report of a run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from xmml_executors.outcome import ExitStatus

from xmml_run.arguments import add_run_argument
from xmml_run.commands.status import status_lines
from xmml_run.inspection import read_run

DESCRIPTION = "Print a summary of a run, and where its report is."


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_run_argument(parser)


def run(options: Namespace) -> int:
    """Print the summary."""
    view = read_run(options.run)
    print("\n".join(status_lines(view)))
    page = options.run / "report.html"
    print(f"report: {page}" if page.exists() else "the report is written when the run has ended")
    return ExitStatus.DONE
