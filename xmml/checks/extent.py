"""How much a model may ask for: E27 more copies, conduits, iterations or run time than can be handled.

No model that can be run comes near the bounds; a slip in a unit or a digit too many does. They keep everything that
looks at a model, and later at its run, within bearable time and memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from xmml.checks.index import Index, InstanceEntry
from xmml.definitions import positive_integer, quantity
from xmml.problems import Problem
from xmml.units import Dimension

#: Instances with all their copies.
MOST_COPIES = 100_000
#: Conduits: couplings with all the copies at their ends.
MOST_CONDUITS = 1_000_000
#: Iterations of an instance, over all its runs and copies: thirty years, if one takes a nanosecond.
MOST_ITERATIONS = 10**18
#: Run time of an implementation [s]: three hundred years.
MOST_SECONDS = 10**10


def copies(index: Index) -> Iterator[Problem]:
    """All instances with their copies, and all conduits between them, can be made."""
    total = 0
    for entry in index.entries:
        total += _copies(entry)
        if total > MOST_COPIES:
            attribute = "multiplicity" if entry.element.get("multiplicity") is not None else "id"
            message = f"with this instance there are {total} instances and copies; at most {MOST_COPIES} are possible"
            yield entry.element.problem("E27", message, "make multiplicity smaller", attribute)
            return
    conduits = 0
    for coupling, sender, receiver in index.coupled:
        if sender is not None and receiver is not None:
            conduits += _copies(sender[0]) * _copies(receiver[0])
        if conduits > MOST_CONDUITS:
            message = f"with this coupling there are {conduits} conduits; at most {MOST_CONDUITS} are possible"
            help = "a coupling has one conduit for each pair of copies at its ends: make a multiplicity smaller"
            yield coupling.problem("E27", message, help, "from")
            return


def run_times(index: Index) -> Iterator[Problem]:
    """Run times are such as somebody can wait for."""
    for definition in index.definition_elements:
        for element in definition.named("implementation"):
            runtime = quantity(element, "runtime", Dimension.TIME)
            if runtime is not None and runtime.value > MOST_SECONDS:
                message = f'a run time of "{element.get("runtime")}" is more than three hundred years'
                yield element.problem("E27", message, "look at its unit; a bare number is in seconds", "runtime")


def _copies(entry: InstanceEntry) -> int:
    return positive_integer(entry.element.get("multiplicity")) or 1
