"""What has to happen before what in one run of a submodel: its operators as vertices of a graph.

Within a run the operators follow each other, finit, Oi, then S and B in any order, then Of; a receive follows the send
of its message. An instance whose order of calls is not checked (`run:order="free"`) only begins its run first.
"""

from __future__ import annotations

from collections.abc import Iterator

from xmml.analysis.filter_counts import NO_FILTERS
from xmml.analysis.network import Channel, Network
from xmml.late_dataclass import dataclass

#: The operators as vertices: S and B of an iteration are one, since their order does not matter. A mapper or terminal
#: has the first vertex only. The vertices of the n-th instance are 4n, ..., 4n + 3.
FINIT, OI, SB, OF = range(4)
_VERTEX = {None: FINIT, "finit": FINIT, "Oi": OI, "S": SB, "B": SB, "Of": OF}


def sending_vertex(channel: Channel) -> int:
    """Return in which operator the messages of a channel are let go, by the sender or by a filter that waits."""
    if channel.filters is NO_FILTERS:
        return _VERTEX[channel.sender_operator]
    return OF if channel.filters.waits_for_end_of_run and channel.sender_operator else _VERTEX[channel.sender_operator]


def receiving_vertex(channel: Channel) -> int:
    """Return in which operator the messages of a channel are received."""
    return _VERTEX[channel.receiver_operator]


def order_in_run(network: Network, instance: str) -> Iterator[tuple[int, int]]:
    """Yield the pairs of operators of which the second waits for the first, within one iteration of one run."""
    if not network.processes[network.by_instance[instance][0]].is_submodel:
        return
    if network.model.instances[instance].check_order:
        yield from ((FINIT, OI), (OI, SB), (SB, OF))
    else:
        yield from ((FINIT, OI), (FINIT, SB), (FINIT, OF))


@dataclass(frozen=True)
class Precedences:
    """The couplings of a network as edges between operators.

    Attributes:
        instances: ids, by number.
        edges: for each coupling, but those that carry state: the vertex of the send, that of the receive, a channel.
    """

    instances: tuple[str, ...]
    edges: tuple[tuple[int, int, Channel], ...]


def precedences(network: Network) -> Precedences:
    """Return the couplings of a network as edges between operators. Linear in instances and couplings."""
    place = {name: 4 * number for number, name in enumerate(network.by_instance)}
    first = [place[process.instance] for process in network.processes]
    edges = []
    for own in network.by_coupling:
        channel = network.channels[own[0]]
        if not channel.is_state:
            sends = first[channel.sender] + sending_vertex(channel)
            edges.append((sends, first[channel.receiver] + receiving_vertex(channel), channel))
    return Precedences(tuple(network.by_instance), tuple(edges))
