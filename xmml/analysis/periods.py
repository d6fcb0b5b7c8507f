"""Periods of a timed execution: equal states, and jumping over what repeats between them.

A network whose operators take fixed times is a timed event graph and becomes periodic after a transient (Baccelli,
Cohen, Olsder and Quadrat, "Synchronization and Linearity", 1992, chapter 3). Everything that decides how a group of
processes goes on is written down, relative to the clock and without the counters of its loops. If the same comes again
and the group exchanged nothing with others meanwhile, it will go on like this until the first of its loops ends.
"""

from __future__ import annotations

from collections import deque

from xmml.analysis.loop_groups import LoopGroup, loop_groups
from xmml.analysis.operations import Operation, Repetition
from xmml.analysis.timed_execution import TIME, TimedExecution
from xmml.late_dataclass import dataclass

#: States of one group that look the same and are kept.
MOST_ALIKE = 4
#: Numbers that all kept states may have together.
MOST_KEPT = 3_000_000
#: A group that did not repeat itself so often is looked at in every eighth stretch of the same length only.
STRETCH = 512
#: So many times the effort of going on may be spent on writing states down.
EFFORT = 6


@dataclass(frozen=True)
class Period:
    """A loop that was found to repeat itself.

    Attributes:
        owners: processes whose iterations make up the loop; none if sources drive it.
        reference: the process whose iterations (firings, if there are no owners) are counted.
        iterations: how many the reference makes in a period.
        duration_ns: how long the period takes.
    """

    owners: tuple[int, ...]
    reference: int
    iterations: int
    duration_ns: int

    @property
    def turn_ns(self) -> float:
        """How long one iteration takes on average: the cycle time of the slowest cycle in the loop."""
        return self.duration_ns / self.iterations


@dataclass(frozen=True)
class _State:
    """The counters of a group at some moment.

    Attributes:
        counters: by process, iteration, runs, iterations in all runs, and time at work.
        traffic: by channel inside, sent, delivered, taken and received.
        exchanged: messages sent to others and received from others, so far.
    """

    now: int
    number: int
    counters: list[tuple[int, int, int, int]]
    traffic: list[tuple[int, int, int, int]]
    exchanged: int
    causes: tuple[Operation, ...]


