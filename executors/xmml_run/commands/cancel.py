"""`xmml cancel`: stop a run, and remove every trace of it at every site."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from xmml_executors.launch.site.journal import read_journal
from xmml_executors.outcome import ExitStatus, SiteError
from xmml_executors.run_lock import is_owned
from xmml_planner import PlanFormatError, plan_from_text

from xmml_run.arguments import add_run_argument
from xmml_run.asking import ask
from xmml_run.errors import NotARun
from xmml_run.follow import wait_until_ended
from xmml_run.inspection import read_run

DESCRIPTION = "Stop a run, and remove every trace of it at every site."
#: How long a launcher may take to stop its run and to clean up.
STOPS_WITHIN_S = 60.0


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_run_argument(parser)


def run(options: Namespace) -> int:
    """Stop the run."""
    read_run(options.run)
    try:
        return _cancel(options.run)
    except SiteError as error:
        print(f"xmml cancel: {error}", file=sys.stderr)
        return ExitStatus.SITE_FAILED


def _cancel(folder: Path) -> int:
    if ask(folder, {"ask": "stop"}) is not None and not wait_until_ended(folder, STOPS_WITHIN_S):
        print(f"xmml cancel: {folder.name} does not stop; end its xmml-run, and cancel again", file=sys.stderr)
        return ExitStatus.SITE_FAILED
    told = read_journal(folder)
    if is_owned(folder):
        who = f"process {told.launcher[0]}" if told is not None else "a process"
        print(f"xmml cancel: {who} carries out {folder.name} and does not answer; end it first", file=sys.stderr)
        return ExitStatus.SITE_FAILED
    (folder / ".secret").unlink(missing_ok=True)
    if told is None or not told.unclean:
        print(f"{folder.name}: nothing is left of it")
        return ExitStatus.DONE
    from xmml_executors.launch.cancellation import clean_sites

    try:
        plan = plan_from_text((folder / "plan.json").read_text(encoding="utf-8"))
    except PlanFormatError as error:
        raise NotARun(f"{folder}: {error}") from None
    problems = clean_sites(plan, folder, print)
    for problem in problems:
        print(f"xmml cancel: {problem}", file=sys.stderr)
    return ExitStatus.SITE_FAILED if problems else ExitStatus.DONE
