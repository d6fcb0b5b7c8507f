"""Which loops of a model go in step with each other."""

from __future__ import annotations

from xmml.analysis.network import Network
from xmml.analysis.zero_delay import components


def is_aligned(network: Network) -> bool:
    """Whether no instance's messages come back to it, so that nobody can wait for itself."""
    names = {name: number for number, name in enumerate(network.by_instance)}
    successors: list[list[int]] = [[] for _ in names]
    for own in network.by_coupling:
        channel = network.channels[own[0]]
        sender, receiver = (network.processes[end].instance for end in (channel.sender, channel.receiver))
        successors[names[sender]].append(names[receiver])
    return all(len(group) == 1 and group[0] not in successors[group[0]] for group in components(successors))
