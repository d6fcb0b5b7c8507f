"""Going on with a run over sites whose `xmml-run` was killed: `xmml-run --resume RUN`.

Jobs that still wait in their queues, or for the others, keep their places. A run that had begun cannot go on, because
its coordinator is gone: what is left of it is removed, and it begins anew in the same folder. A run that has ended is
left alone: results that have not come back may still lie at its sites.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from xmml_executors.launch.site.journal import Journal, JournalContent, JournalLocked, read_journal
from xmml_executors.open_folder import OpenFolder
from xmml_executors.run_folder import RunFolder
from xmml_executors.run_lock import is_owned
from xmml_planner import Plan, PlanFormatError, plan_from_text

from xmml_run.allocated import job_of_this_process
from xmml_run.arguments import UsageError, run_parser
from xmml_run.errors import NotARun
from xmml_run.inspection import open_run, read_own_run

#: Options that say what is run, and where: the plan of a run that is resumed has said it. By their names in the parser.
_FIXED_BY_THE_PLAN: Mapping[str, str] = {
    "overrides": "-p",
    "parameter_files": "--param",
    "allow_outside": "--allow-outside",
    "folder": "-o",
    "record": "--record",
    "dry_run": "--dry-run",
    "debug": "--debug",
    "hosts": "--hosts",
    "bind": "--bind",
    "sites": "--sites",
    "place": "--place",
    "max_cost": "--max-cost",
    "by_hand": "--by-hand",
    "relay": "--relay",
    "run": "--run",
}


def refuse_what_the_plan_fixes(options: Namespace) -> None:
    """Look at the options that stand beside `--resume`.

    Raises:
        UsageError: one of them would have no effect.
    """
    parser = run_parser()
    for name, option in _FIXED_BY_THE_PLAN.items():
        if getattr(options, name) != parser.get_default(name):
            raise UsageError(
                f"{option} cannot be given with --resume: the run keeps the plan in its folder; "
                f"xmml status {options.resume} says what would be done"
            )


def what_resuming_does(told: JournalContent) -> str:
    """Return what `xmml-run --resume` does with a run whose `xmml-run` was killed, by the journal of the run."""
    if told.is_cancelled:
        return "begins the run anew with its first step"
    if any(site.has_begun for site in told.sites.values()):
        return "begins the run anew with its first step, when what is left at its sites has been ended and removed"
    waiting = [
        f"{id or 'one'} at {name}"
        for name, site in told.sites.items()
        if not site.reservations
        for id in dict.fromkeys(site.jobs.values())
    ]
    if waiting:
        return f"goes on with the launch; jobs that still wait keep their places in the queues: {', '.join(waiting)}"
    return "begins with the launch again; no job waits for it"


def resumed(path: Path) -> tuple[Plan, RunFolder, Journal]:
    """Return the plan, the folder and the journal of a run that can be resumed. From now on nobody else can.

    Raises:
        NotARun: the folder holds none.
        UsageError: it cannot be resumed, because it goes on, has ended, or was not launched over sites.
        SiteError: its files cannot be read or written.
    """
    folder = open_run(path)
    read_own_run(folder)
    told = read_journal(folder)
    if told is None:
        raise UsageError(
            f"{path} was not launched over sites, and only such runs can be resumed; start it again with xmml-run MODEL"
        )
    try:
        journal = Journal(folder)
    except JournalLocked as error:
        raise UsageError(str(error)) from None
    try:
        return *_plan_and_folder(folder, journal.past), journal
    except BaseException:
        journal.close()
        raise


def _plan_and_folder(folder: OpenFolder, past: JournalContent) -> tuple[Plan, RunFolder]:
    path = folder.path
    state = read_own_run(folder).state
    if is_owned(folder):
        raise UsageError(f"{path} is being launched by process {past.launcher[0]}; xmml status {path} says how it goes")
    if state not in ("running", "waiting", "ending", "lost", "cancelled"):
        left = f"; xmml cancel {path} removes what is left of it at {', '.join(past.unclean)}" if past.unclean else ""
        raise UsageError(f"{path} has ended ({state}), and only a run whose xmml-run was killed can be resumed{left}")
    try:
        plan = plan_from_text(folder.read("plan.json").decode())
    except PlanFormatError as error:
        raise NotARun(f"{path}: {error}") from None
    jobs = {site.allocation.job for site in plan.sites if site.allocation is not None}
    if jobs and jobs != {job_of_this_process()}:
        raise UsageError(
            f"{path} ran on the nodes of job {', '.join(sorted(jobs))}, and only in that job it can be resumed; "
            "start the model again with xmml-run MODEL"
        )
    return plan, RunFolder(folder, plan, past.run_id)
