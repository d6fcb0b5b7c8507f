"""Whether a model finishes, decided exactly: statically where that suffices, else by following every message."""

from __future__ import annotations

from collections.abc import Collection

from xmml.analysis.conflicts import Conflict, deadlock_in_run
from xmml.analysis.final_state import FinalState
from xmml.analysis.network import Network
from xmml.analysis.outcome import outcome
from xmml.analysis.self_timed import simulate
from xmml.analysis.static import StaticAnalysis
from xmml.analysis.unrolling import unroll

#: The largest task graph that is followed to decide: a hundred thousand nodes take some tenths of a second.
NODE_LIMIT = 100_000
#: Room in every channel, where a model is followed in leaps: enough not to be what stops it.
_CAPACITY = 1_000


def certain_conflicts(
    network: Network, static: StaticAnalysis, uncertain: Collection[str] = (), node_limit: int = NODE_LIMIT
) -> tuple[Conflict, ...]:
    """Return why a model surely does not finish; nothing if it does, or if that cannot be known.

    It cannot be known where a program decides when to stop, in which order to call, or which messages pass; and it is
    not known of a model that is neither clear statically, nor short, nor soon periodic.

    Args:
        network: the network of the model.
        static: what `static_analysis` said of it.
        uncertain: source terminals of which nobody knows how many messages they send.
        node_limit: how far messages are followed.
    """
    if static.conflicts or static.is_conclusive:
        return static.conflicts
    if uncertain or not _is_determined(network):
        return ()
    final = _final_state(network, node_limit)
    if final is None:
        return ()
    found = outcome(network, final)
    return tuple(deadlock_in_run(network, [found.blocked[place] for place in cycle]) for cycle in found.cycles)


def _is_determined(network: Network) -> bool:
    """Whether the model alone says what its programs and filters do."""
    return (
        all(instance.check_order for instance in network.model.instances.values())
        and not any(process.until for process in network.processes)
        and all(channel.filters.is_exact for channel in network.channels)
    )


def _final_state(network: Network, limit: int) -> FinalState | None:
    """Return where everything stands in the end, or `None` if that is too far away."""
    unrolling = unroll(network, node_limit=limit)
    if not unrolling.truncated:
        return unrolling.final
    leaping = simulate(network, [_CAPACITY] * len(network.channels), timed=False, event_limit=limit)
    return leaping.final if leaping.is_complete and not leaping.full else None
