"""Where something stands in the text of a document: file, line and column, also across included files."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from xmml.late_dataclass import dataclass

_LONGEST_QUOTE = 160
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, order=True)
class Position:
    """A place in a file; line and column count from 1, the column in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Mark:
    """A stretch of one line that a message points at with carets, and what is written beside them."""

    position: Position
    length: int = 1
    note: str = ""


class Source:
    """The text of one file, kept so that messages can quote it."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text

    def __repr__(self) -> str:
        return f"Source({self.file!r}, {len(self.text)} characters)"

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def quote(self, mark: Mark) -> tuple[str, int]:
        """Return the line a mark points into, or the piece around it if it is long, and the piece's first column."""
        starts = self._line_starts
        number = mark.position.line
        if not 1 <= number <= len(starts):
            return "", 1
        start = starts[number - 1]
        end = starts[number] if number < len(starts) else len(self.text)
        marked = start + mark.position.column - 1
        if marked + mark.length - start > _LONGEST_QUOTE:
            start = max(start, marked - 40)
        return self.text[start : min(end, start + _LONGEST_QUOTE)].rstrip("\r\n"), start - starts[number - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the index in the text of a line and column, both from 1."""
        starts = self._line_starts
        return starts[min(max(line, 1), len(starts)) - 1] + column - 1

    def position(self, offset: int) -> Position:
        """Return the position of an index in the text."""
        line = max(1, bisect_right(self._line_starts, offset))
        return Position(self.file, line, offset - self._line_starts[line - 1] + 1)
