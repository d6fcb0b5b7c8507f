"""QueryServer about the numbers of messages that filters let through, with answers also where numbers are huge."""

from __future__ import annotations

from xmml.analysis.filter_counts import COUNTABLE, FilterCounts

#: The filter `last` behind several others has to be followed run by run: up to so many.
_MOST_RUNS = 1_000_000


def is_one_for_one(filters: FilterCounts) -> bool:
    """Whether every message that is sent comes out as one message, at once."""
    if filters.is_identity:
        return True
    # No filter treats its first messages as they are and later ones otherwise.
    return not filters.waits_for_end_of_run and all(filters.outputs(number) == number for number in range(9))


def countable_outputs(filters: FilterCounts, sent: int, runs: int) -> int | None:
    """Return what comes out of filters, or `None` if that takes numbers too large, or too long, to count."""
    if sent >= COUNTABLE:
        return None
    number, last = sent, filters.stages[0]
    if filters.waits_for_end_of_run:
        *before, last = filters.stages
        is_followed = len(before) > 1 or len(before[0]) > 1
        if is_followed and runs > _MOST_RUNS:
            return None
        number = FilterCounts((*before, ()), filters.is_exact, filters.per_run).outputs(sent, runs)
    for function in last:
        number = function(number)
        if number >= COUNTABLE:
            return None
    return number


def inputs_for(filters: FilterCounts, needed: int) -> int | None:
    """Return the smallest number of messages of which `needed` come out, or `None` if there is none."""
    if filters.is_identity:
        return needed
    high = 1
    while (out := countable_outputs(filters, high, high)) is not None and out < needed:
        high *= 2
    if out is None:
        return None
    low = 0  # outputs(low) < needed <= outputs(high), unless nothing is needed
    if needed == 0:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        out = countable_outputs(filters, middle, middle)
        if out is not None and out >= needed:
            high = middle
        else:
            low = middle
    return high
