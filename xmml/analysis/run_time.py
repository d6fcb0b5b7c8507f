"""How long a model runs: from the run times of its programs, the sizes of its messages and the links they take.

A run of a submodel takes the run time of its implementation, an equal part of it after the receives of each iteration;
a submodel without ports in the loop computes between its finit and its Of, a mapper or terminal when it fires. Nothing
else takes time, except messages on links with a latency or a bandwidth. Times are integers of nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from xmml.analysis.capacity import Capacities
from xmml.analysis.critical_path import Part, critical_path
from xmml.analysis.network import Network
from xmml.analysis.self_timed import SelfTimed, simulate
from xmml.analysis.static import StaticAnalysis
from xmml.late_dataclass import dataclass

_SECOND = 1_000_000_000
#: No message is taken to be on its way for longer [s].
_LONGEST_S = 1e12
#: So many operators are simulated before bounds are given.
EVENT_LIMIT = 500_000


@dataclass(frozen=True)
class Link:
    """What a message needs on its way.

    Attributes:
        latency_s: time for an empty message [s].
        bandwidth: bytes per second; `None`: the size does not matter.
    """

    latency_s: float = 0.0
    bandwidth: float | None = None


@dataclass(frozen=True)
class RunTime:
    """When things happen.

    Attributes:
        simulated: the simulation that it comes from.
        makespan_ns: until the last process is done; the lower bound, if `is_exact` is false.
        makespan_at_most_ns: the upper bound; `None` if there is none.
        is_exact: the makespan is a value: it was simulated to the end and no program decides by itself.
        critical_path: what the end has to wait for.
        core_seconds: time that cores are computing, over all processes [s].
        parallelism: how many processes compute at a time on average.
        unknown: instances without a run time; it counts as 0.
    """

    simulated: SelfTimed
    makespan_ns: int
    makespan_at_most_ns: int | None
    is_exact: bool
    critical_path: tuple[Part, ...]
    core_seconds: float
    parallelism: float
    unknown: tuple[str, ...]

    def idle_ns(self, process: int) -> int:
        """Return how long a process waits between the begin of its first run and its end [ns]."""
        begin = self.simulated.begin_ns[process]
        if begin < 0:
            return 0
        return self.simulated.end_ns[process] - begin - self.simulated.busy_ns[process]


def estimate(
    network: Network,
    static: StaticAnalysis,
    room: Capacities,
    link: Link | None = None,
    *,
    event_limit: int = EVENT_LIMIT,
) -> RunTime:
    """Return when things happen in a model that does not block.

    The cost does not depend on the number of steps, once the model moves periodically; if it does not within
    `event_limit` operations, the makespan is bounded from both sides.
    """
    delays = _delays_ns(network, link)
    simulated = simulate(network, room.chosen, delays_ns=delays, event_limit=event_limit)
    decided = any(process.until for process in network.processes)
    lower, upper = _bounds(network, static, simulated, delays)
    makespan, at_most = simulated.makespan_ns, simulated.makespan_ns
    bounds: int | None = at_most
    if not simulated.is_complete:
        makespan, bounds = max(makespan, lower), upper
    if decided:
        makespan, bounds = 0, bounds if all(process.has_bound for process in network.processes) else None
    busy = sum(simulated.busy_ns)
    return RunTime(
        simulated=simulated,
        makespan_ns=makespan,
        makespan_at_most_ns=bounds,
        is_exact=simulated.is_complete and not decided,
        critical_path=critical_path(network, simulated.history, simulated.end_ns) if simulated.is_complete else (),
        core_seconds=sum(
            time * process.cores for time, process in zip(simulated.busy_ns, network.processes, strict=True)
        )
        / _SECOND,
        parallelism=busy / simulated.makespan_ns if simulated.makespan_ns else 0.0,
        unknown=tuple(
            name
            for name, own in network.by_instance.items()
            if not network.processes[own[0]].runtime_ns and network.processes[own[0]].is_submodel
        ),
    )


def _delays_ns(network: Network, link: Link | None) -> list[int]:
    if link is None:
        return [0] * len(network.channels)
    bandwidth = link.bandwidth or float("inf")
    delays_s = (link.latency_s + (channel.size_bytes or 0) / bandwidth for channel in network.channels)
    return [round(min(delay_s, _LONGEST_S) * _SECOND) for delay_s in delays_s]


def _bounds(
    network: Network, static: StaticAnalysis, simulated: SelfTimed, delays: Sequence[int]
) -> tuple[int, int | None]:
    """Return bounds of the makespan: the longest computation of one process, and everything one after the other."""
    longest, total = 0, 0
    for name, own in network.by_instance.items():
        runs = static.runs[name].value
        if runs is None:
            return longest, None
        work = network.processes[own[0]].runtime_ns * runs
        longest = max(longest, work // len(own))
        total += work
    for number, own in enumerate(network.by_coupling):
        sent = static.sent[number].value
        if sent is None:
            return longest, None
        total += delays[own[0]] * sent
    return longest, total
