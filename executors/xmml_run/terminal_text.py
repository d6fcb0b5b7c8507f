"""Words of others on a terminal: what a program has written, or the folder of a run says, must not command it."""

from __future__ import annotations

import contextlib
import re
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any, TextIO, cast

#: Control characters, halves of characters, and ends of lines other than "\n".
_COMMANDS = ("Cc", "Cs", "Zl", "Zp")
#: What follows these is shown in another order.
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,30}m)")


def printable(text: str) -> str:
    """Return a line without characters that a terminal would obey.

    >>> printable("pending\\x1b]0;owned\\a")
    'pending�]0;owned�'
    """
    if text.isprintable():
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_command(each) else each for each in text)


def shown(text: str) -> str:
    """Return what a program has written as a terminal may have it: with its lines, tabs and colours, of a line that is
    written over again and again the last words, and nothing else that a terminal would obey.

    >>> shown("10 %\\r20 %\\n\\x1b[31mred\\x1b[0m\\x1b[2J")
    '20 %\\n\\x1b[31mred\\x1b[0m�[2J'
    """
    text = "\n".join(map(_last_words, text.split("\n"))) if "\r" in text else text
    pieces = _COLOUR.split(text)
    return "".join(piece if number % 2 else _plain(piece) for number, piece in enumerate(pieces))


class _Guarded:
    """A stream that lets nothing through, as long as it leads to a terminal, that would command that.

    Attributes:
        unguarded: the stream itself.
    """

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        """Write text."""
        self.unguarded.write(shown(text) if self.unguarded.isatty() else text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


@contextlib.contextmanager
def guarded_terminal() -> Iterator[None]:
    """Let nothing that is printed command the terminal, as long as the block lasts: errors and reports name what sites,
    programs and files of others have chosen. A file or a pipe gets what is written."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _Guarded(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unguarded(stream: TextIO) -> TextIO:
    """Return a stream for whoever commands the terminal, or has been told to let others do it."""
    return stream.unguarded if isinstance(stream, _Guarded) else stream


def _last_words(line: str) -> str:
    """Return what is behind the place where the writer of a line has begun it again (`\\r`) for the last time."""
    return line[line.rfind("\r", 0, max(0, len(line) - 1)) + 1 :].replace("\r", "")


def _is_command(character: str) -> bool:
    return unicodedata.category(character) in _COMMANDS or character in _REORDERING


def _plain(text: str) -> str:
    return "".join(each if each in "\n\t" else printable(each) for each in text)
