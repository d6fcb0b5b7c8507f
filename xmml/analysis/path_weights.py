"""What a chain of computations and messages consists of: how often whom, for weighing it anew with other times.

Who waits for whom does not depend on how long anything takes: the task graph of a network of first-in-first-out
channels is the same for every speed. So a chain that was critical once is a chain for all other speeds, too, and what
it takes then is a lower bound of the makespan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from xmml.analysis.operations import Operation, Repetition
from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class PathWeights:
    """A chain from the beginning of a process.

    Attributes:
        begins: the process that it begins with.
        computing_ns: by process, how long it computes on the chain, at the speed of the simulation.
        messages: by channel, how many messages are on their way on the chain; only channels with a travel time count.
    """

    begins: int
    computing_ns: Mapping[int, int]
    messages: Mapping[int, int]


def path_weights(end: Operation) -> PathWeights:
    """Return the chain that led to an operation, summed up. Linear in the operations that were carried out."""
    weights, begin = _Walk().back(end, -1)
    assert begin is not None, "every chain begins with a process"
    return PathWeights(
        begin.what,
        {what: weight for what, weight in sorted(weights.items()) if what >= 0},
        {-1 - what: weight for what, weight in sorted(weights.items()) if what < 0},
    )


class _Walk:
    """Walks back along a chain; periods that were jumped over are followed round only until the way repeats itself."""

    def __init__(self) -> None:
        self.elements: dict[Repetition, dict[Operation, int]] = {}
        self.turns: dict[tuple[Repetition, int], tuple[Counter[int], int]] = {}

    def back(self, operation: Operation, after: int) -> tuple[Counter[int], Operation]:
        """Return the weights (nanoseconds by process, messages by -1 - channel) back to an operation numbered up to
        `after`, or to the begin, and that operation."""
        weights: Counter[int] = Counter()
        while operation.number > after:
            if operation.repetition is not None:
                more, operation = self._through(operation.repetition, operation.element)
                weights.update(more)
                continue
            if operation.before is None:
                break
            weights[operation.what] += operation.duration if operation.what >= 0 else 1
            operation = operation.before
        return weights, operation

    def _through(self, one: Repetition, element: int) -> tuple[Counter[int], Operation]:
        """Follow the chain through all turns of a repetition, from an element of its end."""
        begins: dict[int, int] = {}
        turns: list[Counter[int]] = []
        while len(turns) < one.times and element not in begins:
            begins[element] = len(turns)
            turn, element = self._turn(one, element)
            turns.append(turn)
        weights: Counter[int] = Counter()
        for turn in turns:
            weights.update(turn)
        if len(turns) < one.times:
            place = begins[element]
            circle = turns[place:]
            whole, rest = divmod(one.times - len(turns), len(circle))
            for number, turn in enumerate(circle):
                times = whole + (number < rest)
                weights.update({what: times * weight for what, weight in turn.items()})
            element = list(begins)[place + rest]
        return weights, one.last[element]

    def _turn(self, one: Repetition, element: int) -> tuple[Counter[int], int]:
        """Follow the chain through one turn; returns the element of the state before it."""
        known = self.turns.get((one, element))
        if known is None:
            if one not in self.elements:
                self.elements[one] = {operation: number for number, operation in enumerate(one.first)}
            weights, operation = self.back(one.last[element], one.after)
            known = self.turns[one, element] = weights, self.elements[one][operation]
        return known
