"""How many messages every conduit has to hold.

Too little room stops a model that would go on with more: whoever sends waits for room, and whoever should make it waits
for the sender. The least room is found as a running model would find it (Parks, "Bounded scheduling of process
networks", 1995): begin with the least a message needs; when nothing moves and somebody waits for room in a circle, give
the smallest such conduit more; then take back what was given in excess. More room never harms, so what is found this
way is enough for every speed of the programs and every order in which they serve their ports.
"""

from __future__ import annotations

from xmml.analysis.network import Network
from xmml.analysis.self_timed import SelfTimed, simulate
from xmml.late_dataclass import dataclass

#: Bytes a conduit may hold, unless a single message, or freedom from deadlock, needs more.
BYTE_BUDGET = 64 * 1024 * 1024
#: Messages beyond the least: so far a sender can be ahead of its receiver. Sixteen small messages are sent in less time
#: than it takes to wake a process that sleeps.
SLACK = 15
#: No conduit holds fewer, so that a sender can prepare a message while the one before is still there.
FEWEST = 2
#: Operations of all simulations together, beyond which excess is not taken back.
_EVENTS = 1_000_000


@dataclass(frozen=True)
class Capacities:
    """Messages that each channel has to hold, and shall hold.

    Attributes:
        least: enough to keep the model free of deadlock; none of them can be smaller alone, if `is_least`.
        chosen: with slack within the byte budget, or as the model fixes it.
        byte_budget: bytes that each channel may hold.
        is_least: the search was carried through.
    """

    least: tuple[int, ...]
    chosen: tuple[int, ...]
    byte_budget: tuple[int, ...]
    is_least: bool


def capacities(network: Network, byte_budget: int = BYTE_BUDGET, *, event_limit: int = _EVENTS) -> Capacities:
    """Return the capacities of a network; the cost does not depend on the number of steps.

    Args:
        byte_budget: bytes that a conduit may hold; one message, and what freedom from deadlock needs, always fit.
        event_limit: operations of all simulations together, after which the search ends.
    """
    least, is_least = _least(network, event_limit)
    chosen, budgets = [], []
    for channel, needed in zip(network.channels, least, strict=True):
        size = channel.size_bytes or 0
        fitting = int(byte_budget // size) if size > 0 else needed + SLACK
        messages = max(needed, min(max(needed + SLACK, FEWEST), fitting))
        chosen.append(channel.capacity or messages)
        budgets.append(max(byte_budget, round(needed * size)))
    return Capacities(tuple(least), tuple(chosen), tuple(budgets), is_least)


def _least(network: Network, event_limit: int) -> tuple[list[int], bool]:
    smallest = [1] * len(network.channels)  # filters that multiply run at the receiver
    sizes = list(smallest)
    events = 0
    while True:
        result = simulate(network, sizes, timed=False, event_limit=max(1, event_limit - events))
        events += result.events
        circle = _circle(network, result)
        if not circle or not result.is_complete:
            break
        channel = min(circle, key=lambda number: (sizes[number], number))
        sizes[channel] = 2 * sizes[channel]
    if not result.is_complete:
        return sizes, False
    for channel, size in enumerate(sizes):
        enough, too_little = size, smallest[channel] - 1
        while enough - too_little > 1 and events < event_limit:
            sizes[channel] = (enough + too_little) // 2
            tried = simulate(network, sizes, timed=False, event_limit=max(1, event_limit - events))
            events += tried.events
            if tried.final == result.final and not _circle(network, tried):
                enough = sizes[channel]
            else:
                too_little = sizes[channel]
        sizes[channel] = enough
    return sizes, events < event_limit


def _circle(network: Network, result: SelfTimed) -> list[int]:
    """Return the full channels whose receiver waits, in the end, for the sender."""
    waits: dict[int, set[int]] = {}
    for stop in result.final.stops:
        for channel in stop.missing:
            waits.setdefault(stop.process, set()).add(network.channels[channel].sender)
    for channel in result.full:
        waits.setdefault(network.channels[channel].sender, set()).add(network.channels[channel].receiver)
    return [
        channel
        for channel in result.full
        if _reaches(waits, network.channels[channel].receiver, network.channels[channel].sender)
    ]


def _reaches(waits: dict[int, set[int]], begin: int, end: int) -> bool:
    seen, todo = {begin}, [begin]
    while todo:
        process = todo.pop()
        if process == end:
            return True
        for other in waits.get(process, ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return False
