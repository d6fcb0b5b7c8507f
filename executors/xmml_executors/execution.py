"""Carrying a plan out on this machine: the event loop between coordinator, supervisor, run folder and whoever
watches."""

from __future__ import annotations

import math
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from xmml_native import Coordinator
from xmml_native.machine import MemoryGroup
from xmml_planner import Plan

from xmml.late_dataclass import dataclass
from xmml_executors import coordination_orders as policy
from xmml_executors import coordinator_events as events
from xmml_executors import protocol
from xmml_executors.binding.core_binding import CoreBinding
from xmml_executors.binding.topology import cpu_text
from xmml_executors.build_lock import LOOK_EVERY_S, BuildLock, waiting_in
from xmml_executors.builds import Builds, build_name, missing_after_builds
from xmml_executors.coordination import Coordination, Phase
from xmml_executors.debug_terminal import take_terminal_back
from xmml_executors.deferred_instances import DeferredInstances
from xmml_executors.event_notes import EventNotes
from xmml_executors.executor import (
    Acquired,
    Executor,
    LastReport,
    LateComing,
    ProcessStart,
    Report,
    ResultsLeft,
    SiteFailed,
    SiteNotice,
    SiteProgress,
    SiteReport,
    SiteSuspected,
)
from xmml_executors.instance_record import InstanceRecord, Lifecycle
from xmml_executors.limits import explained
from xmml_executors.local import LocalExecutor
from xmml_executors.local_plan import here
from xmml_executors.model_files import names_below, note_built
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import ExitStatus, Outcome, SiteError, not_all_back
from xmml_executors.process_starts import ProcessStarts, refusal
from xmml_executors.protocol import details
from xmml_executors.queries import AskTap
from xmml_executors.query_server import QueryServer
from xmml_executors.run_folder import DOOR, SECRET, RunFolder
from xmml_executors.run_result import RunResult
from xmml_executors.sites_progress import SitesProgress
from xmml_executors.stop_signals import STOP_SIGNALS, StopRequests, has_input, stop_signals, take_stops
from xmml_executors.typed_json import ProtocolError
from xmml_executors.unstaged_inputs import how_to_stage, unstaged_inputs

#: Batch systems tell jobs up to so long before their time limit that they have to end.
NEAR_THE_LIMIT_S = 5.0
#: Processes that are told to end together are told within this time.
TOLD_TOGETHER_S = 0.5
#: How often a watcher is shown what has changed.
REFRESH_S = 0.125
#: What a build writes is shown once it takes so long; one that is over sooner usually had nothing to do.
BUILD_SHOWN_AFTER_S = 1.0
#: How often people are told what goes on at a site while the run ends.
PROGRESS_SHOWN_EVERY_S = 20.0
#: How often it is seen to that the run's folder is still there, also if nothing happens.
FOLDER_SEEN_EVERY_S = 1.0


class Observer(Protocol):
    """Who watches a run: a terminal, a test, nobody."""

    def output(self, instance: str, stream: str, line: str) -> None:
        """An instance (or a build) has written a line."""

    def notice(self, text: str, instance: str | None) -> None:
        """Something that people should know, but that does not end the run."""

    def refresh(self, records: Mapping[str, InstanceRecord]) -> None:
        """Something has changed; called at most every `REFRESH_S`."""


@dataclass(frozen=True)
class Options:
    """How a run is carried out.

    Attributes:
        listen: also reach the coordinator over TCP at this `host:port`.
        debug: instances that start under a tool, with the tool and its arguments.
        terminal: the device that a debugged instance gets; `None`: its streams are captured as usual.
        by_hand: instances that somebody else starts.
        stop: stops the run; `None`: signals do.
    """

    listen: str | None = None
    debug: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    terminal: str | None = None
    by_hand: frozenset[str] = frozenset()
    stop: StopRequests | None = None


def execute(
    plan: Plan,
    folder: RunFolder,
    watcher: Observer,
    options: Options | None = None,
    make_executor: Callable[[OpenFolder], Executor] = LocalExecutor,
) -> RunResult:
    """Carry the plan out and return how it ended. It handles SIGINT, SIGTERM and SIGHUP, and so must be called in the
    main thread, unless the options say what else stops the run.

    Args:
        make_executor: makes what starts the processes, in the folder; it raises SiteError if it cannot.
    """
    return _Execution(plan, folder, watcher, options or Options(), make_executor).run()


