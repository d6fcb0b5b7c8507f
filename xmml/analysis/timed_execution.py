"""The machine that lets a network go on as fast as messages and places allow, operator by operator.

An operator receives from all its channels at once when each has a message, and sends to all at once when each has a
place. A program that takes one after the other in any order can do no less: what completes here completes there.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from fractions import Fraction

from xmml.analysis.leaving import calling, on_demand
from xmml.analysis.network import Network
from xmml.analysis.operations import Operation
from xmml.analysis.wire_counts import wire_counts

#: Where a process stands: before a run; before the sends, the receives, or the end of the work of an iteration; before
#: the sends that end a run; left.
FINIT, OI, SB, WORK, OF, LEFT = range(6)
#: What a process waits on, if not on a channel: nothing, or a time.
NOTHING, TIME = -1, -2
#: What `step` returns when nothing moves any more.
NOBODY = -2
#: So often an endless source is asked until a message comes through the filters behind it.
MOST_DEMANDS = 10_000


class TimedExecution:
    """Processes and channels as they go on. All times in nanoseconds.

    Attributes:
        pc, iteration, runs: by process, where it stands, iterations completed in this run, runs completed.
        iterations: by process, iterations completed in all runs.
        wire, local: by channel, messages in the conduit, and messages that the receiver's filters hold ready.
        sent, delivered, taken, received: by channel, messages sent, out of the filters, taken from the wire, received.
        cause, last: by process, what its next operator has to wait for, and what the last one had to.
        due: by channel with a travel time, when each message on the wire arrives, with what led to its sending.
    """

    def __init__(
        self,
        network: Network,
        capacities: Sequence[int],
        delays: Sequence[int],
        timed: bool,
        releases: Sequence[int] | None = None,
    ) -> None:
        self.network, self.traced = network, timed
        processes, channels = network.processes, network.channels
        size, width = len(processes), len(channels)
        self.asked = on_demand(network)
        self.capacity, self.delay = list(capacities), list(delays)
        for channel in channels:
            if channel.sender in self.asked:
                self.delay[channel.index] = 0  # is sent before it is asked for
        self.receiver = [channel.receiver for channel in channels]
        self.sender = [channel.sender for channel in channels]
        self.is_asked_for = [channel.sender in self.asked for channel in channels]
        self.filters = [wire_counts(channel.filters) for channel in channels]
        self.is_plain = [filters.is_identity for filters in self.filters]
        self.letting_go = [
            tuple(each for each in p.oi if self.filters[each].before.waits_for_end_of_run) for p in processes
        ]
        self.calling = [calling(network, index) for index in range(size)]
        self.inputs = [process.s + process.b for process in processes]
        self.asks_at_s = [any(self.is_asked_for[each] for each in process.s) for process in processes]
        self.has_loop = [bool(process.oi or process.s or process.b) for process in processes]
        self.work_ns = [
            (round(Fraction(p.runtime_ns, p.steps)) if loops else p.runtime_ns) if timed else 0
            for p, loops in zip(processes, self.has_loop, strict=True)
        ]
        self.now = 0
        self.operations = 0
        self.pc, self.iteration = [FINIT] * size, [0] * size
        self.runs, self.iterations = [0] * size, [0] * size
        self.waits_on = [NOTHING] * size
        self.busy = [0] * size
        self.began: list[int | None] = [None] * size
        self.ended = [0] * size
        self.left = [False] * size
        # Who goes on in this round, and in the following one; when who wakes. An entry of a process that is postponed
        # stays, since to look for it would take time in proportion to all others, but it no longer counts: `is_ready`
        # says whose entry does in this round, `is_queued` in either, and `wake_at` until when one sleeps.
        self.ready: deque[int] = deque()
        self.following: list[int] = []
        self.is_ready, self.is_queued = [False] * size, [False] * size
        self.heap: list[tuple[int, int]] = []
        self.wake_at = [0] * size
        self.wire, self.local = [0] * width, [0] * width
        self.sent, self.delivered = [0] * width, [0] * width
        self.taken, self.received = [0] * width, [0] * width
        # what the filters have counted: like sent, runs and taken, but not advanced when periods are jumped over
        self.fed, self.fed_runs, self.drained = [0] * width, [0] * width, [0] * width
        self.due: list[deque[tuple[int, Operation]]] = [deque() for _ in range(width)]
        self.peak = [0] * width
        self.cause = [Operation(index, index, 0, None) for index in range(size)]
        self.last = list(self.cause)
        self.number = size
        for process in processes:
            if process.index in self.asked:
                continue
            if releases is not None and releases[process.index] > 0:
                self._sleep(process.index, releases[process.index])
            else:
                self.wake(process.index)

    # going on

    def wake(self, index: int) -> None:
        self.waits_on[index] = NOTHING
        if not self.is_queued[index]:
            self.is_queued[index] = True
            self.following.append(index)

    def step(self) -> int:
        """Let one process go on until it waits, works, or completes an iteration or a run.

        Returns:
            the process if it completed an iteration or run, -1 if not, `NOBODY` if nothing moves any more.
        """
        while True:
            while self.ready:
                index = self.ready.popleft()
                if self.is_ready[index]:
                    self.is_ready[index] = self.is_queued[index] = False
                    self.operations += 1
                    return index if self._go(index) else -1
            if not self.following:
                self._wake_the_next()
            if not self.following:
                return NOBODY
            # in a fixed order, since orders that come about by chance seldom come again
            for index in sorted(self.following):
                if self.is_queued[index]:
                    self.is_ready[index] = True
                    self.ready.append(index)
            self.following.clear()

    def _wake_the_next(self) -> None:
        """Go on to the next time at which somebody wakes, and wake all that wake then."""
        is_found = False
        while self.heap and not (is_found and self.heap[0][0] > self.now):
            at, index = heapq.heappop(self.heap)
            if self.waits_on[index] == TIME and self.wake_at[index] == at:
                is_found, self.now = True, at
                self.wake(index)

    def postpone(self, index: int, shift: int) -> None:
        """Let a process that is queued or sleeps go on so much later; any other one waits on."""
        if self.is_queued[index]:
            self.is_queued[index] = self.is_ready[index] = False
            self._sleep(index, self.now + shift)
        elif self.waits_on[index] == TIME:
            self._sleep(index, self.wake_at[index] + shift)

    def _go(self, index: int) -> bool:
        process, pc = self.network.processes[index], self.pc[index]
        if pc == FINIT:
            if not self.calling[index] and self._is_last(index):
                self.leave(index)
                return False
            needed = process.finit if self.runs[index] else self.calling[index]
            if not self._available(index, needed):
                self._may_leave(index)
                return False
            if self.began[index] is None:
                self.began[index] = self.now
            self._take(needed)
            self._acted(index)
            self.iteration[index] = 0
            if not self.has_loop[index]:
                return self._work(index)
            pc = OI
        if pc == OI:
            self.pc[index] = OI
            if not self._has_room(index, process.oi):
                return False
            self._send(index, process.oi)
            self._acted(index)
            pc = SB
        if pc == SB:
            self.pc[index] = SB
            if self.asks_at_s[index] and not self._available(index, process.s):
                return False
            if not self._available(index, self.inputs[index]):
                return False
            self._take(self.inputs[index])
            self._acted(index)
            return self._work(index)
        if pc == WORK:
            return self._worked(index)
        return pc == OF and self._end_run(index)

    def _acted(self, index: int) -> None:
        self.ended[index] = self.now
        self.last[index] = self.cause[index]

    def _work(self, index: int) -> bool:
        duration = self.work_ns[index]
        self.pc[index] = WORK
        if duration == 0:
            return self._worked(index)
        self.busy[index] += duration
        if self.traced:
            self.number += 1
            self.cause[index] = Operation(self.number, index, duration, self.cause[index])
        self._sleep(index, self.now + duration)
        return False

    def _sleep(self, index: int, until: int) -> None:
        self.waits_on[index] = TIME
        self.wake_at[index] = until
        heapq.heappush(self.heap, (until, index))

    def _worked(self, index: int) -> bool:
        self._acted(index)
        if self.has_loop[index]:
            self.iteration[index] += 1
            self.iterations[index] += 1
            if self.iteration[index] < self.network.processes[index].steps:
                self.pc[index] = OI
                self.wake(index)
                return True
        self.pc[index] = OF
        return self._end_run(index)

    def _end_run(self, index: int) -> bool:
        process = self.network.processes[index]
        if not self._has_room(index, process.of):
            return False
        for channel in self.letting_go[index]:
            if self._emits(channel, 0, 1) and not self._is_free(channel):
                self.waits_on[index] = channel
                return False
        self.runs[index] += 1
        self._acted(index)
        self.iteration[index] = 0
        self.pc[index] = FINIT
        for channel in process.of:
            self.fed_runs[channel] += 1
        for channel in process.oi:
            self.fed_runs[channel] += 1
        self._send(index, process.of)
        for channel in self.letting_go[index]:
            self._deliver(channel, self.filters[channel].before.outputs(self.fed[channel], self.fed_runs[channel] - 1))
        if not self.calling[index] and self._is_last(index):
            self.leave(index)
        else:
            self.wake(index)
        return True

    def _is_last(self, index: int) -> bool:
        process = self.network.processes[index]
        fires = 1 if process.is_submodel or process.fires is None or not process.of else process.fires
        return self.runs[index] >= fires

    # receiving

    def _available(self, index: int, channels: Sequence[int]) -> bool:
        """Whether all channels have a message; else notes which one is waited for."""
        asks = False
        for channel in channels:
            if not self._fetch(channel):
                if self.is_asked_for[channel]:
                    asks = True
                else:
                    self._wait_for_message(index, channel)
                    return False
        if asks:
            for channel in channels:
                if not self._has_after_asking(channel):
                    self.waits_on[index] = channel
                    return False
        return True

    def _wait_for_message(self, index: int, channel: int) -> None:
        self.waits_on[index] = channel
        if self.wire[channel] and self.delay[channel]:
            due, cause = self.due[channel][0]
            if self.traced and due > self.now:
                self.cause[index] = self._on_its_way(channel, cause)
            self._sleep(index, due)

    def _on_its_way(self, channel: int, cause: Operation) -> Operation:
        self.number += 1
        return Operation(self.number, -1 - channel, self.delay[channel], cause)

    def _fetch(self, channel: int) -> bool:
        """Whether a message is ready to be received; takes from the wire what the receiver's filters swallow."""
        if self.local[channel]:
            return True
        while self.wire[channel] and (not self.delay[channel] or self.due[channel][0][0] <= self.now):
            if not self.filters[channel].after or self._gain(channel):
                return True
            self._take_from_wire(channel)
        return False

    def _gain(self, channel: int) -> int:
        """Return how many messages the receiver's filters will make of the next one on the wire."""
        filters, drained = self.filters[channel], self.drained[channel]
        return filters.from_wire(drained + 1) - filters.from_wire(drained)

    def _take_from_wire(self, channel: int) -> None:
        self.wire[channel] -= 1
        self.taken[channel] += 1
        if self.filters[channel].after:
            self.local[channel] += self._gain(channel)
            self.drained[channel] += 1
        if self.delay[channel]:
            self.due[channel].popleft()
        sender = self.sender[channel]
        if self.waits_on[sender] == channel:
            self.cause[sender] = self.cause[self.receiver[channel]]
            self.wake(sender)

    def _take(self, channels: Sequence[int]) -> None:
        for channel in channels:
            self.received[channel] += 1
            if not self.local[channel]:
                self._take_from_wire(channel)
            if self.filters[channel].after:
                self.local[channel] -= 1

    # sending

    def _emits(self, channel: int, sends: int, runs: int) -> int:
        """Return how many messages would come onto the wire with so many more sends and ended runs."""
        if self.is_plain[channel]:
            return sends
        before, fed, ended = self.filters[channel].before, self.fed[channel], self.fed_runs[channel]
        return before.outputs(fed + sends, ended + runs) - before.outputs(fed, ended)

    def _is_free(self, channel: int) -> bool:
        return self.wire[channel] < self.capacity[channel] or self.left[self.receiver[channel]]

    def _has_room(self, index: int, channels: Sequence[int]) -> bool:
        for channel in channels:
            if not self._is_free(channel) and self._emits(channel, 1, self.pc[index] == OF):
                self.waits_on[index] = channel
                return False
        return True

    def _send(self, index: int, channels: Sequence[int]) -> None:
        for channel in channels:
            self.sent[channel] += 1
            self.fed[channel] += 1
            if self.is_plain[channel]:
                self._put(channel, 1)
                self.delivered[channel] += 1
            else:
                ended = self.fed_runs[channel] - (self.pc[index] == FINIT)  # what ends a run is sent when it has ended
                self._deliver(channel, self.filters[channel].before.outputs(self.fed[channel] - 1, ended))

    def _deliver(self, channel: int, before: int) -> None:
        """Put onto the wire what has come out of the sender's filters since `before`."""
        filters = self.filters[channel]
        new = filters.before.outputs(self.fed[channel], self.fed_runs[channel]) - before
        if not new:
            return
        on_wire = self.drained[channel] + self.wire[channel]
        self.delivered[channel] += filters.from_wire(on_wire + new) - filters.from_wire(on_wire)
        self._put(channel, new)

    def _put(self, channel: int, count: int) -> None:
        receiver = self.receiver[channel]
        if self.left[receiver]:
            if self.filters[channel].after:
                self.drained[channel] += count  # dropped, but the filters have counted it
            return
        self.wire[channel] += count
        self.peak[channel] = max(self.peak[channel], self.wire[channel])
        if self.delay[channel]:
            cause = self.cause[self.sender[channel]]
            self.due[channel].extend([(self.now + self.delay[channel], cause)] * count)
        if self.waits_on[receiver] == channel:
            if self.delay[channel]:
                self._wait_for_message(receiver, channel)
            else:
                if not self.is_asked_for[channel]:
                    self.cause[receiver] = self.cause[self.sender[channel]]
                self.wake(receiver)

    # endless sources

    def _has_after_asking(self, channel: int) -> bool:
        """Let an endless source, and the mappers between, send until a message comes through all filters."""
        stack, demands, asking = [channel], 0, self.receiver[channel]
        while stack:
            channel = stack[-1]
            if self._fetch(channel):
                stack.pop()
                continue
            sender, filters = self.sender[channel], self.network.channels[channel].filters
            fed, runs = self.fed[channel], self.fed_runs[channel]
            if filters.outputs(fed + MOST_DEMANDS, runs + MOST_DEMANDS) == filters.outputs(fed, runs):
                return False
            finit = self.network.processes[sender].finit
            open_inputs = [each for each in finit if not self._fetch(each)]
            if open_inputs:
                stack.append(open_inputs[0])
            elif demands == MOST_DEMANDS:
                return False
            else:
                demands += 1
                self.cause[sender] = self.cause[asking]
                self._fire(sender)
        return True

    def _fire(self, index: int) -> None:
        process = self.network.processes[index]
        if self.began[index] is None:
            self.began[index] = self.now
        self._take(process.finit)
        self.operations += 1
        self.runs[index] += 1
        self._acted(index)
        self.busy[index] += self.work_ns[index]
        for channel in process.of:
            self.fed_runs[channel] += 1
        self._send(index, process.of)

    # leaving

    def leave(self, index: int) -> None:
        """Let a process leave: who waits for a place is free, who waits for its messages may leave, too."""
        todo = [index]
        while todo:
            index = todo.pop()
            if self.left[index]:
                continue
            self.left[index] = True
            self.pc[index] = LEFT
            process = self.network.processes[index]
            for channel in process.inputs:
                self.drained[channel] += self.wire[channel]
                self.wire[channel] = self.local[channel] = 0
                self.due[channel].clear()
                sender = self.sender[channel]
                if self.waits_on[sender] == channel:
                    self.cause[sender] = self.cause[index]
                    self.wake(sender)
            for channel in process.outputs:
                receiver = self.receiver[channel]
                if self.waits_on[receiver] >= 0 and self.pc[receiver] == FINIT and self._is_over(receiver):
                    self.cause[receiver] = self.cause[index]
                    todo.append(receiver)

    def _may_leave(self, index: int) -> None:
        if self._is_over(index):
            self.leave(index)

    def _is_over(self, index: int) -> bool:
        """Whether a process that waits for another run (or firing) will never make one."""
        channels = self.calling[index]
        ended = [
            self.left[self.sender[channel]] and not self.wire[channel] and not self.local[channel]
            for channel in channels
        ]
        return bool(ended) and (all(ended) if self.network.processes[index].is_submodel else any(ended))
