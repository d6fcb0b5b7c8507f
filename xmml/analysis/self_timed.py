"""Self-timed execution: everything happens as soon as messages and places allow, in integer nanoseconds.

Exact without unrolling: what repeats is jumped over, so a loop of 10^9 steps costs no more than its first few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xmml.analysis.final_state import FinalState, Stop
from xmml.analysis.leaving import leaving
from xmml.analysis.network import Network
from xmml.analysis.operations import History
from xmml.analysis.periods import Period, Periods
from xmml.analysis.timed_execution import FINIT, LEFT, NOBODY, OF, OI, SB, WORK, TimedExecution
from xmml.late_dataclass import dataclass
from xmml.model import Operator

#: Operators that are carried out before the simulation gives up looking for a period.
EVENT_LIMIT = 500_000


@dataclass(frozen=True)
class SelfTimed:
    """What the simulation gave.

    Attributes:
        final: where everything stood in the end; the numbers are exact if `is_complete`.
        is_complete: the simulation came to the end; else it gave up at the limit, and everything is as it was then.
        end_ns: by process, when it was done with its last operator.
        begin_ns: by process, when its first run (firing) began; -1 if none did.
        busy_ns: by process, how long it computed.
        peak: by channel, the most messages on the wire at a time.
        full: channels that had no room for somebody who waits, when nothing moved any more.
        periods: the loops that were found to repeat themselves.
        history: what took time, for the critical path.
        events: operators that were carried out, and the work of looking for periods.
    """

    final: FinalState
    is_complete: bool
    end_ns: tuple[int, ...]
    begin_ns: tuple[int, ...]
    busy_ns: tuple[int, ...]
    peak: tuple[int, ...]
    full: tuple[int, ...]
    periods: tuple[Period, ...]
    history: History
    events: int

    @property
    def makespan_ns(self) -> int:
        """When the last process was done."""
        return max(self.end_ns, default=0)

    @property
    def period_ns(self) -> float | None:
        """One turn of the slowest loop [ns], on average over its period; `None` if none was found to be periodic."""
        return max((period.turn_ns for period in self.periods), default=None)


def simulate(
    network: Network,
    capacities: Sequence[int],
    *,
    delays_ns: Sequence[int] | None = None,
    releases_ns: Sequence[int] | None = None,
    timed: bool = True,
    event_limit: int = EVENT_LIMIT,
) -> SelfTimed:
    """Carry out a network with finite capacities, everything as soon as it can be.

    A submodel's run takes its run time, spread evenly over its iterations: each computes after its receives at S and B.
    A run of one without any inner ports, and the firing of a mapper or terminal, take theirs in one piece. Everything
    else takes no time. The cost is that of the transients of all loops, not of their lengths.

    Args:
        capacities: by channel, messages that may be on the wire.
        delays_ns: by channel, how long a message is on its way; by default no time.
        releases_ns: by process, when it can begin; by default at once.
        timed: whether computing takes the time that the model says; else none.
        event_limit: operators after which to give up.
    """
    run = TimedExecution(network, capacities, delays_ns or [0] * len(network.channels), timed, releases_ns)
    periods = Periods(run)
    index = -1
    while index != NOBODY and run.operations <= event_limit:
        index = run.step()
        if index >= 0:
            periods.completed(index)
    return SelfTimed(
        final=_final(run),
        is_complete=index == NOBODY,
        end_ns=tuple(run.ended),
        begin_ns=tuple(-1 if began is None else began for began in run.began),
        busy_ns=tuple(run.busy),
        peak=tuple(run.peak),
        full=tuple(
            channel
            for process, channel in enumerate(run.waits_on)
            if channel >= 0 and run.sender[channel] == process and run.pc[process] in (OI, OF)
        ),
        periods=tuple(periods.found.values()),
        history=History(tuple(run.last)),
        events=run.operations,
    )


#: The next operator of a process, by where it stands.
_NEXT: Mapping[int, Operator] = MappingProxyType({FINIT: "finit", OI: "Oi", SB: "S", WORK: "Of", OF: "Of"})


def _final(run: TimedExecution) -> FinalState:
    """Return where everything stands, as unrolling would say it."""
    network = run.network
    waiting = [run.delivered[c] - run.received[c] for c in range(len(network.channels))]
    received = list(run.received)
    stands = []
    for process in network.processes:
        index = process.index
        operator = _NEXT.get(run.pc[index], "finit") if process.is_submodel else None
        needed: tuple[int, ...] = ()
        if operator == "S":
            needed = process.s + process.b
            if all(waiting[channel] > 0 for channel in process.s):
                operator, needed = "B", process.b
                for channel in process.s:
                    waiting[channel] -= 1
                    received[channel] += 1
        elif run.pc[index] in (FINIT, LEFT) and run.calling[index] and index not in run.asked:
            needed = process.finit if run.runs[index] else run.calling[index]
        stands.append((operator, needed))
    is_over = [run.left[index] and not run.calling[index] for index in range(len(network.processes))]
    before_run = [run.pc[index] == FINIT or (run.left[index] and not is_over[index]) for index in range(len(is_over))]
    left = leaving(network, is_over, before_run, waiting, run.asked)
    stops = []
    for process, (operator, needed) in zip(network.processes, stands, strict=True):
        index = process.index
        missing = tuple(channel for channel in needed if waiting[channel] <= 0)
        stops.append(
            Stop(
                process=index,
                finished=left[index],
                started=run.began[index] is not None,
                runs=run.runs[index],
                run=run.runs[index],
                iteration=run.iteration[index],
                operator="finit" if process.is_submodel and run.left[index] else operator,
                missing=tuple(channel for channel in missing if not run.is_asked_for[channel]) or missing,
            )
        )
    return FinalState(tuple(stops), tuple(run.sent), tuple(run.delivered), tuple(received))
