"""Whether a model finishes, decided exactly: statically where that suffices, else by following every message."""

from __future__ import annotations

from xmml.analysis.conflicts import Conflict, deadlock_in_run
from xmml.analysis.network import Network
from xmml.analysis.outcome import outcome
from xmml.analysis.static import StaticAnalysis
from xmml.analysis.unrolling import unroll

#: The largest task graph that is followed to decide: some hundred thousand nodes take less than a second.
NODE_LIMIT = 300_000


def certain_conflicts(network: Network, static: StaticAnalysis, node_limit: int = NODE_LIMIT) -> tuple[Conflict, ...]:
    """Return why a model surely does not finish; nothing if it does, or if that cannot be known.

    It cannot be known where a program decides when to stop, in which order to call, or which messages pass; and it is
    not known of a model that is neither clear statically nor small enough to be followed.
    """
    if static.conflicts or static.is_conclusive:
        return static.conflicts
    if not all(count.is_exact for count in (*static.sent, *static.delivered, *static.runs.values())):
        return ()
    if not all(instance.check_order for instance in network.model.instances.values()):
        return ()
    if _size(network, static) > node_limit:
        return ()
    unrolling = unroll(network, node_limit=node_limit)
    if unrolling.truncated or not unrolling.is_exact:
        return ()
    found = outcome(network, unrolling.final)
    return tuple(deadlock_in_run(network, [found.blocked[place] for place in cycle]) for cycle in found.cycles)


def _size(network: Network, static: StaticAnalysis) -> int:
    """Return how many nodes the task graph has at most."""
    size = 0
    for name, own in network.by_instance.items():
        runs, steps = static.runs[name].value or 0, static.steps[name].value or 0
        walks = any(network.processes[process].oi for process in own)
        size += runs * (steps + 1 if walks else 1)
    return size
