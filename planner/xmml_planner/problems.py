"""Problems that planning finds in a model, in the form of the checks."""

from __future__ import annotations

import linecache

from xmml.late_dataclass import dataclass
from xmml.positions import Mark, Position
from xmml.problems import Problem, Severity

#: The code of everything that planning reports.
CODE = "P01"


@dataclass(frozen=True)
class NodesWanted:
    """Nodes that would do, and what of each.

    Attributes:
        memory_bytes: 0: it does not matter.
    """

    nodes: int
    cores: int
    memory_bytes: int
    gpus: int


class NoPlan(Exception):
    """No plan satisfies the sites; the text says which constraint, and by how much.

    Attributes:
        would_do: nodes that would do for everything, if there is one site, and what lacks are cores, memory or GPUs.
    """

    def __init__(self, text: str, would_do: NodesWanted | None = None) -> None:
        super().__init__(text)
        self.would_do = would_do


class WishError(Exception):
    """A wish that names no instance or no site; the text says what to write instead."""


def problem_at(position: Position | None, message: str, help: str = "") -> Problem:
    """Return an error at a place in a document, with the line quoted."""
    quote = linecache.getline(position.file, position.line).rstrip("\r\n") if position else ""
    mark = Mark(position, max(1, len(quote[position.column - 1 :].split(" ")[0]))) if position and quote else None
    return Problem(Severity.ERROR, CODE, message, position, quote, mark, help)


def position_from_text(text: str) -> Position | None:
    """Return the position that a plan holds as `file:line:column`; `None` of an empty text."""
    file, _, rest = text.rpartition(":")[0].rpartition(":")
    if not file:
        return None
    return Position(file, int(rest), int(text.rpartition(":")[2]))
