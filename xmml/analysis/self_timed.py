"""What happens when everything happens as soon as it can: an exact simulation that need not walk through every step.

Every operation begins when its process is free, the messages that it takes have come and the conduits that it sends to
have room; so its time is a maximum of sums of earlier times, and the network is a linear system in the max-plus algebra
(Baccelli, Cohen, Olsder, Quadrat, "Synchronization and Linearity", 1992). With finite capacities such a system becomes
periodic. The simulation notices when the network is in the same state again, but for the number of steps that were
made, and goes on as many whole periods later as no loop ends before; inner loops become periodic first, those around
them later. So 10^9 steps cost no more than the transient.

All receives of an operator are carried out together, when the last message has come, and all sends of an operator
together, when there is room for all: that is the most any program can wait that keeps the order of operators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from xmml.analysis.final_state import FinalState, Stop
from xmml.analysis.leaving import calling, leaving, on_demand
from xmml.analysis.network import Network
from xmml.analysis.operations import History, Operation
from xmml.analysis.wire import wires
from xmml.model import Operator

#: Operations that are carried out before the simulation gives up looking for a period.
EVENT_LIMIT = 2_000_000
#: States that are alike but for the loop counters, of which one may be the one before an outer loop came round.
_ALIKE = 16
#: Numbers in all states that are remembered; beyond, they are forgotten.
_STATE_ENTRIES = 2_000_000
#: Comparing a larger state costs as much as so many operations: many instances, or messages that pile up.
_SMALL_STATE, _STATE_ENTRIES_PER_EVENT = 500, 32

#: What a process does next.
FINIT, OI, SB, OF = range(4)
_OPERATORS: tuple[Operator, ...] = ("finit", "Oi", "S", "Of")


@dataclass(frozen=True)
class SelfTimed:
    """What the simulation gave.

    Attributes:
        final: where everything stood in the end; the numbers are exact if `is_complete`.
        is_complete: the simulation came to the end; else it gave up at the limit, and everything is as it was then.
        end_ns: by process, when it was done with its last operation.
        begin_ns: by process, when its first run (firing) began; -1 if none did.
        busy_ns: by process, how long it computed.
        peak: by channel, the most messages on the wire at a time.
        full: channels that had no room for somebody who waits, when nothing moved any more.
        period_ns: one turn of the last periodic regime that was found; `None` if none was.
        history: what was carried out, for the critical path.
        events: the work it took: operations carried out, and as many more as looking for periods cost.
    """

    final: FinalState
    is_complete: bool
    end_ns: tuple[int, ...]
    begin_ns: tuple[int, ...]
    busy_ns: tuple[int, ...]
    peak: tuple[int, ...]
    full: tuple[int, ...]
    period_ns: int | None
    history: History
    events: int

    @property
    def makespan_ns(self) -> int:
        """When the last process was done."""
        return max(self.end_ns, default=0)


def simulate(
    network: Network,
    capacities: Sequence[int],
    *,
    delays_ns: Sequence[int] | None = None,
    timed: bool = True,
    event_limit: int = EVENT_LIMIT,
) -> SelfTimed:
    """Carry out a network with finite capacities.

    Args:
        capacities: by channel, messages that may be on the wire.
        delays_ns: by channel, how long a message is on its way; by default no time.
        timed: whether computing takes the time that the model says; else none.
        event_limit: operations after which to give up.
    """
    return _Simulation(network, capacities, delays_ns, timed).go(event_limit)


class _Simulation:
    """Clocks, counters and queues of a network."""

    def __init__(
        self, network: Network, capacities: Sequence[int], delays_ns: Sequence[int] | None, timed: bool
    ) -> None:
        self.network = network
        processes, channels = network.processes, network.channels
        self.asked = on_demand(network)
        self.wires = wires(network)
        self.capacity = list(capacities)
        self.delay = list(delays_ns) if delays_ns is not None else [0] * len(channels)
        self.steps = [process.steps for process in processes]
        self.is_called = [bool(calling(network, process.index)) for process in processes]
        self.groups = [_operations(network, process.index) for process in processes]
        self.cost = [0] * len(processes)
        self.once = [0] * len(processes)  # what a run without inner ports, or a firing, costs in one piece
        if timed:
            for process in processes:
                if process.is_submodel and (process.oi or process.s or process.b):
                    self.cost[process.index] = round(Fraction(process.runtime_ns, process.steps))
                else:
                    self.once[process.index] = process.runtime_ns
        self.has_loop = [process.is_submodel and bool(process.oi or process.s or process.b) for process in processes]
        # processes
        self.at = [OF if process.is_source else FINIT for process in processes]
        self.run = [0] * len(processes)
        self.iteration = [0] * len(processes)
        self.clock = [0] * len(processes)
        self.busy = [0] * len(processes)
        self.begin = [-1] * len(processes)
        self.end = [0] * len(processes)
        self.done = [False] * len(processes)
        self.left = [False] * len(processes)
        self.left_at = [0] * len(processes)
        self.last = [-1] * len(processes)  # its latest operation in the history
        self.held_by = [-1] * len(processes)  # the operation that its clock goes back to
        self.blocked_on = [-1] * len(processes)  # the channel that keeps it, as far as one does
        # channels: (time, operation) of messages that came and were not taken, and of room that became free
        self.queue: list[deque[tuple[int, int]]] = [deque() for _ in channels]
        self.freed: list[deque[tuple[int, int]]] = [deque(maxlen=max(1, each)) for each in self.capacity]
        self.sent = [0] * len(channels)
        self.delivered = [0] * len(channels)
        self.taken = [0] * len(channels)
        self.wire_sent = [0] * len(channels)
        self.wire_taken = [0] * len(channels)
        self.peak = [0] * len(channels)
        self.open_sends: list[deque[tuple[int, int]]] = [
            deque() for _ in channels
        ]  # (time, number), not yet in the peak
        self.is_supplied = [channel.sender in self.asked for channel in channels]
        self.supply = [
            _supply(network, channel.index) if self.is_supplied[channel.index] else 0 for channel in channels
        ]
        self.history = History()
        self.events = 0
        self.period_ns: int | None = None
        self.seen: dict[tuple[int, ...], deque[_Snapshot]] = {}
        self.state_entries = 0

    # the walk

    def go(self, event_limit: int) -> SelfTimed:
        """Go on until nothing moves, or the limit is reached."""
        ready = [process.index for process in self.network.processes if process.index not in self.asked]
        is_complete = True
        while ready:
            ready = self.round(ready)
            if not ready:
                ready = self.let_leave()
            elif self.events > event_limit:
                is_complete = False
                break
            else:
                self.jump_if_periodic(ready)
        for channel in range(len(self.queue)):
            self.close_peak(channel)
        self.supply_on_demand()
        final, full = self.final()
        return SelfTimed(
            final=final,
            is_complete=is_complete,
            end_ns=tuple(self.end),
            begin_ns=tuple(self.begin),
            busy_ns=tuple(self.busy),
            peak=tuple(self.peak),
            full=full,
            period_ns=self.period_ns,
            history=self.history,
            events=self.events,
        )

    def round(self, ready: list[int]) -> list[int]:
        """Let each of the processes make at most one iteration (or run); returns who may go on."""
        following: set[int] = set()
        for index in ready:
            moved, blocked = False, False
            while not blocked:
                before = (self.run[index], self.iteration[index])
                blocked = not self.operate(index, following)
                moved = moved or not blocked
                if not blocked and (self.run[index], self.iteration[index]) != before:
                    break
            if not blocked and not self.done[index]:
                following.add(index)
        return sorted(following)

    def operate(self, index: int, woken: set[int]) -> bool:
        """Carry out the next operation of a process; false if it has to wait."""
        if self.done[index] or self.left[index]:
            return False
        at = self.at[index]
        if at in (FINIT, SB):
            return self.receive(index, at, woken)
        return self.send(index, at, woken)

    def receive(self, index: int, at: int, woken: set[int]) -> bool:
        channels = self.groups[index][at]
        if at == FINIT and self.run[index] == 0:
            channels = self.groups[index][4]
        time, cause = self.clock[index], self.held_by[index]
        for channel in channels:
            if self.is_supplied[channel]:
                if self.taken[channel] >= self.supply[channel]:
                    self.blocked_on[index] = channel
                    return False
                continue
            if not self.queue[channel]:
                self.blocked_on[index] = channel
                return False
            came, by = self.queue[channel][0]
            if came > time:
                time, cause = came, by
        process = self.network.processes[index]
        if at == FINIT and self.begin[index] < 0:
            self.begin[index] = time
        cost = self.cost[index] if at == SB else 0
        if at == FINIT and not self.has_loop[index]:
            cost = self.once[index]
        operation = self.record(index, at, time, cost, cause)
        for channel in channels:
            self.taken[channel] += 1
            if self.is_supplied[channel]:
                continue
            self.queue[channel].popleft()
            self.free(channel, time, operation, woken)
        if at == SB:
            self.iteration[index] += 1
            self.at[index] = OI if self.iteration[index] < self.steps[index] else OF
        else:
            self.at[index] = OI if self.has_loop[index] else OF
            if not process.is_submodel and not process.of:
                self.finish_run(index, woken)
        return True

    def send(self, index: int, at: int, woken: set[int]) -> bool:
        channels = self.groups[index][at]
        ends_run = at == OF
        time, cause = self.clock[index], self.held_by[index]
        for channel in channels:
            new = self.new_on_wire(channel, ends_run, 1)
            time, cause, has_room = self.room(channel, new, time, cause)
            if not has_room:
                self.blocked_on[index] = channel
                return False
        letting_go = self.groups[index][5] if ends_run else ()
        for channel in letting_go:
            new = self.new_on_wire(channel, True, 0)
            time, cause, has_room = self.room(channel, new, time, cause)
            if not has_room:
                self.blocked_on[index] = channel
                return False
        process = self.network.processes[index]
        if ends_run and process.is_source:
            if self.begin[index] < 0:
                self.begin[index] = time
            operation = self.record(index, at, time, self.once[index], cause)
            time += self.once[index]
        else:
            operation = self.record(index, at, time, 0, cause)
        for channel in channels:
            self.sent[channel] += 1
            self.deliver(channel, time, operation, ends_run, woken)
        for channel in letting_go:
            self.deliver(channel, time, operation, True, woken)
        if at == OI:
            self.at[index] = SB
        else:
            self.finish_run(index, woken)
        return True

    def finish_run(self, index: int, woken: set[int]) -> None:
        process = self.network.processes[index]
        self.run[index] += 1
        self.iteration[index] = 0
        self.at[index] = FINIT
        if process.is_source:
            self.at[index] = OF
            fires = process.fires if process.fires is not None and process.of else 1
            self.done[index] = self.run[index] >= fires
        elif not self.is_called[index]:
            self.done[index] = True
        if self.done[index]:
            self.leave(index, self.clock[index], woken)

    def leave(self, index: int, time: int, woken: set[int]) -> None:
        """Let a process leave: what is on its way to it no longer counts, and nobody waits for room any more."""
        self.left[index], self.left_at[index] = True, time
        for channel in self.network.processes[index].inputs:
            self.close_peak(channel)
            sender = self.network.channels[channel].sender
            if self.blocked_on[sender] == channel:
                self.blocked_on[sender] = -1
                woken.add(sender)

    def record(self, index: int, at: int, time: int, cost: int, cause: int) -> int:
        """Note an operation, and set the clock of its process to its end."""
        self.events += 1
        self.clock[index] = self.end[index] = time + cost
        self.busy[index] += cost
        self.last[index] = self.held_by[index] = self.history.add(Operation(index, at, time, time + cost, cause))
        return self.last[index]

    def wake(self, index: int, time: int, operation: int, woken: set[int]) -> None:
        """Let a process try again what it was kept from until then."""
        self.blocked_on[index] = -1
        if time > self.clock[index]:
            self.clock[index], self.held_by[index] = time, operation
        woken.add(index)

    # channels

    def new_on_wire(self, channel: int, ends_run: bool, sends: int) -> int:
        """Return how many messages a send, or the end of a run, puts on the wire."""
        wire = self.wires[channel]
        if wire is None:
            return sends
        runs = self.run[self.network.channels[channel].sender] + ends_run
        return wire.put(self.sent[channel] + sends, runs) - self.wire_sent[channel]

    def room(self, channel: int, new: int, time: int, cause: int) -> tuple[int, int, bool]:
        """Return when there is room for new messages, what made it, and whether there is any."""
        if not new:
            return time, cause, True
        needed = self.wire_sent[channel] + new - self.capacity[channel]
        if needed <= 0:
            return time, cause, True
        receiver = self.network.channels[channel].receiver
        if self.left[receiver]:
            if self.left_at[receiver] > time:
                return self.left_at[receiver], self.last[receiver], True
            return time, cause, True
        taken = self.wire_taken[channel]
        if needed > taken or new > self.capacity[channel]:
            return time, cause, False
        place = len(self.freed[channel]) - (taken - needed) - 1
        if place < 0:
            return time, cause, True  # so long ago that a jump did not keep it
        when, by = self.freed[channel][place]
        return (when, by, True) if when > time else (time, cause, True)

    def deliver(self, channel: int, time: int, operation: int, ends_run: bool, woken: set[int]) -> None:
        """Put what the sender's filters give on the wire, and what the receiver's give into its queue."""
        one = self.network.channels[channel]
        wire = self.wires[channel]
        runs = self.run[one.sender] + ends_run
        put = self.sent[channel] if wire is None else wire.put(self.sent[channel], runs)
        come = self.sent[channel] if wire is None else one.filters.outputs(self.sent[channel], runs)
        if not self.left[one.receiver]:
            for number in range(self.wire_sent[channel], put):
                self.open_sends[channel].append((time, number))
            arrives = time + self.delay[channel]
            self.queue[channel].extend([(arrives, operation)] * (come - self.delivered[channel]))
            if come > self.delivered[channel] and self.blocked_on[one.receiver] == channel:
                self.wake(one.receiver, arrives, operation, woken)
        self.wire_sent[channel] = put
        self.delivered[channel] = come

    def free(self, channel: int, time: int, operation: int, woken: set[int]) -> None:
        """Note that the receiver took a message: what it took off the wire for that makes room."""
        wire = self.wires[channel]
        off = self.taken[channel] if wire is None else wire.off(self.taken[channel], self.wire_taken[channel])
        for number in range(self.wire_taken[channel], off):
            self.freed[channel].append((time, operation))
            sends = self.open_sends[channel]
            while sends and (sends[0][0] < time or sends[0][1] <= number):
                self.peak[channel] = max(self.peak[channel], sends.popleft()[1] + 1 - number)
        if off > self.wire_taken[channel]:
            self.wire_taken[channel] = off
            sender = self.network.channels[channel].sender
            if self.blocked_on[sender] == channel:
                self.wake(sender, time, operation, woken)

    def close_peak(self, channel: int) -> None:
        """Count in the peak what was sent and not taken."""
        for _, number in self.open_sends[channel]:
            self.peak[channel] = max(self.peak[channel], number + 1 - self.wire_taken[channel])
        self.open_sends[channel].clear()

    # the end

    def let_leave(self) -> list[int]:
        """Let leave whom nobody sends to any more; returns whose way that makes free."""
        waiting = [len(queue) for queue in self.queue]
        before_run = [
            self.at[process.index] == FINIT or process.index in self.asked for process in self.network.processes
        ]
        left = leaving(self.network, self.done, before_run, waiting, self.asked)
        free: set[int] = set()
        for index, is_left in enumerate(left):
            if not is_left or self.left[index]:
                continue
            process = self.network.processes[index]
            senders = [self.network.channels[channel].sender for channel in process.finit]
            gone = [self.left_at[sender] for sender in senders if left[sender]]
            self.leave(index, max([self.clock[index], *gone]), free)
        return sorted(free)

    def supply_on_demand(self) -> None:
        """Count what those sent who send what is asked for: as much as was taken."""
        order = sorted(self.asked)
        settled: set[int] = set()
        while len(settled) < len(order):
            for index in order:
                process = self.network.processes[index]
                receivers = {self.network.channels[channel].receiver for channel in process.outputs}
                if index in settled or any(each in self.asked and each not in settled for each in receivers):
                    continue
                settled.add(index)
                for channel in process.outputs:
                    runs = _inputs_for(self.network, channel, self.taken[channel])
                    self.run[index] = max(self.run[index], runs)
                for channel in process.outputs:
                    self.sent[channel] = self.run[index]
                    self.delivered[channel] = self.network.channels[channel].filters.outputs(
                        self.run[index], self.run[index]
                    )
                for channel in process.inputs:
                    self.taken[channel] = self.run[index]

    def final(self) -> tuple[FinalState, tuple[int, ...]]:
        """Return where everything stands, and the channels without room for somebody who waits."""
        stops, full = [], []
        received = list(self.taken)
        for process in self.network.processes:
            index, at = process.index, self.at[process.index]
            missing: tuple[int, ...] = ()
            if not self.done[index] and self.blocked_on[index] >= 0:
                if at in (FINIT, SB):
                    group = self.groups[index][4] if at == FINIT and not self.run[index] else self.groups[index][at]
                    missing = tuple(
                        channel
                        for channel in group
                        if not (
                            self.taken[channel] < self.supply[channel]
                            if self.is_supplied[channel]
                            else self.queue[channel]
                        )
                    )
                elif not self.left[index]:
                    full.append(self.blocked_on[index])
            operator: Operator | None = _OPERATORS[at] if process.is_submodel else None
            if operator == "S" and missing and all(channel in process.b for channel in missing):
                operator = "B"  # what came for S is taken
                for channel in process.s:
                    received[channel] += 1
            stops.append(
                Stop(
                    process=index,
                    finished=self.left[index],
                    started=self.begin[index] >= 0 or self.run[index] > 0,
                    runs=self.run[index],
                    run=self.run[index],
                    iteration=self.iteration[index],
                    operator=operator,
                    missing=missing,
                )
            )
        state = FinalState(tuple(stops), tuple(self.sent), tuple(self.delivered), tuple(received))
        return state, tuple(sorted(set(full)))

    # periods

    def jump_if_periodic(self, ready: Sequence[int]) -> None:
        """If the network was in this state before, go on as many periods later as no loop ends before."""
        now = _Snapshot.of(self, ready)
        self.events += max(0, now.size - _SMALL_STATE) // _STATE_ENTRIES_PER_EVENT
        alike = self.seen.setdefault(now.key, deque(maxlen=_ALIKE))
        for before in reversed(alike):
            if self.jump(before, now):
                return
        alike.append(now)
        self.state_entries += now.size
        if self.state_entries > _STATE_ENTRIES:
            self.seen.clear()
            self.state_entries = 0

    def jump(self, before: _Snapshot, now: _Snapshot) -> bool:
        """Repeat what happened between two equal states as often as possible; false if that is not even once."""
        times: int | None = None
        for index in range(len(now.runs)):
            more_runs = now.runs[index] - before.runs[index]
            more_steps = now.iterations[index] - before.iterations[index]
            if more_runs and more_steps:
                return False
            if more_steps:
                limit = (self.steps[index] - 1 - now.iterations[index]) // more_steps
                times = limit if times is None else min(times, limit)
            process = self.network.processes[index]
            if more_runs and process.is_source and process.fires is not None:
                limit = (process.fires - 1 - now.runs[index]) // more_runs
                times = limit if times is None else min(times, limit)
            if more_runs and not before.runs[index] and self.groups[index][4] != self.groups[index][FINIT]:
                return False  # the first run does without its state
        if times is None or times <= 0:
            return False
        elapsed = now.base - before.base
        self.period_ns = elapsed
        shift = elapsed * times
        moved = {
            index
            for index in range(len(now.runs))
            if now.runs[index] != before.runs[index] or now.iterations[index] != before.iterations[index]
        }
        for index in range(len(now.runs)):
            self.run[index] += (now.runs[index] - before.runs[index]) * times
            self.iteration[index] += (now.iterations[index] - before.iterations[index]) * times
            self.busy[index] += (now.busy[index] - before.busy[index]) * times
            if index in moved or now.clocks[index] != before.clocks[index]:
                self.clock[index] += shift
                self.end[index] += shift
        for channel in range(len(self.sent)):
            more = (now.sent[channel] - before.sent[channel]) * times
            if not more and now.taken[channel] == before.taken[channel]:
                continue
            wire = (now.wire_sent[channel] - before.wire_sent[channel]) * times
            self.sent[channel] += more
            self.delivered[channel] += (now.delivered[channel] - before.delivered[channel]) * times
            self.taken[channel] += (now.taken[channel] - before.taken[channel]) * times
            self.wire_sent[channel] += wire
            self.wire_taken[channel] += (now.wire_taken[channel] - before.wire_taken[channel]) * times
            self.queue[channel] = deque((time + shift, by) for time, by in self.queue[channel])
            self.freed[channel] = deque(
                ((time + shift, by) for time, by in self.freed[channel]), maxlen=self.freed[channel].maxlen
            )
            self.open_sends[channel] = deque((time + shift, number + wire) for time, number in self.open_sends[channel])
        self.history.repeat(before.operations, now.operations, times, shift, before.tokens, now.tokens)
        return True


@dataclass(frozen=True)
class _Snapshot:
    """The state of a network between two rounds.

    Attributes:
        key: what decides how it goes on, as long as no loop ends.
        iterations, runs, ...: the counters.
        base: the time from which on everything that follows happens.
        operations: how many were carried out.
        tokens: the operations that clocks, waiting messages and free room go back to.
    """

    key: tuple[int, ...]
    iterations: tuple[int, ...]
    runs: tuple[int, ...]
    clocks: tuple[int, ...]
    busy: tuple[int, ...]
    sent: tuple[int, ...]
    delivered: tuple[int, ...]
    taken: tuple[int, ...]
    wire_sent: tuple[int, ...]
    wire_taken: tuple[int, ...]
    base: int
    operations: int
    tokens: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many numbers it holds, roughly."""
        return len(self.key) + len(self.tokens) + 5 * len(self.sent) + 4 * len(self.runs)

    @classmethod
    def of(cls, state: _Simulation, ready: Sequence[int]) -> _Snapshot:
        """Return the state that a simulation is in; `ready` are those that may go on."""
        base = min(state.clock[index] for index in ready)
        key: list[int] = []
        tokens: list[int] = []
        for index, clock in enumerate(state.clock):
            key.append(state.at[index] + 4 * state.done[index] + 8 * state.left[index])
            key.append(clock - base if clock > base else 0)
            tokens.append(state.held_by[index])
        for channel, queue in enumerate(state.queue):
            in_flight = state.wire_sent[channel] - state.wire_taken[channel]
            wire = state.wires[channel]
            if wire is not None:
                one = state.network.channels[channel]
                key.append(in_flight)
                key.extend(wire.phase(state.sent[channel], state.run[one.sender]))
                if wire.at_receiver:
                    key.extend(wire.phase(state.wire_taken[channel], 0))
                    key.append(wire.filters.outputs(state.wire_taken[channel]) - state.taken[channel])
            key.append(len(queue))
            for time, operation in queue:
                key.append(time - base if time > base else 0)
                tokens.append(operation)
            recent = [(time - base, operation) for time, operation in state.freed[channel] if time > base]
            key.append(len(recent))
            for time, operation in recent:
                key.append(time)
                tokens.append(operation)
        return cls(
            key=tuple(key),
            iterations=tuple(state.iteration),
            runs=tuple(state.run),
            clocks=tuple(state.clock),
            busy=tuple(state.busy),
            sent=tuple(state.sent),
            delivered=tuple(state.delivered),
            taken=tuple(state.taken),
            wire_sent=tuple(state.wire_sent),
            wire_taken=tuple(state.wire_taken),
            base=base,
            operations=len(state.history),
            tokens=tuple(tokens),
        )


