"""Words of others on a terminal: what a program has written, or the folder of a run says, must not command it."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,30}m)")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)(?=[^\n])")


def printable(text: str) -> str:
    """Return a line without characters that a terminal would obey.

    >>> printable("pending\\x1b]0;owned\\a")
    'pending�]0;owned�'
    """
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def shown(text: str) -> str:
    """Return what a program has written as a terminal may have it: with its lines, tabs and colours, of a line that is
    written over again and again the last words, and nothing else that a terminal would obey.

    >>> shown("10 %\\r20 %\\n\\x1b[31mred\\x1b[0m\\x1b[2J")
    '20 %\\n\\x1b[31mred\\x1b[0m�[2J'
    """
    text = _OVERWRITTEN.sub("", text).replace("\r", "")
    pieces = _COLOUR.split(text)
    return "".join(piece if number % 2 else _plain(piece) for number, piece in enumerate(pieces))


def _plain(text: str) -> str:
    return "".join(each if each in "\n\t" else printable(each) for each in text)
