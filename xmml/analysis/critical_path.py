"""The chain of computations and messages that the end of a run has to wait for.

From the last operation back: each began when the one before ended. Where the simulation jumped over periods, the way
through one period leads from every element of the state at its end to an element of the same state at its beginning;
following it as often as the period was repeated soon goes in a circle, which is counted instead of walked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xmml.analysis.network import Network
from xmml.analysis.operations import History, Operation, Repetition

What = Literal["computing", "message"]

#: A path of more parts is told in so many, and the rest of it by process.
MOST_PARTS = 1_000


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the path.

    Attributes:
        process: who computes, or receives the message.
        what: computing, or a message on its way.
        count: how often in a row, counting only what takes time.
        time_ns: all of them together.
    """

    process: int
    what: What
    count: int
    time_ns: int


def critical_path(network: Network, history: History, end_ns: Sequence[int]) -> tuple[Part, ...]:
    """Return the path to the end of the process that ends last, from its beginning.

    The times of its parts add up to the makespan. What comes round several times is told once, with how often. Linear
    in the operations that were carried out.
    """
    if not history.last:
        return ()
    end = max(range(len(end_ns)), key=lambda process: end_ns[process])
    parts, _ = _Way(network).back(history.last[end], -1)
    whole = _merged(parts[::-1])
    if len(whole) > MOST_PARTS:
        whole = whole[:MOST_PARTS] + _together(whole[MOST_PARTS:], 1)
    return tuple(whole)


class _Way:
    def __init__(self, network: Network) -> None:
        self.network = network
        self.elements: dict[Repetition, dict[Operation, int]] = {}
        self.turns: dict[tuple[Repetition, int], tuple[list[Part], int]] = {}

    def back(self, operation: Operation | None, after: int) -> tuple[list[Part], Operation | None]:
        """Follow the path back until it reaches an operation with a number up to `after`.

        Returns:
            the parts, the latest first, and that operation.
        """
        parts: list[Part] = []
        while operation is not None and operation.number > after:
            if operation.repetition is not None:
                turns, operation = self.through(operation.repetition, operation.element)
                parts += turns
                continue
            what = operation.what
            if what >= 0:
                _add(parts, Part(what, "computing", 1, operation.duration))
            else:
                receiver = self.network.channels[-1 - what].receiver
                _add(parts, Part(receiver, "message", 1, operation.duration))
            operation = operation.before
        return parts, operation

    def through(self, one: Repetition, element: int) -> tuple[list[Part], Operation]:
        """Follow the path through all turns of a repetition, from an element of its end.

        Returns:
            the parts, the latest first, and what led to the state from which the turns were counted.
        """
        begins: dict[int, int] = {}
        turns: list[list[Part]] = []
        while len(turns) < one.times and element not in begins:
            begins[element] = len(turns)
            turn, element = self.turn(one, element)
            turns.append(turn)
        parts = [part for turn in turns for part in turn]
        if len(turns) < one.times:
            place = begins[element]
            circle = turns[place:]
            whole, rest = divmod(one.times - len(turns), len(circle))
            parts += _together([part for turn in circle for part in turn], whole)
            parts += [part for turn in circle[:rest] for part in turn]
            element = list(begins)[place + rest]
        return parts, one.last[element]

    def turn(self, one: Repetition, element: int) -> tuple[list[Part], int]:
        """Follow the path through one turn; returns the element of the state before it."""
        known = self.turns.get((one, element))
        if known is None:
            if one not in self.elements:
                self.elements[one] = {operation: number for number, operation in enumerate(one.first)}
            parts, operation = self.back(one.last[element], one.after)
            assert operation is not None, "a period begins with a state that something led to"
            known = self.turns[one, element] = parts, self.elements[one][operation]
        return known


def _add(parts: list[Part], part: Part) -> None:
    if part.time_ns > 0:
        if parts and (parts[-1].process, parts[-1].what) == (part.process, part.what):
            last = parts.pop()
            part = Part(part.process, part.what, last.count + part.count, last.time_ns + part.time_ns)
        parts.append(part)


def _merged(parts: Sequence[Part]) -> list[Part]:
    merged: list[Part] = []
    for part in parts:
        _add(merged, part)
    return merged


def _together(parts: Sequence[Part], times: int) -> list[Part]:
    """Return parts that come round several times as one for each process."""
    total: dict[tuple[int, What], Part] = {}
    for part in parts if times else ():
        key = (part.process, part.what)
        before = total.get(key, Part(*key, 0, 0))
        total[key] = Part(*key, before.count + part.count * times, before.time_ns + part.time_ns * times)
    return list(total.values())
