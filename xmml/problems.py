"""What is wrong with a model, and how it is told: one value per problem, rendered as text or JSON."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from xmml.late_dataclass import dataclass
from xmml.positions import Mark, Position

#: So many problems each check tells at most; who has mended these sees the rest.
MOST_PROBLEMS = 2000


class Severity(Enum):
    """How bad a problem is: a model with an error does not run."""

    ERROR = "error"
    WARNING = "warning"


#: Every code a check can report, with the kind of problem it stands for.
CODES: Mapping[str, str] = {
    "E01": "the file is not a readable, well-formed xMML document",
    "E02": "the document breaks the xMML schema or uses an unknown run: setting",
    "E03": "an instance names no kind, or more than one",
    "E04": "two things have the same id",
    "E05": "a reference to something that does not exist",
    "E06": "a coupling runs from an in port or to an out port",
    "E07": "the operator of a port does not fit its direction",
    "E08": "a coupled port of a submodel has no operator",
    "E09": "a port of a mapper or terminal has an operator",
    "E10": "the ports of a mapper do not fit its type",
    "E11": "a terminal has not exactly the one port of its type",
    "E12": "several couplings lead into one in port",
    "E13": "a datatype extends an unknown datatype or, in the end, itself",
    "E14": "two scales of one element have the same id",
    "E15": "a quantity that cannot be read, or has the wrong dimension",
    "E16": "a scale with impossible values",
    "E17": "a fixed range to which an instance gives no value",
    "E18": "a mapper or terminal with a multiplicity or a state",
    "E19": "a multiplied instance coupled to something that cannot address its copies",
    "E20": "a formula that cannot be read or evaluated",
    "E21": "somebody waits for ever: a deadlock, or fewer messages sent than received",
    "E22": "a parameter or an override that fits nothing in the model",
    "E23": "a class that is not built in, or does not fit",
    "E24": "a built-in filter or terminal without what it needs",
    "E25": "a port that leads to different numbers of copies",
    "E26": "inline code that is not Python",
    "E27": "more copies, iterations or run time than can be handled",
    "E28": "a decomposition that fits neither its ranks nor its scales, or a filter that cannot work on parts",
    "E29": "an open port that is coupled, or that nobody could open",
    "E30": "a file out of the folder of the model and the working folder",
    "E31": "attributes of objects that cannot be read",
    "E32": "a selector that cannot be read, or does not fit the attributes of the objects",
    "E33": "a pool or a latest coupling where none can be, or a setting of another kind of coupling",
    "E34": "an instance without which a run is to go on, and on which others depend",
    "W01": "messages of another datatype than the receiver expects",
    "W02": "a coupling that does not fit the time scales of its ends",
    "W03": "something that nothing is coupled to, or nothing uses",
    "W04": "an out port with several receivers",
    "W05": "an unknown attribute",
    "W06": "an instance that starts at once although nothing says so",
    "W07": "a quantity without a unit",
    "W08": "a filter along an unknown dimension",
    "W09": "delta or total given twice",
    "W10": "an id that couplings cannot name",
    "W11": "messages that nobody takes",
    "W12": "a submodel of another domain that forgets its state between calls",
    "W13": "a parameter file entry that fits nothing in the model",
    "W14": "a program or file that is not there",
    "W15": "a language that is not known, or that inline code cannot have",
    "W16": "a total that is no whole number of deltas",
    "W17": "a size of messages that cannot be worked out",
    "W18": "a selector that no object can satisfy",
    "W19": "a wait for the newest message that may be part of a deadlock",
}


@dataclass(frozen=True)
class Problem:
    """One finding about a model document.

    Attributes:
        severity: error or warning.
        code: a key of `CODES`.
        message: what is wrong, in one sentence without a full stop.
        position: where; `None` for what stands in no file (an option of the command line).
        quote: the line of the document that the mark points into, or a piece of it if it is long.
        mark: what the carets point at.
        help: what to do about it; may be empty.
        quote_column: the column of the line at which the quote begins.
    """

    severity: Severity
    code: str
    message: str
    position: Position | None = None
    quote: str = ""
    mark: Mark | None = None
    help: str = ""
    quote_column: int = 1

    @property
    def is_error(self) -> bool:
        """Whether this problem keeps the model from running."""
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        return render(self)

    def as_json(self) -> dict[str, Any]:
        """Return the problem as plain values for JSON."""
        place = self.position
        mark = self.mark
        return {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "file": place.file if place else None,
            "line": place.line if place else None,
            "column": place.column if place else None,
            "quote": self.quote or None,
            "mark": {
                "line": mark.position.line,
                "column": mark.position.column,
                "length": mark.length,
                "note": mark.note or None,
            }
            if mark
            else None,
            "help": self.help or None,
        }


class ModelError(Exception):
    """A document or model that cannot be used; `problems` says why, its text is what to show to a person."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__(render_all(self.problems))