class Periods:
    """Watches an execution for equal states of its loops, and jumps."""

    def __init__(self, execution: TimedExecution) -> None:
        self.execution = execution
        self.found: dict[LoopGroup, Period] = {}
        self.watched: dict[int, list[LoopGroup]] = {}
        self.kept: dict[LoopGroup, dict[object, deque[_State]]] = {}
        self.size = 0
        self.effort = 0
        self.members: dict[LoopGroup, frozenset[int]] = {}
        self.missed: dict[LoopGroup, int] = {}
        for group in loop_groups(execution.network):
            self.watched.setdefault(group.reference, []).append(group)
            self.kept[group], self.missed[group] = {}, 0
            self.members[group] = frozenset(group.processes)

    def completed(self, process: int) -> None:
        """Look for a period after a process has completed an iteration or run."""
        for group in self.watched.get(process, ()):
            cost = 2 * len(group.processes) + 3 * len(group.inside)
            missed = self.missed[group] = self.missed[group] + 1
            if missed // STRETCH % 8 == 0 and self.effort <= EFFORT * self.execution.operations + 50 * cost:
                self.effort += cost
                self._look(group, cost)

    def _look(self, group: LoopGroup, cost: int) -> None:
        key, state = self._key(group), self._state(group)
        alike = self.kept[group].get(key)
        if alike is None:
            self.size += cost
            alike = self.kept[group][key] = deque(maxlen=MOST_ALIKE)
            self._forget(group)
        else:
            for earlier in reversed(alike):
                count = self._repeats(group, earlier, state)
                if count is not None:
                    self.missed[group] = 0
                    self._note(group, earlier, state)
                if count:
                    self._jump(group, earlier, state, count)
                    return
        alike.append(state)

    def _forget(self, group: LoopGroup) -> None:
        while self.size * MOST_ALIKE > MOST_KEPT and len(self.kept[group]) > MOST_ALIKE:
            del self.kept[group][next(iter(self.kept[group]))]
            self.size -= 2 * len(group.processes) + 3 * len(group.inside)

    def _key(self, group: LoopGroup) -> object:
        run = self.execution
        now, pc, waits_on, wake_at, runs = run.now, run.pc, run.waits_on, run.wake_at, run.runs
        queued = tuple((run.is_ready[index], run.is_queued[index]) for index in group.processes)
        processes = tuple(
            (pc[index], waits_on[index], wake_at[index] - now if waits_on[index] == TIME else 0, runs[index] == 0)
            for index in group.processes
        )
        channels = []
        for channel in group.inside:
            channels.append(run.wire[channel])
            if run.due[channel]:
                channels += [max(0, due - now) for due, _ in run.due[channel]]
            if not run.is_plain[channel]:
                channels.append(run.local[channel])
                channels += run.filters[channel].state(run.fed[channel], run.fed_runs[channel], run.drained[channel])
        return queued, processes, tuple(channels)

    def _state(self, group: LoopGroup) -> _State:
        run = self.execution
        causes: tuple[Operation, ...] = ()
        if run.traced:
            on_the_way = [cause for channel in group.inside for _, cause in run.due[channel]]
            of_processes = [each for index in group.processes for each in (run.cause[index], run.last[index])]
            causes = (*of_processes, *on_the_way)
        return _State(
            now=run.now,
            number=run.number,
            counters=[(run.iteration[i], run.runs[i], run.iterations[i], run.busy[i]) for i in group.processes],
            traffic=[(run.sent[c], run.delivered[c], run.taken[c], run.received[c]) for c in group.inside],
            exchanged=sum(run.sent[c] for c in group.leaving)
            + sum(run.taken[c] + run.received[c] for c in group.entering),
            causes=causes,
        )

    def _repeats(self, group: LoopGroup, earlier: _State, later: _State) -> int | None:
        """Return how many more times what happened between two equal states surely happens; `None` if it may not."""
        run = self.execution
        if earlier.exchanged != later.exchanged:
            return None
        most: int | None = None
        for place, index in enumerate(group.processes):
            iteration, runs, *_ = earlier.counters[place]
            now_iteration, now_runs, *_ = later.counters[place]
            process = run.network.processes[index]
            if now_runs == runs:
                if now_iteration == iteration:
                    continue
                left = (process.steps - 1 - now_iteration) // (now_iteration - iteration)
            elif now_iteration != iteration:
                return None
            elif process.is_source and index not in run.asked:
                left = ((process.fires or 1) - 1 - now_runs) // (now_runs - runs)
            else:
                continue
            most = left if most is None else min(most, left)
        if most is None:
            return None
        members = self.members[group]
        for index in group.processes:
            channel = run.waits_on[index]
            if channel >= 0 and not (run.sender[channel] in members and run.receiver[channel] in members):
                return None
        return max(0, most)

    def _jump(self, group: LoopGroup, earlier: _State, later: _State, count: int) -> None:
        run = self.execution
        shift = count * (later.now - earlier.now)
        for place, index in enumerate(group.processes):
            iteration, runs, iterations, busy = earlier.counters[place]
            if (run.runs[index], run.iterations[index]) != (runs, iterations):
                run.ended[index] += shift
            if run.runs[index] == runs:
                run.iteration[index] += count * (run.iteration[index] - iteration)
            run.runs[index] += count * (run.runs[index] - runs)
            run.iterations[index] += count * (run.iterations[index] - iterations)
            run.busy[index] += count * (run.busy[index] - busy)
        for place, channel in enumerate(group.inside):
            sent, delivered, taken, received = earlier.traffic[place]
            if run.filters[channel].before.waits_for_end_of_run:
                at = group.processes.index(run.sender[channel])
                if later.counters[at][1] == earlier.counters[at][1]:
                    # in the same run: how many it sent in it still counts
                    run.fed[channel] += count * (run.sent[channel] - sent)
            run.sent[channel] += count * (run.sent[channel] - sent)
            run.delivered[channel] += count * (run.delivered[channel] - delivered)
            run.taken[channel] += count * (run.taken[channel] - taken)
            run.received[channel] += count * (run.received[channel] - received)
        self._shift(group, shift)
        if run.traced:
            self._trace(group, earlier, later, count)

    def _shift(self, group: LoopGroup, shift: int) -> None:
        """Let the group go on so much later than now."""
        run = self.execution
        if shift == 0:
            return
        for index in group.processes:
            run.postpone(index, shift)
        for channel in group.inside:
            if run.due[channel]:
                run.due[channel] = deque((due + shift, cause) for due, cause in run.due[channel])

    def _trace(self, group: LoopGroup, earlier: _State, later: _State, count: int) -> None:
        run = self.execution
        repetition = Repetition(earlier.causes, later.causes, earlier.number, count)
        element = 0

        def cause() -> Operation:
            nonlocal element
            run.number += 1
            element += 1
            return Operation(run.number, -1, 0, None, repetition, element - 1)

        for index in group.processes:
            run.cause[index] = cause()
            run.last[index] = cause()
        for channel in group.inside:
            if run.due[channel]:
                run.due[channel] = deque((due, cause()) for due, _ in run.due[channel])

    def _note(self, group: LoopGroup, earlier: _State, later: _State) -> None:
        place = group.processes.index(group.reference)
        counter = 2 if group.owners else 1
        iterations = later.counters[place][counter] - earlier.counters[place][counter]
        period = Period(group.owners, group.reference, iterations, later.now - earlier.now)
        before = self.found.get(group)
        if iterations and (
            before is None or period.duration_ns * before.iterations > before.duration_ns * period.iterations
        ):
            self.found[group] = period
