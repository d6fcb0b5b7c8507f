"""What a simulation carried out, in the order in which it did, for finding out what the end had to wait for."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

#: The latest time [ns] that columns of machine integers can hold.
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a process.

    Attributes:
        process: its place in `Network.processes`.
        at: which of its operations: receive before a run, send, receive in the loop, send at the end (0 to 3).
        begin_ns, end_ns: when.
        cause: the operation that it had to wait for longest; -1 if for none.
    """

    process: int
    at: int
    begin_ns: int
    end_ns: int
    cause: int


@dataclass(frozen=True, slots=True)
class Repetition:
    """A stretch of operations that the simulation did not carry out again, but counted.

    Attributes:
        first, after: the stretch is `range(first, after)`; what follows comes after `times` more of them.
        times: how often it was repeated.
        shift_ns: how much later what follows is.
        follows: by operation that something at the beginning of the stretch goes back to, the operation that the same
            thing at its end goes back to; of several the latest, which is the one that moved.
    """

    first: int
    after: int
    times: int
    shift_ns: int
    follows: dict[int, int]


@dataclass
class History:
    """Operations by number, in columns, and the stretches that were repeated."""

    process: array[int] = field(default_factory=lambda: array("q"))
    at: array[int] = field(default_factory=lambda: array("b"))
    begin_ns: array[int] | list[int] = field(default_factory=lambda: array("q"))
    end_ns: array[int] | list[int] = field(default_factory=lambda: array("q"))
    cause: array[int] = field(default_factory=lambda: array("q"))
    repetitions: list[Repetition] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.process)

    def add(self, operation: Operation) -> int:
        """Add an operation and return its number."""
        self.process.append(operation.process)
        self.at.append(operation.at)
        if operation.end_ns > _LARGEST and not isinstance(self.end_ns, list):  # more than 292 years
            self.begin_ns, self.end_ns = list(self.begin_ns), list(self.end_ns)
        self.begin_ns.append(operation.begin_ns)
        self.end_ns.append(operation.end_ns)
        self.cause.append(operation.cause)
        return len(self.process) - 1

    def repeat(
        self, first: int, after: int, times: int, shift_ns: int, before: Sequence[int], now: Sequence[int]
    ) -> None:
        """Note that the operations `range(first, after)` happen `times` more often.

        Args:
            before, now: the operations that clocks and messages go back to, at both ends of the stretch, in one order.
        """
        follows: dict[int, int] = {}
        for old, new in zip(before, now, strict=True):
            follows[old] = max(new, follows.get(old, new))
        self.repetitions.append(Repetition(first, after, times, shift_ns, follows))
