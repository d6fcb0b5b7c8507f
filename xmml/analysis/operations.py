"""What took time in a simulation, each with what came before it: for finding out what the end had to wait for."""

from __future__ import annotations

from xmml.late_dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """Something that took time. The chain of what came before it leads back to the start.

    Attributes:
        number: operations are numbered as they come about.
        what: the process that computed, or -1 - the channel on which a message travelled.
        duration: nanoseconds.
        before: what ended when this began; `None` at the start.
        repetition, element: instead of that: periods were jumped over, and this stands for one element of their end.
    """

    number: int
    what: int
    duration: int
    before: Operation | None
    repetition: Repetition | None = None
    element: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Repetition:
    """Periods that were jumped over: what happened between two equal states of a group happens `times` times more.

    Attributes:
        first, last: by element of the state (processes, messages on their way) what led to it at the two ends.
        after: number of the latest operation at the first end.
    """

    first: tuple[Operation, ...]
    last: tuple[Operation, ...]
    after: int
    times: int


@dataclass(frozen=True)
class History:
    """What a simulation carried out.

    Attributes:
        last: by process, what led to its last operator.
    """

    last: tuple[Operation, ...]
