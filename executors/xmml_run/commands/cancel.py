"""`xmml cancel`: stop a run, and remove every trace of it at every site."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from xmml_executors.launch.site.journal import read_journal
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import ExitStatus, SiteError
from xmml_executors.queries import AskStop
from xmml_executors.run_folder import SECRET
from xmml_executors.run_lock import is_owned
from xmml_executors.run_outputs import read_events
from xmml_planner import PlanFormatError, plan_from_text

from xmml_run.arguments import add_run_argument
from xmml_run.errors import NotARun
from xmml_run.follow import wait_until_ended
from xmml_run.inspection import open_run, read_own_run
from xmml_run.run_queries import ask

DESCRIPTION = (
    "Stop a run, and remove every trace of it at every site. A run that goes on is stopped by its own xmml-run, which "
    "fetches the results first, however long that takes; Ctrl-C ends the waiting, not the run."
)
#: A launcher that ends its run notes something at least this often: fetching results ends when nothing comes for 60 s.
SILENT_S = 120.0
#: How often people are told what is waited for.
TOLD_EVERY_S = 10.0


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_run_argument(parser)


def run(options: Namespace) -> int:
    """Stop the run."""
    folder = open_run(options.run)
    read_own_run(folder)
    try:
        return _cancel(folder)
    except SiteError as error:
        _tell(str(error))
        return ExitStatus.SITE_FAILED


def _cancel(folder: OpenFolder) -> int:
    is_going = ask(folder, AskStop()) is not None or (is_owned(folder) and _is_ending(folder))
    if is_going:
        try:
            has_ended = _wait(folder)
        except KeyboardInterrupt:
            _tell(
                f"{folder.path.name} goes on ending in {_owner(folder)}; xmml cancel {folder.path} waits for it again"
            )
            return ExitStatus.INTERRUPTED
        if not has_ended:
            _tell(f"nothing has moved in {folder.path.name} for {SILENT_S:g} s; end {_owner(folder)}, and cancel again")
            return ExitStatus.SITE_FAILED
    told = read_journal(folder)
    if is_owned(folder):
        _tell(f"{_owner(folder)} carries out {folder.path.name} and does not answer; end it first")
        return ExitStatus.SITE_FAILED
    folder.remove(SECRET)
    if told is None or not told.unclean:
        if told is not None and read_own_run(folder).state == "lost":
            _clean(folder)  # nothing is left, but that the run was cancelled is noted
        clean = f", nothing is left at {', '.join(sorted(told.sites))}" if told is not None and told.sites else ""
        print(f"{folder.path.name}: ended{clean}; its folder here stays: {folder.path}")
        return ExitStatus.DONE
    if is_going:  # it may have left results there on purpose
        _tell(
            f"{folder.path.name} has left something at {', '.join(told.unclean)}; xmml cancel {folder.path} removes it"
        )
        return ExitStatus.SITE_FAILED
    try:
        return _clean(folder)
    except KeyboardInterrupt:
        left = ", ".join(told.unclean)
        _tell(f"interrupted; something may be left at {left}: xmml cancel {folder.path} removes it")
        return ExitStatus.INTERRUPTED


def _is_ending(folder: OpenFolder) -> bool:
    """Whether a run answers no queries because it is ending."""
    return any(event["what"] == "ending" for event in read_events(folder))


def _wait(folder: OpenFolder) -> bool:
    """Wait until the `xmml-run` of a run has ended; return whether it has."""
    waits = f"waiting for {_owner(folder)} to end {folder.path.name}"
    return wait_until_ended(folder, SILENT_S, _tell, TOLD_EVERY_S, waits)


def _clean(folder: OpenFolder) -> int:
    """Remove what a run whose `xmml-run` is gone has left at its sites."""
    from xmml_executors.launch.cancellation import clean_sites

    try:
        plan = plan_from_text(folder.read("plan.json").decode())
    except PlanFormatError as error:
        raise NotARun(f"{folder.path}: {error}") from None
    problems = clean_sites(plan, folder, print)
    for problem in problems:
        _tell(problem)
    return ExitStatus.SITE_FAILED if problems else ExitStatus.DONE


def _owner(folder: OpenFolder) -> str:
    """Return who carries out a run, as far as its journal says so."""
    told = read_journal(folder)
    return "its xmml-run" + (f" (process {told.launcher[0]})" if told is not None and told.launcher[0] else "")


def _tell(text: str) -> None:
    print(f"xmml cancel: {text}", file=sys.stderr, flush=True)
