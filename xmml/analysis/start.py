"""Who starts: which instances begin without being called, and where that is ambiguous."""

from __future__ import annotations

from xmml.analysis.counts import calls
from xmml.analysis.network import Network
from xmml.analysis.precedence import precedences
from xmml.analysis.timelines import feedback_groups


def initial_instances(network: Network) -> tuple[str, ...]:
    """Return the instances that start at once: submodels without coupled finit ports, and sources."""
    called = {
        network.processes[network.channels[own[0]].receiver].instance
        for own in network.by_coupling
        if calls(network.channels[own[0]])
    }
    return tuple(name for name in network.by_instance if name not in called)


def ambiguous_starts(network: Network) -> tuple[tuple[str, str], ...]:
    """Return the submodels that start at once although nothing says that they do, each with another such instance.

    Nothing calls them and they are not marked `init`, but they receive at S or B from a feedback group in which
    another instance starts at once too. Either could be meant to wait for the other's first message. An instance whose
    order of calls is not checked begins as its program says.
    """
    initial = set(initial_instances(network))

    def is_unmarked(name: str) -> bool:
        init = network.processes[network.by_instance[name][0]].init
        return name in initial and not init and network.model.instances[name].check_order

    if not any(map(is_unmarked, network.by_instance)):
        return ()
    found = []
    for group in feedback_groups(precedences(network)):
        receiving = {
            network.processes[channel.receiver].instance
            for channel in group.channels
            if channel.receiver_operator in ("S", "B")
        }
        starting = [name for name in group.instances if name in initial]
        if len(starting) < 2:
            continue
        marked = (name for name in starting if network.processes[network.by_instance[name][0]].init)
        first = next(marked, starting[0])
        for name in starting:
            if name in receiving and is_unmarked(name):
                found.append((name, first if first != name else starting[1]))
    return tuple(found)
