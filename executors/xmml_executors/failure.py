"""What went wrong with an instance, in words, and which of several failures was the cause."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Sequence
from enum import Enum

from xmml_planner.ranks import RANK_MARK

from xmml.late_dataclass import dataclass
from xmml_executors.instance_record import InstanceRecord

#: A partner notices a crash about when we do. Within this time a silent end is taken for the cause of a failure that
#: names it.
SIMULTANEOUS_S = 0.05


#: So many instances of a process that died are named at most.
MOST_NAMES = 20


class FailureSymptom(Enum):
    """The first sign that an instance gave of its failure."""

    REPORTED = "reported"
    LOST = "lost"
    ENDED = "ended"
    REFUSED = "refused"
    UNWRITABLE = "unwritable"
    DEADLY = "deadly object"

    @property
    def is_silent(self) -> bool:
        """Whether it came without a word of the instance."""
        return self in (FailureSymptom.LOST, FailureSymptom.ENDED)

    @property
    def is_death(self) -> bool:
        """Whether the instance had begun, and cannot go on. What could not begin, or asked too much, is no death."""
        return self in (FailureSymptom.REPORTED, FailureSymptom.LOST, FailureSymptom.ENDED)


@dataclass(frozen=True)
class Failure:
    """That an instance failed: the first sign, what it says, and when it came (monotonic seconds)."""

    instance: str
    sign: FailureSymptom
    text: str
    at: float


def cause_of(failures: Sequence[Failure], within_s: float = SIMULTANEOUS_S) -> Failure:
    """Return the failure that the others followed from: the first, or a silent one at the same moment (`within_s`) that
    it names.

    The other ranks of a program that fails end with it, and so are no cause.
    """
    first = min(failures, key=lambda failure: failure.at)
    if not first.sign.is_silent:
        for other in failures:
            if _program(other) == _program(first):
                continue
            if other.sign.is_silent and other.at - first.at <= within_s and _names(first.text, other.instance):
                return other
    return first


def concerns(failure: Failure, instances: Collection[str]) -> bool:
    """Whether what a failed instance says names another one, of these, whose own failure may be the cause."""
    return any(_names(failure.text, name) for name in instances if name != failure.instance)


def _program(failure: Failure) -> str:
    return failure.instance.partition(RANK_MARK)[0]


def _names(text: str, instance: str) -> bool:
    return re.search(rf"(?<![\w\[\]-]){re.escape(instance)}(?![\w\[-])", text) is not None


def describe(failure: Failure, record: InstanceRecord, own_files: Collection[str] = ()) -> str:
    """Return in one line which instance failed, at what, and where, as far as it is known.

    Args:
        failure: the cause.
        record: the instance, with how its process ended.
        own_files: folders of the user's programs; a place in a traceback outside of them is not told.
    """
    what = _what(failure, record)
    place = _place(record.last_words, own_files)
    if place and place not in what:
        what = f"{what} (at {place})"
    return f"{failure.instance} failed: {one_line(what)}"


def _what(failure: Failure, record: InstanceRecord) -> str:
    if failure.sign in (FailureSymptom.REFUSED, FailureSymptom.UNWRITABLE):
        return failure.text
    if failure.sign is FailureSymptom.DEADLY:
        return f"{failure.text}: {manner_of_death(record)}"
    return manner_of_death(record)


def manner_of_death(record: InstanceRecord) -> str:
    """Return how an instance failed, or what has become of its process."""
    if record.failure:
        return record.failure
    when = "" if record.joined_at is not None else " before it joined the run"
    if record.died_with:
        return f"{_end_of_process(record)}; with it ended {_listed(record.died_with)}"
    if record.signal is not None:
        return f"it was killed by {signal_name(record.signal)}{when}{_for_want_of_memory(record)}"
    if record.exit_status:
        if record.left_at is not None:
            when = " after it left the run"
        said = _last_words(record.last_words)
        said = f": {said}" if said else ""
        return f"it ended with exit status {record.exit_status}{when}{said}{_for_want_of_memory(record)}"
    if record.exit_status == 0 and record.joined_at is None:
        return "it ended without joining the run: the program must make an xmml.Instance (C: call xmml_join)"
    if record.exit_status == 0:
        return "it ended without leaving the run: the program must close its xmml.Instance (C: call xmml_leave)"
    if record.has_vanished:
        return "the process that had joined the run is gone, though what started it goes on"
    return "it lost its connection to the run"


def _end_of_process(record: InstanceRecord) -> str:
    process = f"its process, {record.process},"
    if record.signal is not None:
        return f"{process} was killed by {signal_name(record.signal)}{_for_want_of_memory(record)}"
    said = _last_words(record.last_words)
    said = f": {said}" if said else ""
    return f"{process} ended with exit status {record.exit_status}{said}{_for_want_of_memory(record)}"


def _for_want_of_memory(record: InstanceRecord) -> str:
    return f": {record.no_memory}" if record.no_memory else ""


def _listed(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"


def signal_name(number: int) -> str:
    """Return the name and meaning of a signal: `SIGSEGV (Segmentation fault)`."""
    try:
        return f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    except ValueError:
        return f"signal {number}"


def _last_words(lines: Sequence[str]) -> str:
    """Return the last line that has a word in it, not only a ruler."""
    for line in reversed(lines):
        if any(character.isalpha() for character in line):
            return line.strip()
    return ""


_TRACEBACK_PLACE = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')


def _place(lines: Sequence[str], own_files: Collection[str]) -> str:
    """Return the innermost place of a Python traceback that lies in the user's own files."""
    for line in reversed(lines):
        found = _TRACEBACK_PLACE.match(line)
        if found and any(found["file"].startswith(folder) for folder in own_files):
            return f"{found['file']}:{found['line']}"
    return ""


def one_line(text: str, longest: int = 600) -> str:
    """Return the text in one line of printable characters, cut if it is very long."""
    joined = " ".join(text.split())
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in joined)
    return shown if len(shown) <= longest else shown[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"
