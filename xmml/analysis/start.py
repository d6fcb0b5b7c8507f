"""Who starts: which instances begin without being called, which can never begin, and where the start is ambiguous."""

from __future__ import annotations

from collections import deque

from xmml.analysis.counts import calls
from xmml.analysis.network import Network


def initial_instances(network: Network) -> tuple[str, ...]:
    """Return the instances that start at once: submodels without coupled finit ports, and sources."""
    called = {
        network.processes[network.channels[own[0]].receiver].instance
        for own in network.by_coupling
        if calls(network.channels[own[0]])
    }
    return tuple(name for name in network.by_instance if name not in called)


def never_started(network: Network) -> tuple[str, ...]:
    """Return the instances that never begin a run: they are called, directly or not, by something that waits for them.

    An instance can start once everything that calls it can; linear in instances and couplings.
    """
    waits: dict[str, int] = dict.fromkeys(network.by_instance, 0)
    called: dict[str, list[str]] = {name: [] for name in network.by_instance}
    for own in network.by_coupling:
        channel = network.channels[own[0]]
        if calls(channel):
            receiver = network.processes[channel.receiver].instance
            waits[receiver] += 1
            called[network.processes[channel.sender].instance].append(receiver)
    ready = deque(name for name, number in waits.items() if number == 0)
    while ready:
        for name in called[ready.popleft()]:
            waits[name] -= 1
            if waits[name] == 0:
                ready.append(name)
    return tuple(name for name, number in waits.items() if number > 0)


def ambiguous_starts(network: Network) -> tuple[str, ...]:
    """Return the submodels that start at once although nothing says so.

    Nothing calls them, they are not marked `init`, and they receive at S or B: with external initialisation (not
    supported at run time) their first message would start them.
    """
    receiving = {
        network.processes[channel.receiver].instance
        for own in network.by_coupling
        if (channel := network.channels[own[0]]).receiver_operator in ("S", "B")
    }
    initial = set(initial_instances(network))
    return tuple(
        name
        for name, own in network.by_instance.items()
        if name in receiving and name in initial and not network.processes[own[0]].init
    )
