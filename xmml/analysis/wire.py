"""What the filters of a channel put on the wire: that is what its capacity counts.

Filters that make more of the messages run at the receiver, all others at the sender, so that less travels.
"""

from __future__ import annotations

from dataclasses import dataclass

from xmml.analysis.filter_counts import FilterCounts
from xmml.analysis.network import Network

#: So many messages decide whether filters make more or fewer of them.
_SAMPLE = 64
#: Longest period of filters that is looked for.
_LONGEST_PERIOD = 512


@dataclass(frozen=True)
class Wire:
    """The wire of a channel with filters.

    Attributes:
        filters: those of the channel.
        at_receiver: they run where the messages arrive.
        period: the numbers that come out repeat after so many messages (runs, if the filters wait for the end of a
            run); 0 if they do not.
        per_period: messages that come out in a period.
    """

    filters: FilterCounts
    at_receiver: bool
    period: int
    per_period: int

    def put(self, sent: int, runs: int) -> int:
        """Return how many messages were put on the wire after so many were sent and so many runs ended."""
        return sent if self.at_receiver else self.filters.outputs(sent, runs)

    def off(self, taken: int, so_far: int) -> int:
        """Return how many messages are off the wire once so many were taken, given how many were before."""
        if not self.at_receiver:
            return taken
        while self.filters.outputs(so_far) < taken:
            so_far += 1
        return so_far

    def phase(self, sent: int, runs: int) -> tuple[int, ...]:
        """Return what the next outputs depend on."""
        number = runs if self.filters.waits_for_end_of_run else sent
        return (number,) if not self.period else (number == 0, number % self.period)


def wires(network: Network) -> list[Wire | None]:
    """Return the wire of each channel; `None` where every message passes as it is."""
    made: dict[int, Wire] = {}
    found: list[Wire | None] = []
    for channel in network.channels:
        if channel.filters.is_identity:
            found.append(None)
            continue
        if channel.coupling not in made:
            made[channel.coupling] = _wire(channel.filters)
        found.append(made[channel.coupling])
    return found


def _wire(filters: FilterCounts) -> Wire:
    at_receiver = not filters.waits_for_end_of_run and filters.outputs(_SAMPLE) > _SAMPLE
    period = _period(filters)
    return Wire(filters, at_receiver, period, _outputs(filters, 1 + period) - _outputs(filters, 1))


def _outputs(filters: FilterCounts, number: int) -> int:
    if filters.waits_for_end_of_run:
        return filters.outputs(number * filters.per_run, number)
    return filters.outputs(number)


def _period(filters: FilterCounts) -> int:
    """Return after how many messages the outputs repeat, from the first message on."""
    gains: list[int] = []
    before = _outputs(filters, 1)
    for number in range(2, 3 * _LONGEST_PERIOD + 2):
        now = _outputs(filters, number)
        gains.append(now - before)
        before = now
    for period in range(1, _LONGEST_PERIOD + 1):
        if gains[period:] == gains[:-period]:
            return period
    return 0