def _operations(network: Network, index: int) -> tuple[tuple[int, ...], ...]:
    """Return the channels of a process by operation; then those of finit in the first run, and those with messages that
    the end of a run lets go beside those that are sent then."""
    process, channels = network.processes[index], network.channels
    return (
        process.finit,
        process.oi,
        process.s + process.b,
        process.of,
        tuple(channel for channel in process.finit if not channels[channel].is_state),
        tuple(channel for channel in process.oi if channels[channel].filters.waits_for_end_of_run),
    )


#: More messages than anybody takes.
_ENDLESS = 1 << 62
_DEMAND = 10_000


def _supply(network: Network, channel: int) -> int:
    """Return how many messages come through the filters behind somebody who sends as much as is asked for."""
    outputs = network.channels[channel].filters.outputs
    first, more = outputs(_DEMAND, _DEMAND), outputs(2 * _DEMAND, 2 * _DEMAND)
    return _ENDLESS if more > first else first


def _inputs_for(network: Network, channel: int, taken: int) -> int:
    """Return the smallest number of messages sent, one in each run, of which `taken` come out."""
    outputs = network.channels[channel].filters.outputs
    if network.channels[channel].filters.is_identity:
        return taken
    high = 1
    while outputs(high, high) < taken:
        high *= 2
    low = 0
    while low < high:
        middle = (low + high) // 2
        if outputs(middle, middle) >= taken:
            high = middle
        else:
            low = middle + 1
    return low
