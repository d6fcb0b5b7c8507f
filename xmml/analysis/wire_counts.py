"""What the filters of a channel make of the number of messages before the wire and behind it.

Filters that only let messages through or hold them back are taken to run at the sender, so that what they hold back
needs no place in the conduit. From the first one on that makes several messages of one they run at the receiver, when
it takes the message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from xmml.analysis.filter_counts import FilterCounts
from xmml.late_dataclass import dataclass

Function = Callable[[int], int]

#: Filters are asked about so many messages to learn their rate.
_MANY = 1 << 40
#: The longest period of a filter that is found.
_LONGEST_PERIOD = 1 << 20


@dataclass(frozen=True)
class WireCounts:
    """The filters of a channel, cut in two by the wire.

    Attributes:
        before: at the sender; at most one message comes out for one that goes in.
        after: at the receiver, in the order of application.
    """

    before: FilterCounts
    after: tuple[Function, ...]

    @property
    def is_identity(self) -> bool:
        """Whether every message passes as it is."""
        return self.before.is_identity and not self.after

    def from_wire(self, taken: int) -> int:
        """Return how many messages the receiver's filters have made of so many taken from the wire."""
        for function in self.after:
            taken = function(taken)
        return taken

    def state(self, sent: int, runs: int, taken: int) -> tuple[int, ...]:
        """Return numbers that are equal whenever the filters will go on in the same way.

        Args:
            sent: messages sent into the channel.
            runs: runs of the sender that have ended.
            taken: messages taken from the wire.
        """
        found: list[int] = []
        before, count = self.before, sent
        if before.waits_for_end_of_run:
            ended = min(runs, sent // before.per_run)
            count = before.per_run * ended
            for number, stage in enumerate(before.stages[:-1], 1):
                _add_states(found, stage, count)
                count = replace(before, stages=(*before.stages[:number], ())).outputs(sent, runs)
        _add_states(found, before.stages[-1], count)
        _add_states(found, self.after, taken)
        return tuple(found)


def wire_counts(filters: FilterCounts) -> WireCounts:
    """Return the filters of a channel as they run before and behind the wire."""
    last = filters.stages[-1]
    place = next((number for number, function in enumerate(last) if _multiplies(function)), len(last))
    before = filters if place == len(last) else replace(filters, stages=(*filters.stages[:-1], last[:place]))
    return WireCounts(before, last[place:])


def _multiplies(function: Function) -> bool:
    counts = [function(count) for count in range(8)]
    return any(after - before > 1 for before, after in pairwise(counts))


def _add_states(found: list[int], functions: tuple[Function, ...], count: int) -> None:
    for function in functions:
        transient, period = quasi_period(function)
        if count < transient or period == 0:
            found.append(count)
        else:
            found.append(transient + (count - transient) % period)
        count = function(count)


@lru_cache(maxsize=4096)
def quasi_period(function: Function) -> tuple[int, int]:
    """Return after how many messages a filter repeats what it does, and every how many; `(0, 0)` if it never does.

    Every filter lets a fixed share of the messages through, rounded, perhaps after the first one, or stops at some
    number. The share is read off two large counts, and the period is its denominator.

    >>> quasi_period(lambda count: -(-count // 3))
    (1, 3)
    """
    once, twice = function(_MANY), function(2 * _MANY)
    if once == twice:
        low, high = -1, _MANY
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if function(middle) == once else (middle, high)
        return high, 1
    share = Fraction(twice - once, _MANY).limit_denominator(_LONGEST_PERIOD)
    period, first = share.denominator, function(1)
    if all(function(1 + period * each) - first == share.numerator * each for each in (1, 2, 7, 1000)):
        return 1, period
    return 0, 0
