"""The chain of computations and messages that the end of a run has to wait for.

From the last operation back: each was held up by one that came before. Where the simulation repeated a stretch, the way
through it is followed once for every thing that it may come from, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xmml.analysis.network import Network
from xmml.analysis.operations import History, Repetition

What = Literal["computing", "message"]


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

    The times of its parts add up to the makespan; parts that take no time are left out. Empty if the path cannot be
    followed through what was repeated, which is rare. Linear in the operations that were carried out.
    """
    if not len(history):
        return ()
    end = max(range(len(history)), key=lambda number: (history.end_ns[number], -number))
    if history.end_ns[end] < max(end_ns, default=0):
        return ()
    parts, _ = _Way(history).back(end, 0, len(history.repetitions))
    if sum(part.time_ns for part in parts) != history.end_ns[end]:
        return ()  # it cannot be followed through a repetition
    return tuple(_merged(parts[::-1]))


class _Way:
    def __init__(self, history: History) -> None:
        self.history = history

    def back(self, number: int, first: int, before: int) -> tuple[list[Part], int]:
        """Follow the path back from an operation, until before the operation `first`.

        Args:
            before: how many of the repetitions there were before the operation was carried out, or more.

        Returns:
            the parts, the latest first, and the operation before `first` that the path goes on with, or -1.
        """
        history, repetitions = self.history, self.history.repetitions
        parts: list[Part] = []
        while number >= first:
            _add(parts, history.process[number], "computing", history.end_ns[number] - history.begin_ns[number])
            while before and repetitions[before - 1].after > number:
                before -= 1
            cause = history.cause[number]
            came = history.end_ns[cause] if cause >= 0 else history.begin_ns[number]
            repeated: list[Part] = []
            # between the two, stretches may have been repeated
            while before and max(cause, first) < repetitions[before - 1].after:
                before -= 1
                one = repetitions[before]
                if cause >= one.first:
                    came += one.shift_ns
                    turns, cause = self.through(one, cause, before)
                    repeated += turns
            _add(parts, history.process[number], "message", history.begin_ns[number] - came)
            parts += repeated
            number = cause
        return parts, number

    def through(self, one: Repetition, number: int, before: int) -> tuple[list[Part], int]:
        """Follow the path through all turns of a repetition, from an operation that its end goes back to.

        Returns:
            the parts, the latest first, and the operation in the stretch itself that the path goes on with.
        """
        turns: list[list[Part]] = []
        begins: dict[int, int] = {}
        while len(turns) < one.times and number not in begins:
            begins[number] = len(turns)
            turn, origin = self.back(number, one.first, before)
            turns.append(turn)
            number = one.follows.get(origin, origin)
            if number < one.first:
                return [part for turn in turns for part in turn], number
        parts = [part for turn in turns for part in turn]
        if len(turns) == one.times:
            return parts, number
        place = begins[number]
        cycle = turns[place:]
        whole, rest = divmod(one.times - len(turns), len(cycle))
        parts += _repeated([part for turn in cycle for part in turn], whole)
        parts += [part for turn in cycle[:rest] for part in turn]
        return parts, list(begins)[place + rest]


def _add(parts: list[Part], process: int, what: What, time_ns: int) -> None:
    if time_ns <= 0:
        return
    if parts and (parts[-1].process, parts[-1].what) == (process, what):
        last = parts.pop()
        parts.append(Part(process, what, last.count + 1, last.time_ns + time_ns))
    else:
        parts.append(Part(process, what, 1, time_ns))


def _repeated(parts: Sequence[Part], times: int) -> list[Part]:
    """Return parts that come round several times as one for each of them."""
    total: dict[tuple[int, What], Part] = {}
    for part in parts:
        key = (part.process, part.what)
        before = total.get(key, Part(*key, 0, 0))
        total[key] = Part(*key, before.count + part.count * times, before.time_ns + part.time_ns * times)
    return list(total.values()) if times else []


def _merged(parts: Sequence[Part]) -> list[Part]:
    merged: list[Part] = []
    for part in parts:
        if merged and (merged[-1].process, merged[-1].what) == (part.process, part.what):
            last = merged.pop()
            part = Part(part.process, part.what, last.count + part.count, last.time_ns + part.time_ns)
        merged.append(part)
    return merged
