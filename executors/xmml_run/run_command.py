"""`xmml-run`: check, plan, run, collect."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmml_executors.delivery import Delivery, deliver
from xmml_executors.launch.site.timeouts import away_limit_s
from xmml_executors.outcome import ExitStatus, Outcome, SiteError
from xmml_executors.run_folder import FolderTaken, RunFolder, new_folder, summary_of
from xmml_planner import NoPlan, Plan, PlanFormatError, summary
from xmml_planner.hosting import share_processes

from xmml.late_dataclass import dataclass
from xmml.problems import ModelError
from xmml_run.allocated import AllocationProblem, allocation_of, claimed
from xmml_run.arguments import UsageError, overrides_of, run_parser
from xmml_run.errors import NotARun
from xmml_run.reading import Planned, read_and_plan, show_problems, show_refused, sites_of

if TYPE_CHECKING:
    from xmml_executors.launch.site.journal import Journal
    from xmml_executors.run_result import RunResult
    from xmml_planner.sites.allocation import Allocation

    from xmml_run.by_hand import ByHand
    from xmml_run.run_server import SharedProcess

#: Files that the models call results and that are listed at the end.
MOST_RESULTS = 10
#: Tools that need the terminal for themselves.
INTERACTIVE_TOOLS = frozenset({"gdb", "lldb", "pdb", "cgdb"})


def run_model(arguments: Sequence[str], shared: SharedProcess | None = None) -> int:
    """Carry out `xmml-run` and return its exit status.

    Args:
        shared: the process, if it carries out other runs, too.
    """
    options = run_parser().parse_args(arguments)
    options.command_line = ["xmml-run", *arguments]
    if shared is not None and (options.detach or options.debug):
        wrong = "--detach" if options.detach else "--debug"
        return _end(options, Outcome(ExitStatus.USAGE, f"xmml-run: {wrong} needs a process of its own"))
    if options.resume is not None:
        return _resume(options, shared)
    with shared.planning if shared is not None else contextlib.nullcontext():
        if shared is not None and shared.stop.is_requested:  # while it waited for its turn
            return _end(options, Outcome(ExitStatus.INTERRUPTED, "xmml-run: interrupted before the run began"))
        prepared = _prepare(options, shared)
    return prepared if isinstance(prepared, int) else _begin(options, prepared, shared)


@dataclass(frozen=True)
class _Prepared:
    """Everything that a run needs to begin.

    Attributes:
        resolved: the model as it was understood; `None`: it is in the folder already, or a plan was given.
        debug: the tool that each instance runs under.
        terminal: the device that an instance under an interactive tool gets.
        journal: of a run that was interrupted and goes on.
    """

    plan: Plan
    resolved: str | None
    folder: RunFolder
    deliveries: Sequence[Delivery]
    debug: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    terminal: str | None = None
    journal: Journal | None = None
    by_hand: ByHand | None = None


def _allocation(options: Namespace, shared: SharedProcess | None) -> Allocation | None:
    """Return the allocation whose nodes the run has; `None`: it has none, or others have it.

    Raises:
        AllocationProblem: its nodes cannot be used.
    """
    allocation = allocation_of(options) if shared is None else None
    if allocation is None or options.dry_run or claimed(allocation):
        return allocation
    if not options.quiet:
        instead = "runs on this machine alone" if options.sites is None else "submits jobs instead"
        print(f"xmml-run: another run has the nodes of {allocation.name}; this one {instead}", file=sys.stderr)
    return None


def _prepare(options: Namespace, shared: SharedProcess | None) -> _Prepared | int:
    """Check and plan, and make the folder of the run; return the exit status if there is nothing to be run."""
    try:
        planned = read_and_plan(
            options.model,
            options.parameter_files,
            overrides_of(options.overrides),
            options.hosts,
            sites_of(options),
            _allocation(options, shared),
            allow_outside=options.allow_outside,
            record=[port for ports in options.record for port in ports],
        )
    except AllocationProblem as error:
        return _end(options, Outcome(error.exit_status, f"xmml-run: {error}" if str(error) else ""))
    except NoPlan as error:
        return _end(options, Outcome(ExitStatus.NO_PLAN, f"xmml-run: no plan satisfies the sites: {error}"))
    except UsageError as error:
        return _end(options, Outcome(ExitStatus.USAGE, f"xmml-run: {error}"))
    except ModelError as error:
        return _end(options, Outcome(ExitStatus.MODEL_ERROR, show_refused(error, "xmml-run", options.model)))
    except PlanFormatError as error:
        return _end(options, Outcome(ExitStatus.MODEL_ERROR, f"xmml-run: {options.model} cannot be run: {error}"))
    if not options.quiet:
        for note in planned.notes:
            print(f"xmml-run: {note}", file=sys.stderr)
        if planned.warnings:
            show_problems(planned.warnings)
    try:
        if options.dry_run:
            return _dry_run(options, _bound(planned.plan, options))
        away_limit_s()  # the coordinator would take a wrong one for none
        deliveries = _deliveries(options, planned.plan)
        debug, terminal = _debugging(options, planned.plan)
        by_hand = _by_hand(options, planned.plan)
        apart = [*debug, *(by_hand.instances if by_hand else ())]
        plan, resolved = _bound(_hosted(planned.plan, options, apart), options), _resolved(planned)
        del planned  # the model and where each part of it stands: nothing of it is needed while the run goes on
        known_as = (by_hand.run, by_hand.secret) if by_hand else None
        path = options.folder or new_folder(Path("runs"), plan.model)
        folder = RunFolder(path, plan, known_as=known_as, is_shared=options.shared)
    except (UsageError, FolderTaken) as error:
        return _end(options, Outcome(ExitStatus.USAGE, f"xmml-run: {error}"))
    except ModelError as error:
        return _end(options, Outcome(ExitStatus.MODEL_ERROR, show_refused(error, "xmml-run", options.model)))
    except SiteError as error:
        return _end(options, Outcome(ExitStatus.SITE_FAILED, f"xmml-run: {error}"))
    if folder.unsealed and plan.sites and not options.quiet:
        told = f"if this process is killed, nobody can go on with the run or clean up its sites: {folder.unsealed}"
        print(f"xmml-run: {told}", file=sys.stderr)
    return _Prepared(plan, resolved, folder, deliveries, debug, terminal, by_hand=by_hand)


def _by_hand(options: Namespace, plan: Plan) -> ByHand | None:
    if not (options.by_hand or options.relay or options.run):
        return None
    from xmml_run.by_hand import by_hand_of

    return by_hand_of(options, plan)


def _resume(options: Namespace, shared: SharedProcess | None) -> int:
    """Go on with a run whose launcher was interrupted."""
    from xmml_run.resume import refuse_what_the_plan_fixes, resumed, what_resuming_does

    try:
        refuse_what_the_plan_fixes(options)
        plan, folder, journal = resumed(options.resume)
        deliveries = _deliveries(options, plan)
    except (UsageError, NotARun) as error:
        return _end(options, Outcome(ExitStatus.USAGE, f"xmml-run: {error}"))
    except SiteError as error:
        return _end(options, Outcome(ExitStatus.SITE_FAILED, f"xmml-run: {error}"))
    if not options.quiet:
        print(f"xmml-run: --resume {_short(folder.path)} {what_resuming_does(journal.past)}", file=sys.stderr)
    return _begin(options, _Prepared(plan, None, folder, deliveries, journal=journal), shared)


def _begin(options: Namespace, prepared: _Prepared, shared: SharedProcess | None) -> int:
    """Run here, or go on in the background."""
    if options.detach:
        from xmml_run.detach import detach

        if prepared.terminal is not None:
            return _end(options, Outcome(ExitStatus.USAGE, "xmml-run: --detach: a debugger needs the terminal"))
        if not detach(prepared.folder.files):
            where = _short(prepared.folder.path)
            if options.json:
                print(json.dumps({"status": "detached", "exit_status": 0, "run_dir": str(prepared.folder.path)}))
            else:
                print(f"{where} runs in the background: xmml status {where}, xmml attach {where}, xmml cancel {where}")
            return 0
    return _run(options, prepared, shared)


def _deliveries(options: Namespace, plan: Plan) -> list[Delivery]:
    """Return what is to be copied out of the run."""
    for name, path, _ in options.results:
        if name not in plan.by_name:
            from xmml.problems import did_you_mean

            raise UsageError(
                f'--result {name}/{path}: there is no instance "{name}"; '
                f"{did_you_mean(name, plan.by_name, 'instances')}"
            )
    return [Delivery(*each) for each in options.results]


def _dry_run(options: Namespace, plan: Plan) -> int:
    if options.json:
        print(json.dumps({"status": "planned", "exit_status": 0, "plan": plan.as_json()}))
    else:
        print(summary(plan))
        if plan.sites:
            from xmml_executors.launch.dry_run import RUN, dry_run_lines

            try:
                folder = options.folder or Path("runs", RUN)
                is_direct = options.listen is not None
                lines = dry_run_lines(plan, str(folder.absolute()), is_direct=is_direct, strategy=options.strategy)
                print("\n".join(lines))
            except SiteError as error:
                return _end(options, Outcome(ExitStatus.SITE_FAILED, f"xmml-run: {error}"))
    return 0


def _debugging(options: Namespace, plan: Plan) -> tuple[dict[str, tuple[str, ...]], str | None]:
    """Return which instances run under which tool, and the terminal that an interactive one gets."""
    debug = dict(options.debug)
    for name in debug:
        if name not in plan.by_name:
            from xmml.problems import did_you_mean

            raise UsageError(f'--debug: there is no instance "{name}"; {did_you_mean(name, plan.by_name, "instances")}')
    interactive = [name for name, tool in debug.items() if os.path.basename(tool[0]) in INTERACTIVE_TOOLS]
    for name, tool in debug.items():
        program = shutil.which(tool[0])
        if program is None:
            raise UsageError(f'--debug {name}: the tool "{tool[0]}" is not installed here')
        debug[name] = (program, *tool[1:])
    if not interactive:
        return debug, None
    if len(debug) > 1:
        raise UsageError("--debug: only one instance can have the terminal; name one")
    if not sys.stdin.isatty():
        raise UsageError(f"--debug {interactive[0]}: {os.path.basename(debug[interactive[0]][0])} needs a terminal")
    return debug, os.ttyname(sys.stdin.fileno())


def _hosted(plan: Plan, options: Namespace, apart: Collection[str]) -> Plan:
    """Return the plan as it can be carried out here: who is `apart` has its own process, and so has everybody where
    threads cannot have working folders of their own."""
    if any(instance.process for instance in plan.instances):
        from xmml_native import threads_can_have_folders

        if not threads_can_have_folders():
            if options.hosts:
                print("xmml-run: this system lets no instances share a process; each has its own", file=sys.stderr)
            return share_processes(plan, 0)
        if any(plan.by_name[name].process for name in apart):
            return share_processes(plan, options.hosts, apart=apart)
    return plan


def _bound(plan: Plan, options: Namespace) -> Plan:
    """Return the plan with what `--bind` says, if this machine has that.

    Raises:
        UsageError: it has not.
        ModelError: it has not what the model asks for.
    """
    from xmml_executors.local_plan import here

    if options.bind is not None:
        # Whoever is bound has a process of its own.
        alone = {each.name for each in here(plan).instances} if options.bind != "none" else ()
        instances = (
            replace(each, bind=options.bind, process=None if each.name in alone else each.process)
            for each in plan.instances
        )
        plan = replace(plan, instances=tuple(instances))
    if any(each.bind not in ("", "none") for each in plan.instances):
        from xmml_executors.binding.process_binding import BindingError, check_bindings
        from xmml_planner.problems import position_from_text, problem_at

        ours = here(plan)
        try:
            check_bindings(ours)
        except BindingError as error:
            if options.bind is not None:
                raise UsageError(f"--bind {options.bind}: {error}; --bind none binds nothing") from None
            wanted = f'instance "{error.instance.name}" has run:bind="{error.instance.bind}": {error}'
            position = position_from_text(error.instance.position)
            raise ModelError([problem_at(position, wanted, "correct it, or bind nothing: --bind none")]) from None
        elsewhere = {each.name for each in plan.instances} - {each.name for each in ours.instances}
        asked_for = sorted({each.bind for each in plan.instances if each.name in elsewhere} - {"", "none"})
        if asked_for and not options.quiet:
            what = f"--bind {options.bind}" if options.bind is not None else f'run:bind="{asked_for[0]}"'
            told = f"{what} counts on this machine alone; at sites and in jobs the plan says which cores programs have"
            print(f"xmml-run: {told}", file=sys.stderr)
    return plan


def _run(options: Namespace, prepared: _Prepared, shared: SharedProcess | None) -> int:
    from xmml_executors.execution import Options, execute
    from xmml_executors.launch.setup import executor_for, listen_at
    from xmml_executors.run_outputs import collect
    from xmml_executors.run_result import RunResult

    from xmml_run.display import choose_display

    started = time.time()
    plan, folder, terminal, by_hand = prepared.plan, prepared.folder, prepared.terminal, prepared.by_hand
    stop = shared.stop if shared is not None else None
    progress = not (options.no_progress or terminal)
    display = choose_display(plan, quiet=options.quiet, json=options.json, progress=progress, is_raw=options.raw)
    if options.verbose:
        print(f"xmml-run: {folder.path}\n{summary(plan)}", file=sys.stderr)
    try:
        if prepared.resolved is not None:
            folder.write("model.xmml", prepared.resolved)
        others = by_hand.instances if by_hand else frozenset()
        how = Options(listen_at(plan, options.listen), prepared.debug, terminal, others, stop)
        is_direct, strategy = options.listen is not None, options.strategy
        pool = shared.pool if shared is not None else None
        executor = executor_for(
            plan, folder, prepared.journal, is_direct=is_direct, strategy=strategy, stop=stop, pool=pool
        )
        if by_hand is not None:
            from xmml_executors.by_hand import ByHandExecutor

            executor = partial(ByHandExecutor, relay=by_hand.relay, by_hand=by_hand.instances)
            if not options.quiet:
                print("\n".join(f"xmml-run: {line}" for line in by_hand.what_to_type(plan)), file=sys.stderr)
        result = execute(plan, folder, display, how, executor)
    except SiteError as error:
        result = RunResult(Outcome(ExitStatus.SITE_FAILED, str(error)), time.time() - started, {})
    finally:
        display.close()
    result = _delivered(plan, folder, result, prepared.deliveries)
    told = summary_of(
        result.outcome, folder.path, result.wall_s, {name: record.as_json() for name, record in result.records.items()}
    )
    try:
        try:
            folder.event("run ended", site=plan.jobs[0].site, **told)
            collect(plan, folder, result, options.command_line, started, options.parameter_files)
        except SiteError as error:
            if result.outcome.is_done:
                result = RunResult(Outcome(ExitStatus.SITE_FAILED, str(error)), result.wall_s, result.records)
        return _conclude(options, plan, folder, result, told)
    finally:
        folder.close()


def _delivered(plan: Plan, folder: RunFolder, result: RunResult, deliveries: Sequence[Delivery]) -> RunResult:
    """Copy out what was asked for, if the run is done; a run whose results are missing is none."""
    if not result.outcome.is_done:
        return result
    try:
        return replace(result, outcome=deliver(plan, folder, deliveries))
    except SiteError as error:
        return replace(result, outcome=Outcome(ExitStatus.SITE_FAILED, str(error)))


def _resolved(planned: Planned) -> str | None:
    """Return the model as it was understood; `None`: a plan was given."""
    if planned.model is None:
        return None
    from xmml.serialise import to_xml

    return to_xml(planned.model)


def _deaths(options: Namespace, result: Any) -> list[str]:
    """Return who has died while the run went on."""
    from xmml_executors.deaths import deaths_in_words

    return [] if options.quiet else deaths_in_words(result.records, result.outcome.instance)


def _conclude(options: Namespace, plan: Plan, folder: RunFolder, result: Any, told: dict[str, Any]) -> int:
    """Say what ran, how long, and where the results are; of a failed run last of all why."""
    from xmml_run.display import summary_line

    outcome = result.outcome
    told |= {
        "status": outcome.exit_status.word,
        "exit_status": int(outcome.exit_status),
        "reason": outcome.reason or None,
    }
    where = _short(folder.path)
    lines: list[str] = []
    if outcome.is_done and not options.quiet:
        results = [f"  {path}" for instance in plan.instances for path in folder.results(instance)]
        lines = [
            summary_line(plan, result.wall_s, result.records),
            *_deaths(options, result),
            f"results: {where}",
            *results[:MOST_RESULTS],
        ]
    if not outcome.is_done:
        log = _short(folder.path / outcome.log) if outcome.log else where
        has_report = (
            folder.files.status("report.html") is not None and outcome.exit_status is not ExitStatus.INTERRUPTED
        )
        lines = [f"report: {where}/report.html"] if has_report and not options.quiet else []
        lines += _deaths(options, result)
        lines.append(f"xmml-run: {outcome.reason}" + (f"; see {log}" if folder.files.is_in_place() else ""))
    with contextlib.suppress(OSError):  # the terminal may be gone; the exit status is still told
        if lines:
            print("\n".join(lines), file=sys.stderr, flush=True)
        if options.json:
            print(json.dumps(told), flush=True)
    return int(outcome.exit_status)


def _short(path: Path) -> str:
    """Return a path relative to here, unless that would climb."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _end(options: Namespace, outcome: Outcome) -> int:
    """End a run that did not begin."""
    if outcome.reason:
        print(outcome.reason, file=sys.stderr)
    if options.json:
        nothing: dict[str, Any] = {"run_dir": None, "wall_s": 0.0, "instances": {}}
        print(
            json.dumps(
                {
                    "status": outcome.exit_status.word,
                    "exit_status": int(outcome.exit_status),
                    "reason": outcome.reason,
                    **nothing,
                }
            )
        )
    return int(outcome.exit_status)