class _Execution:
    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        watcher: Observer,
        options: Options,
        make_executor: Callable[[OpenFolder], Executor],
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.watcher = watcher
        self.options = options
        ours = {instance.name for instance in here(plan).instances}
        elsewhere = [instance.name for instance in plan.instances if instance.name not in ours]
        self.coordination = Coordination(plan, limits=not options.debug, elsewhere=elsewhere, by_hand=options.by_hand)
        self.make_executor = make_executor
        self.memory = MemoryGroup()
        self.cores = CoreBinding()
        self.not_bound = ""
        self.starts = ProcessStarts(plan, folder, options.debug, options.terminal)
        self.builds = Builds(here(plan))
        self.early: Outcome | None = None
        self.wake: int | None = None
        self.left: list[ResultsLeft] = []
        self.selector = selectors.DefaultSelector()
        self.executor: Executor
        self.coordinator: Coordinator | None = None
        self.relay: str | None = None
        self.questions: QueryServer | None = None
        self.latecomers: DeferredInstances | None = None
        self.started = time.monotonic()
        self.refresh_at: float | None = None
        self.notes = EventNotes(len(plan.instances))
        self.sites_progress = SitesProgress()
        self.show_progress_at = math.inf
        self.site_of = {instance.name: instance.site for instance in plan.instances}
        self.first_site = plan.jobs[0].site if plan.jobs else "local"

    # --- phases -----------------------------------------------------------------------------------------------------

    def run(self) -> RunResult:
        outcome: Outcome
        try:
            with stop_signals(self.options.stop) as wake:
                self.wake = wake
                self.executor = self.make_executor(self.folder.files)
                try:
                    self.selector.register(wake, selectors.EVENT_READ, lambda: self.on_wake(wake))
                    self.selector.register(self.executor, selectors.EVENT_READ, self.on_reports)
                    self.executor.remove_at_end(Path(SECRET))
                    self.questions = self.answer_queries()
                    outcome = self.build() or self.couple()
                finally:
                    self.note_end()
                    if self.questions is not None:
                        self.questions.close()  # results may arrive for hours, and nobody would answer meanwhile
                    self.show_progress_at = time.monotonic() + PROGRESS_SHOWN_EVERY_S
                    try:
                        self.executor.close(self.folder.path, self.on_last_report)
                    finally:  # also if that goes wrong: a process that goes on with other runs would keep them
                        if self.coordinator is not None:
                            self.coordinator.close()
                        self.cores.release()
        except SiteError as error:
            outcome = Outcome(ExitStatus.SITE_FAILED, str(error))
        finally:
            self.selector.close()
        if self.left and outcome.is_done:
            outcome = not_all_back(
                [each.text for each in self.left], interrupted=any(each.interrupted for each in self.left)
            )
        self.watcher.refresh(self.coordination.records)
        self.point_at_unstaged_inputs(outcome)
        return RunResult(outcome, time.monotonic() - self.started, self.coordination.records, self.not_bound)

    def point_at_unstaged_inputs(self, outcome: Outcome) -> None:
        """Say so if the instance that failed did not find a file that lies beside the model."""
        if outcome.instance not in self.coordination.records or outcome.exit_status is not ExitStatus.INSTANCE_FAILED:
            return
        instance = self.plan.by_name[outcome.instance]
        work = self.folder.path / self.folder.work(instance)
        last_words = self.coordination.records[instance.name].last_words
        for name in unstaged_inputs(last_words, Path(self.plan.model_folder), work):
            self.watcher.notice(how_to_stage(instance, name), None)

    def note_end(self) -> None:
        """Note that nothing more is begun, for those who would like to stop the run."""
        with suppress(SiteError):  # a full disk is told by whoever collects
            self.folder.event("ending", site=self.first_site)
            self.folder.flush()

    def answer_queries(self) -> QueryServer | None:
        """Let people ask how the run goes; without that it goes on all the same."""
        try:
            questions = QueryServer(
                self.folder.files,
                self.coordination.conduits,
                self.coordination.records,
                self.selector,
                self.on_signals,
                self.add_tap,
            )
        except OSError as error:
            self.watcher.notice(f"xmml status cannot look into this run while it goes on: {error}", None)
            return None
        self.executor.remove_at_end(Path(DOOR))
        return questions

    def build(self) -> Outcome | None:
        """Make the programs; return the outcome if that ends the run."""
        if self.builds.current is not None:
            with BuildLock(Path(self.plan.model_folder)) as lock:
                self.await_lock(lock)
                self.make_programs()
        return (
            self.early or self.builds.failure or (missing_after_builds(here(self.plan)) if self.plan.builds else None)
        )

    def await_lock(self, lock: BuildLock) -> None:
        """Wait until no other run builds in the folder of the model, or something ends this run."""
        if lock.take():
            return
        self.note("waiting to build")
        self.watcher.notice(waiting_in(self.plan.model_folder), None)
        while self.early is None and not lock.take():
            self.wait(time.monotonic() + LOOK_EVERY_S)

    def make_programs(self) -> None:
        """Run the builds, one after the other, and note what they make."""
        folder = Path(self.plan.model_folder)
        before = names_below(folder)
        while self.builds.current is not None and self.early is None:
            number = self.builds.current
            log = Path(self.folder.build_log(number))
            self.folder.make_folder(str(log.parent))
            self.note("building", command=self.builds.build.command)
            env = self.starts.environment()
            where = Path(self.builds.build.folder)
            self.executor.start(ProcessStart(build_name(number), self.builds.command(), env, where, log, log))
            begin_to_show_at = time.monotonic() + BUILD_SHOWN_AFTER_S
            while self.builds.current == number and self.early is None:
                self.wait(None if self.builds.is_shown else begin_to_show_at)
                if self.builds.current == number and time.monotonic() >= begin_to_show_at:
                    self.show_build(number)
            if self.builds.failure is not None:
                self.show_build(number)
        note_built(folder, before)

    def show_build(self, number: int) -> None:
        for stream, line in self.builds.show():
            self.watcher.output(build_name(number), stream, line)

    def couple(self) -> Outcome:
        """Start the instances and see the run to its end."""
        try:
            self.folder.stage_in(here(self.plan))
            self.relay = self.executor.open_relay()
            self.coordinator = Coordinator(self.folder.run_id, self.folder.secret, self.options.listen, self.relay)
        except SiteError:
            raise
        except Exception as error:
            raise SiteError(f"the coordinator cannot be started: {error}") from None
        self.selector.register(self.coordinator, selectors.EVENT_READ, self.on_native)
        if self.questions is not None:
            self.questions.open(self.coordinator)
        if self.executor.late:
            self.latecomers = DeferredInstances(self.plan, self.executor, self.coordination.records)
        self.executor.acquire(self.coordinator.addresses)
        # Programs that can be started now are: they begin while the coordinator is told of them, which keeps who joins
        # before that waiting.
        can_start = self.executor.is_acquired
        if can_start:
            self.start_all()
        self.coordinator.define_plan(self.plan.text)
        self.plan.let_go_of_text()
        while not self.executor.is_acquired and self.coordination.phase is not Phase.ENDED:
            self.wait(self.coordination.deadline)
            self.carry_out(self.coordination.on_time(time.monotonic()))
        if self.coordination.phase is Phase.RUNNING and not can_start:
            self.start_all()
        while self.coordination.phase is not Phase.ENDED:
            self.wait(self.coordination.deadline)
            self.carry_out(self.coordination.on_time(time.monotonic()))
        assert self.coordination.outcome is not None
        return self.coordination.outcome

    def start_all(self) -> None:
        """Start every process that can be started and has not been."""
        assert self.coordinator is not None
        if not self.cores.is_chosen:
            self.bind()
        self.starts.start_ready(self.executor, self.coordinator.addresses, self.cores.current)

    def bind(self) -> None:
        """Choose the cores of the processes of this machine, and note them."""
        binding = self.cores.choose(here(self.plan), self.options.by_hand)
        if binding.cpus:
            self.note_bound({process: cpu_text(cpus) for process, cpus in binding.cpus.items()})
        elif binding.reason:
            self.note_unbound((), binding.reason)
            if binding.is_asked_for:
                self.watcher.notice(f"nothing is bound to cores: {binding.reason}", None)

    def note_bound(self, cpus: Mapping[str, str]) -> None:
        """Note the CPUs of processes, as Linux writes them."""
        for process, own in cpus.items():
            for name in self.inside.get(process, ()):
                self.coordination.records[name].cpus = own
        self.note("bound", cpus=cpus)

    def note_unbound(self, processes: Sequence[str], reason: str) -> None:
        """Note that processes are not bound, or no longer; none: those of this machine, which never were."""
        self.not_bound = reason
        for process in processes:
            for name in self.inside.get(process, ()):
                self.coordination.records[name].cpus = ""
        self.note("not bound", reason=reason, processes=[*processes])

    @cached_property
    def inside(self) -> Mapping[str, Sequence[str]]:
        """The instances in each process, with the further ranks of an MPI program."""
        found: dict[str, list[str]] = {}
        for each in self.plan.instances:
            found.setdefault(each.process or each.rank_of or each.name, []).append(each.name)
        return found

    def look_at_cores(self, now: float) -> None:
        """Bind nothing any more if processes have to wait for their cores."""
        if not self.cores.is_chosen:
            return
        bound = [*self.cores.current.cpus]
        if reason := self.cores.why_unbound(now):
            self.note_unbound(bound, reason)

    def add_tap(self, query: AskTap) -> dict[str, Any]:
        """Let a program join as a tap; return what it needs.

        Raises:
            TapRefused: it cannot be shown what it asks for.
        """
        from xmml_executors.taps import TapRefused, environment_of_tap, tap_spec

        if self.coordinator is None or self.coordination.phase is not Phase.RUNNING:
            is_early = self.coordinator is None
            raise TapRefused("the run has not begun: its programs are being built" if is_early else "the run is ending")
        name = self.coordination.taps.next()
        spec = tap_spec(self.plan, name, query)
        self.coordination.taps.add(name)
        self.coordinator.add_tap(spec)
        ports = [f"{each['sender']}.{each['sender_port']}" for each in spec["conduits"]]
        return {
            "tap": name,
            "ports": ports,
            "environment": environment_of_tap(
                name, self.starts.joining_environment(self.coordinator.addresses), self.relay
            ),
        }

    # --- what happens -----------------------------------------------------------------------------------------------

    def wait(self, deadline: float | None) -> None:
        """Wait for something to happen, at most until `deadline`, and deal with it."""
        now = time.monotonic()
        asked = self.questions.deadline if self.questions is not None else None
        look_at = self.latecomers.deadline if self.latecomers is not None else None
        times = [at for at in (deadline, self.refresh_at, asked, look_at, self.cores.deadline) if at is not None]
        timeout = max(0.0, min(*times, now + FOLDER_SEEN_EVERY_S) - now) if times else FOLDER_SEEN_EVERY_S
        for key, _ in self.selector.select(timeout):
            key.data()
        self.on_folder(self.folder.flush)
        now = time.monotonic()
        self.look_at_cores(now)
        if self.questions is not None:
            self.questions.on_time(now)
        if self.latecomers is not None and self.coordinator is not None:
            self.latecomers.on_time(now, self.coordinator)
        if self.refresh_at is not None and self.refresh_at <= now:
            self.refresh_at = None
            self.watcher.refresh(self.coordination.records)

    def changed(self) -> None:
        if self.refresh_at is None:
            self.refresh_at = time.monotonic() + REFRESH_S

    def on_wake(self, wake: int) -> None:
        for number in take_stops(wake):
            if number in STOP_SIGNALS:
                self.on_signals(end_of_job(self.plan) if number == signal.SIGTERM else "")

    def on_signals(self, why: str = "") -> None:
        """Something stops the run; `why`: its job ends, for this reason."""
        self.note("interrupted")
        reason = f"the run was interrupted{f': {why}' if why else ''}"
        if self.coordinator is None:
            self.early = Outcome(ExitStatus.INTERRUPTED, reason)
            return
        if self.coordination.phase is not Phase.STOPPING:
            told = why or "Ctrl-C again kills them at once"
            self.watcher.notice(f"interrupted: stopping the instances ({told})", None)
        now = time.monotonic()
        self.carry_out(self.coordination.on_job_end(now, reason) if why else self.coordination.on_interrupt(now))

    def on_reports(self) -> None:
        reports = self.executor.take_reports()
        now = time.monotonic()
        if reports is None:
            self.selector.unregister(self.executor)
            # Whoever ends a job tells all its processes, and the supervisor may be quicker than we are.
            if self.wake is not None and has_input(self.wake, TOLD_TOGETHER_S):
                self.on_wake(self.wake)
            why = self.memory.ran_out()
            reason = "the supervisor of this machine was killed" + (f": {why}" if why else "")
            self.early = self.early or Outcome(ExitStatus.SITE_FAILED, reason)
            self.carry_out(self.coordination.on_supervisor_exit(now, why))
            return
        for report in reports:
            self.on_report(report, now)

    def on_report(self, report: Report, now: float) -> None:
        if isinstance(report, SiteReport):
            self.on_site_report(report, now)
            return
        name = report.name
        is_build = name not in self.coordination.records
        if isinstance(report, protocol.Unwritable):
            why = explained(OSError(report.number or 0, report.error))
            file = self.folder.path / report.file
            self.early = Outcome(ExitStatus.SITE_FAILED, f"the run folder cannot be written: {file}: {why}")
            self.carry_out(self.coordination.on_site_failure(self.early.reason, now))
        elif isinstance(report, protocol.Bound):
            if report.cpus:
                self.note_bound({name: cpu_text(report.cpus)})
            else:
                self.note_unbound([name], f"{name}: {report.reason}")
        elif name in self.starts.processes:
            self.on_process_report(report)
        elif is_build:
            self.on_build_report(report)
        elif isinstance(report, protocol.Output):
            if not self.coordination.repeats_reason(name, report.text):
                self.watcher.output(name, report.stream, report.text)
            self.coordination.on_output(name, report.stream, report.text)
        else:
            self.changed()
            self.note(report.word, name, **{key: value for key, value in details(report).items() if key != "name"})
            self.carry_out(self.on_process(report, now))

    def on_site_report(self, report: SiteReport, now: float) -> None:
        """Something about a site, or about getting what is needed there."""
        match report:
            case SiteNotice(text, about):
                self.note("site", about=about, text=text)
                self.watcher.notice(str(report), None)
            case SiteFailed(reason, site, gone, inside):
                self.note("site failed", reason=reason, failed_site=site)
                records = [self.coordination.records[name] for name in inside]
                if records and all(record.state in (Lifecycle.DONE, Lifecycle.DIED) for record in records):
                    return  # a job whose time is over while it waits for nothing but the end of the others
                self.carry_out(self.coordination.on_site_failure(reason, now, gone))
            case SiteSuspected():
                self.carry_out(self.coordination.on_site_suspected(now))
            case Acquired():
                self.note("acquired")
            case ResultsLeft() | SiteProgress():
                self.on_last_report(report)
            case LateComing():
                self.note("come")
                if self.coordination.phase is Phase.RUNNING:
                    self.start_all()

    def on_last_report(self, report: LastReport) -> None:
        """What is reported while the run is closed: nothing of it changes what has become of the instances."""
        now = time.monotonic()
        with suppress(SiteError):  # a full disk is told by whoever collects
            if isinstance(report, SiteProgress):
                self.folder.event("site progress", site=report.site, doing=report.doing)
            else:
                about = report.site if isinstance(report, SiteNotice) else ""
                self.folder.event("site", site=self.first_site, about=about, text=report.text)
            self.folder.flush()
        if isinstance(report, ResultsLeft):
            self.left.append(report)
        if not isinstance(report, SiteProgress):
            self.watcher.notice(str(report), None)
            return
        self.sites_progress.update(report.site, report.doing)
        if now >= self.show_progress_at and self.sites_progress:
            self.show_progress_at = now + PROGRESS_SHOWN_EVERY_S
            self.watcher.notice(str(self.sites_progress), None)

    def on_process_report(self, report: protocol.SupervisorReport) -> None:
        """Something about a process that instances share; what it means for them is reported for each."""
        if isinstance(report, protocol.Output):
            self.coordination.on_process_output(report.name, report.stream, report.text)
            self.watcher.output(report.name, report.stream, report.text)
        elif not isinstance(report, protocol.Refused):
            self.note(f"process {report.word}", **details(report))

    def on_process(
        self, report: protocol.Started | protocol.Refused | protocol.Vanished | protocol.Ended, now: float
    ) -> list[policy.Order]:
        name = report.name
        match report:
            case protocol.Started(_, pid, process):
                return self.coordination.on_started(name, pid, now, process)
            case protocol.Refused():
                return self.coordination.on_refused(name, refusal(self.plan.by_name[name], report), now)
            case protocol.Vanished():
                return self.coordination.on_vanished(name, now)
        record = self.coordination.records[name]
        record.cpu_s, record.memory_bytes, record.no_memory = report.cpu_s, report.memory_bytes, report.no_memory
        if name in self.options.debug and self.options.terminal:
            take_terminal_back(self.options.terminal)
        ended = self.coordination.on_ended
        if report.process is not None and report.with_process:
            ended = self.coordination.on_process_ended
        return ended(name, report.status, report.signal, now)

    def on_build_report(self, report: protocol.SupervisorReport) -> None:
        match report:
            case protocol.Output(_, stream, text):
                self.builds.on_output(text, stream)
                if self.builds.is_shown or stream == "stderr":
                    self.show_build(self.builds.current or 1)
            case protocol.Refused(_, error):
                self.builds.on_output(error, "stderr")
                self.builds.on_ended(127, self.folder.path / self.folder.build_log(self.builds.current or 1))
            case protocol.Ended(_, status):
                self.builds.on_ended(status, self.folder.path / self.folder.build_log(self.builds.current or 1))

    def on_native(self) -> None:
        assert self.coordinator is not None
        now = time.monotonic()
        for told in self.coordinator.take_events():
            try:
                event = events.read_event(told, self.source_of(told))
            except ProtocolError as error:
                self.on_breach(events.instance_of(told), error, now)
                continue
            self.changed()
            if (noted := self.notes.details(event, told, now)) is not None:
                self.note(event.word, events.instance_of(told), **noted)
            if self.questions is not None:
                self.questions.on_native(event)
            self.carry_out(self.coordination.on_native(event, now))
            if isinstance(event, events.Joined) and event.instance in self.coordination.records:
                self.executor.watch(event.instance, event.pid)
                self.cores.watch(self.plan.by_name[event.instance].process or event.instance, event.pid, now)
            if self.latecomers is not None:
                self.latecomers.on_native(event)
        self.carry_out(self.coordination.look_for_deadlock(now))

    def on_breach(self, instance: str | None, error: ProtocolError, now: float) -> None:
        """An instance says what nobody understands: somebody may have taken it over. That ends the run in order, unless
        it is a tap, on which nothing depends."""
        self.note("not understood", instance, reason=str(error))
        if instance in self.coordination.taps:
            self.watcher.notice(str(error), None)
        else:
            self.carry_out(self.coordination.on_site_failure(str(error), now))

    def source_of(self, told: Mapping[str, Any]) -> str:
        """Return who has said what the coordinator passes on, for errors."""
        name = events.instance_of(told)
        if name is None or name in self.coordination.taps:
            return name or events.SOURCE
        return f"{name} at {self.site_of.get(name) or self.first_site}"

    def carry_out(self, orders: Sequence[policy.Order]) -> None:
        for order in orders:
            match order:
                case policy.Abort(reason):
                    self.note("stopping", reason=reason)
                    if self.coordinator is not None:
                        self.coordinator.abort(reason)
                case policy.Signal(name, number):
                    self.executor.signal(name, number)
                case policy.Grow(conduit, capacity):
                    assert self.coordinator is not None
                    self.note("grown", conduit=conduit, capacity=capacity)
                    self.coordinator.grow(conduit, capacity)
                case policy.Confirm(name, epoch):
                    assert self.coordinator is not None
                    self.coordinator.confirm(name, epoch)
                case policy.GoOnWithout(name):
                    assert self.coordinator is not None
                    self.coordinator.go_on_without(name)
                case policy.Died(name, reason, goes_on):
                    self.note("died", name, reason=reason)
                    self.watcher.notice(f"it died: {reason}{'; the run goes on without it' if goes_on else ''}", name)
                case policy.Notice(text, name):
                    self.watcher.notice(text, name)

    # --- events on disk ---------------------------------------------------------------------------------------------

    def note(self, what: str, instance: str | None = None, **details: Any) -> None:
        site = self.site_of.get(instance or "", self.first_site)
        self.on_folder(lambda: self.folder.event(what, site=site, instance=instance, **details))

    def on_folder(self, write: Callable[[], None]) -> None:
        """Write to the run's folder; if that fails, the run ends."""
        try:
            write()
        except SiteError as error:
            self.early = Outcome(ExitStatus.SITE_FAILED, str(error))
            self.carry_out(self.coordination.on_site_failure(str(error), time.monotonic()))


def end_of_job(plan: Plan) -> str:
    """Return why the job ends in whose allocation a run is, when it is told to end; empty: it is in none."""
    allocation = next((site.allocation for site in plan.sites if site.allocation is not None), None)
    if allocation is None:
        return ""
    if allocation.ends_at is not None and time.time() > allocation.ends_at - NEAR_THE_LIMIT_S:
        return f"job {allocation.job} has reached its time limit"
    return f"job {allocation.job}, or this process, was told to end before its time limit"