_COLOURS = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m"}
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def render(problem: Problem, colour: bool = False) -> str:
    """Return the problem as text: `file:line:column: error[E06]: ...`, the line, carets under it, and help."""

    def paint(style: str, text: str) -> str:
        return f"{style}{text}{_PLAIN}" if colour else text

    label = paint(_COLOURS[problem.severity], f"{problem.severity.value}[{problem.code}]")
    place = f"{printable(str(problem.position))}: " if problem.position else ""
    lines = [f"{paint(_BOLD, place)}{label}: {printable(problem.message)}"]
    mark = problem.mark
    if mark is not None and problem.quote:
        gutter = f"{mark.position.line:>5} | "
        start = min(max(mark.position.column - problem.quote_column, 0), len(problem.quote))
        before = "".join("\t" if character == "\t" else " " for character in problem.quote[:start])
        lines.append(paint(_DIM, gutter) + printable(problem.quote))
        carets = " " * (len(gutter) - 2) + "| " + before + "^" * max(1, min(mark.length, len(problem.quote) - start))
        note = f" {printable(mark.note)}" if mark.note else ""
        lines.append(
            paint(_DIM, carets[: len(gutter)]) + paint(_COLOURS[problem.severity], carets[len(gutter) :] + note)
        )
    if problem.help:
        lines.append(f"   {paint(_BOLD, 'help:')} {printable(problem.help)}")
    return "\n".join(lines)


def printable(text: str) -> str:
    """Return text from a document without characters that would steer a terminal."""
    return "".join(
        character if character.isprintable() or character == "\t" else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def render_all(problems: Iterable[Problem], colour: bool = False) -> str:
    """Return all problems as text, one under the other."""
    return "\n".join(render(problem, colour) for problem in problems)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems by place in the documents, none twice; those without a place come last."""
    unique = dict.fromkeys(problems)

    def place(problem: Problem) -> tuple[bool, Position, str]:
        return problem.position is None, problem.position or Position("", 0, 0), problem.code

    return sorted(unique, key=place)


def errors_in(problems: Iterable[Problem]) -> list[Problem]:
    """Return only the errors."""
    return [problem for problem in problems if problem.is_error]


def did_you_mean(word: str, known: Iterable[str], what: str = "") -> str:
    """Return a hint that names the closest known words, or the first ones if none is close."""
    words = sorted(set(known))
    word = word[:80]
    close = difflib.get_close_matches(word, words, n=3, cutoff=0.6)
    if not close:
        lowered = {candidate.lower(): candidate for candidate in words}
        close = [lowered[match] for match in difflib.get_close_matches(word.lower(), lowered, n=3, cutoff=0.6)]
    if close:
        return "did you mean " + " or ".join(f'"{match}"' for match in close) + "?"
    if not words:
        return f"there are no {what}" if what else ""
    others = f" and {len(words) - 8} others" if len(words) > 8 else ""
    return f"known{' ' + what if what else ''}: " + ", ".join(f'"{candidate}"' for candidate in words[:8]) + others
