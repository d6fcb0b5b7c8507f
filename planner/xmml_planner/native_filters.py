"""What the native built-in filters make of their input."""

from __future__ import annotations

from itertools import pairwise

from xmml_native import Error
from xmml_native._native import filter_outputs, filter_size_ratio

from xmml_planner.execution_plan import FilterSpec
from xmml_planner.wiring import FilterCost, FilterRefused


def filter_cost(spec: FilterSpec) -> FilterCost:
    """Return the cost of a built-in filter, as the filters themselves declare it.

    Raises:
        FilterRefused: there is no such filter, or it cannot have these arguments.
    """
    plain = {"name": spec.name, "factor": spec.factor, "params": dict(spec.params)}
    try:
        counts = [filter_outputs(plain, n) for n in range(4)]
        most = max(after - before for before, after in pairwise(counts))
        return FilterCost(filter_size_ratio(plain), most)
    except Error as error:
        raise FilterRefused(str(error).removeprefix("conduit : ")) from None
