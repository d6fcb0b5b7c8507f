"""How many messages the filters of a coupling let through.

Every built-in filter declares `outputs(n)`, the number of messages that have come out after n went in, and the native
code that filters at run time is asked for it: analysis and run cannot disagree. A filter of the user's own is taken by
its word: a converter gives one for one, an interpolation `factor` for one, a reduction one for `factor`, unless the
dimension it works along is another than time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from xmml.late_dataclass import dataclass
from xmml.model import AppliedFilter


class FilterCountError(Exception):
    """A built-in filter that does not exist or cannot have its arguments; the text says why."""


@dataclass(frozen=True)
class FilterCounts:
    """The number of messages that come out of a chain of filters, as a function of what went in.

    Filters count on over the runs of the sender. Only `last` knows of runs: it holds a message back until the sender's
    run ends, and lets none go at the end of a run in which none reached it. It cuts the chain into `stages`.

    Attributes:
        stages: for each part of the chain between two `last`, the counting functions in the order of application.
        per_run: how many messages each run of the sender sends, at least 1.
        is_exact: whether no filter decides by what it sees (`blockafter`, a filter of the user's own): else the counts
            are what is declared, and the run may let fewer through.
    """

    stages: tuple[tuple[Callable[[int], int], ...], ...] = ((),)
    is_exact: bool = True
    per_run: int = 1

    @property
    def is_identity(self) -> bool:
        """Whether every message passes as it is."""
        return self.stages == ((),)

    @property
    def waits_for_end_of_run(self) -> bool:
        """Whether messages come out when a run of the sender ends."""
        return len(self.stages) > 1

    def outputs(self, sent: int, runs_ended: int = 0) -> int:
        """Return how many messages have come out after `sent` went in and `runs_ended` runs of the sender ended.

        Constant in both numbers, except for a `last` behind several filters or another `last`: there it is linear in
        the runs the first time.
        """
        if not self.waits_for_end_of_run:
            return _through(self.stages[0], sent)
        runs = min(runs_ended, sent // self.per_run)
        return _through(self.stages[-1], _let_go(self.stages[:-1], self.per_run, runs))


#: No filter at all.
NO_FILTERS = FilterCounts()


#: Messages are counted below this number, which is also the largest that the native code counts the output of filters
#: for. What a filter of the user's own declares beyond it counts as this: numbers of many digits take for ever.
COUNTABLE = 2**63

#: What the dimension of a filter may be called if it is time, beside the ids of the time scales.
TIME_NAMES = frozenset({"t", "time", "temporal"})


def filter_counts(
    filters: Sequence[AppliedFilter], time_scales: Collection[str] = (), per_run: int = 1
) -> FilterCounts:
    """Return the counts of the filters of a coupling.

    Args:
        filters: in the order of application.
        time_scales: ids of the time scales at the two ends. A filter of the user's own along another dimension (a
            coarser grid, say) gives one message for one.
        per_run: how many messages each run of the sender sends.

    Raises:
        FilterCountError: a built-in filter does not exist or cannot have its arguments.
    """
    if not filters:
        return NO_FILTERS
    stages: list[list[Callable[[int], int]]] = [[]]
    is_exact = True
    for applied in filters:
        builtin = applied.definition.builtin
        if builtin == "last":
            stages.append([])
        elif builtin is None:
            is_exact = False
            stages[-1].append(_declared(applied, time_scales))
        else:
            is_exact = is_exact and builtin != "blockafter"
            function = _built_in(builtin, applied.factor, tuple(sorted(applied.params.items())))
            if function is not _same:
                stages[-1].append(function)
    return FilterCounts(tuple(tuple(stage) for stage in stages), is_exact, per_run)


#: A part of a chain of filters.
Stage = tuple[Callable[[int], int], ...]


def _let_go(stages: tuple[Stage, ...], per_run: int, runs: int) -> int:
    """Return how many messages the `last` behind `stages` has let go at the ends of the first `runs` runs."""
    if len(stages) == 1 and len(stages[0]) <= 1:
        # One filter gives in each run of as many messages either at least one message or at most one.
        return min(_through(stages[0], per_run * runs), runs)
    counted = _counted_runs(stages, per_run)
    for run in range(len(counted), runs + 1):
        counted.append(counted[-1] + (_reached(stages, per_run, run) > _reached(stages, per_run, run - 1)))
    return counted[runs]


def _reached(stages: tuple[Stage, ...], per_run: int, runs: int) -> int:
    """Return how many messages have come to the `last` behind `stages` by the end of so many runs."""
    before = _let_go(stages[:-1], per_run, runs) if len(stages) > 1 else per_run * runs
    return _through(stages[-1], before)


@lru_cache(maxsize=1024)
def _counted_runs(stages: tuple[Stage, ...], per_run: int) -> list[int]:
    """Return what `_let_go` found so far for each number of runs, to be added to."""
    return [0]


def _through(stage: Sequence[Callable[[int], int]], count: int) -> int:
    for function in stage:
        count = function(count)
    return count


def _same(count: int) -> int:
    return count


@lru_cache(maxsize=4096)
def _built_in(name: str, factor: float | None, params: tuple[tuple[str, str], ...]) -> Callable[[int], int]:
    from xmml_native import Error
    from xmml_native._native import filter_outputs

    spec = {"name": name, "factor": factor, "params": dict(params)}

    @lru_cache(maxsize=65536)
    def outputs(count: int) -> int:
        return int(filter_outputs(spec, count))

    try:
        # No built-in filter treats its first messages as they are and later ones otherwise.
        return _same if all(outputs(count) == count for count in range(8)) else outputs
    except Error as error:
        raise FilterCountError(str(error).removeprefix("conduit : ")) from None


def _declared(applied: AppliedFilter, time_scales: Collection[str]) -> Callable[[int], int]:
    dimension = applied.definition.dimension
    if dimension is not None and dimension not in TIME_NAMES and dimension not in time_scales:
        return _same
    factor = round(applied.factor) if applied.factor is not None and applied.factor >= 1 else 1
    if factor == 1 or applied.definition.type == "converter":
        return _same
    if applied.definition.type == "interpolation":
        return lambda count: min(count * factor, COUNTABLE)
    return lambda count: count // factor
