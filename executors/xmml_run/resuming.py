"""Going on with a run over sites whose `xmml-run` was interrupted: `xmml-run --resume RUN`.

Jobs that still wait in their queues, or for the others, keep their places. A run that had begun cannot go on, because
its coordinator is gone: what is left of it is removed, and it begins anew in the same folder.
"""

from __future__ import annotations

from pathlib import Path

from xmml_executors.launch.journal import Journal, JournalHeld, Past, read_journal
from xmml_executors.ownership import is_owned
from xmml_executors.run_folder import RunFolder
from xmml_planner import Plan, PlanFormatError, plan_from_text

from xmml_run.arguments import UsageError
from xmml_run.inspection import read_run
from xmml_run.not_a_run import NotARun


def resumed(path: Path) -> tuple[Plan, RunFolder, Journal]:
    """Return the plan, the folder and the journal of a run that can be resumed. From now on nobody else can.

    Raises:
        NotARun: the folder holds none.
        UsageError: it cannot be resumed.
        SiteError: its files cannot be read or written.
    """
    told = read_journal(path)
    if told is None:
        read_run(path)
        raise UsageError(f"{path} was not launched over sites; only such runs can be resumed")
    try:
        journal = Journal(path)
    except JournalHeld as error:
        raise UsageError(str(error)) from None
    try:
        return *_plan_and_folder(path, journal.past), journal
    except BaseException:
        journal.close()
        raise


def _plan_and_folder(path: Path, past: Past) -> tuple[Plan, RunFolder]:
    state = read_run(path).state
    if is_owned(path):
        raise UsageError(f"{path} is being launched by process {past.launcher[0]}; xmml status {path} says how it goes")
    if state not in ("running", "lost") and not past.unclean:
        raise UsageError(f"{path} has ended ({state}); there is nothing to resume")
    try:
        plan = plan_from_text((path / "plan.json").read_text(encoding="utf-8"))
    except PlanFormatError as error:
        raise NotARun(f"{path}: {error}") from None
    return plan, RunFolder(path, plan, past.run_id)
