"""What can be said about a model without walking through its steps: counts, conflicts and the start.

The cost depends on the number of instances and couplings only: a model of 10^9 steps is analysed as fast as one of 10.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from xmml.analysis.conflicts import Conflict, deadlock, late_deadlock, rate_conflicts
from xmml.analysis.counts import Amount, Count, Counts, count, total
from xmml.analysis.demand import first_deadlock
from xmml.analysis.linear_schedule import has_linear_schedule
from xmml.analysis.network import Network
from xmml.analysis.precedence import precedences
from xmml.analysis.start import initial_instances
from xmml.analysis.timelines import feedback_groups, is_surely_live
from xmml.analysis.zero_delay import zero_delay_cycles
from xmml.late_dataclass import dataclass

__all__ = ["Conflict", "Count", "StaticAnalysis", "static_analysis"]


@dataclass(frozen=True)
class StaticAnalysis:
    """What a model does if nobody waits for ever, and who surely would.

    Attributes:
        runs: by instance, runs of a submodel or firings of a mapper or terminal, of all copies together.
        steps: by instance, iterations of each run; 1 for mappers and terminals.
        sent: by coupling of the model, messages that its sender sends, before filters, of all copies together.
        delivered: by coupling, messages that come out of its filters.
        received: by coupling, messages that its receiver takes.
        unconsumed: by coupling, messages that are surely never taken.
        conflicts: what surely makes somebody wait for ever.
        never_start: instances that never begin a run because nobody can be the first.
        initial: instances that start without being called.
        is_conclusive: there is no deadlock and no starvation, and no simulation is needed to know it.
    """

    runs: Mapping[str, Count]
    steps: Mapping[str, Count]
    sent: tuple[Count, ...]
    delivered: tuple[Count, ...]
    received: tuple[Count, ...]
    unconsumed: tuple[int, ...]
    conflicts: tuple[Conflict, ...]
    never_start: tuple[str, ...]
    initial: tuple[str, ...]
    is_conclusive: bool


def static_analysis(network: Network, uncertain: Collection[str] = ()) -> StaticAnalysis:
    """Return what can be said about a network without walking through its steps.

    Near-linear in instances and couplings; does not depend on the number of steps.

    Args:
        uncertain: source terminals of which nobody knows how many messages they send.
    """
    counts = count(network, uncertain)
    idle = {name for name, runs in counts.runs.items() if runs.value == 0}
    couplings = precedences(network)
    cycles = zero_delay_cycles(network, couplings, idle)
    conflicts = [deadlock(network, cycle) for cycle in cycles]
    in_cycles = {coupling for conflict in conflicts for coupling in conflict.couplings}
    conflicts += [each for each in rate_conflicts(network, counts) if in_cycles.isdisjoint(each.couplings)]
    undecided = [
        group
        for group in feedback_groups(couplings)
        if not is_surely_live(network, group) and not has_linear_schedule(network, group, counts.runs)
    ]
    told = idle | {name for conflict in conflicts for name in conflict.instances}
    for group in undecided:
        if told.isdisjoint(group.instances) and (demands := first_deadlock(network, group)):
            conflicts.append(late_deadlock(network, demands))
    copies = {name: len(own) for name, own in network.by_instance.items()}
    return StaticAnalysis(
        runs=MappingProxyType({name: counts.runs[name].count(copies[name]) for name in copies}),
        steps=MappingProxyType({name: counts.steps[name].count() for name in copies}),
        sent=total(counts.sent, counts.pairs),
        delivered=total(counts.delivered, counts.pairs),
        received=total(_received(counts), counts.pairs),
        unconsumed=tuple(counts.surplus.get(coupling, 0) * pairs for coupling, pairs in enumerate(counts.pairs)),
        conflicts=tuple(conflicts),
        never_start=counts.unsolved,
        initial=initial_instances(network),
        is_conclusive=not conflicts and not undecided and counts.are_sure,
    )


def _received(counts: Counts) -> list[Amount]:
    """Return by coupling what its receiver takes: what it needs, as far as it comes."""
    received = []
    for delivered, needed in zip(counts.delivered, counts.needed, strict=True):
        if delivered.value is None or needed.value is None:
            received.append(Amount(None, max(delivered.certainty, needed.certainty)))
        else:
            received.append(needed if needed.value <= delivered.value else delivered)
    return received
