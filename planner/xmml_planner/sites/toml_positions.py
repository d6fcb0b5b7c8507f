"""Where in the text of a TOML document every key and value stands, which the standard library's reader does not tell.

>>> parsed = parse_toml('[site.alpha]\\ncores = 4\\n')
>>> parsed["site"]["alpha"]["cores"].value
4
>>> parsed["site"]["alpha"]["cores"].value_span
(21, 22)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from xmml.late_dataclass import dataclass

Span = tuple[int, int]

_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]+")
#: The pieces of a text that need not be TOML, each of which is read once: comments, texts (one that is not closed ends
#: with its line, or with the document), blanks, dots, words, and any other character.
_TOKEN = re.compile(
    r"#[^\n]*+"
    r'|"""(?:[^\\]|\\.)*?(?:"{3,5}|\\?\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|[ \t]++"
    r"|(?P<dot>\.)"
    r"|[A-Za-z0-9_-]++"
    r"|.",
    re.DOTALL,
)
#: Parts that a dotted key may have: the reader of the standard library takes the square of their number in memory.
MOST_PARTS = 64
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass
class Node:
    """A value of the document.

    Attributes:
        value: as the standard library reads it.
        key_span: where its key stands (of an element of an array: the element); of a table, the header's last key.
        value_span: where the value stands; of a table with a header, the header.
        children: the values in a table by key.
        elements: the values in an array.
    """

    value: Any
    key_span: Span = (0, 0)
    value_span: Span = (0, 0)
    children: dict[str, Node] = field(default_factory=dict)
    elements: list[Node] = field(default_factory=list)

    def __getitem__(self, key: str) -> Node:
        return self.children[key]


class TomlError(ValueError):
    """A text that is no TOML.

    Attributes:
        message: why.
        line, column: where, from 1; 0: at the end.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def parse_toml(text: str) -> Node:
    """Return the document as a tree of values that know their places (offsets in the text).

    Raises:
        TomlError: the text is not TOML, or too deep, or has a number that TOML does not have.
    """
    _check_keys(text)
    try:
        document = tomllib.loads(text)
        root = Node(document)
        _Scanner(text, root).document()
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        message = _PLACE.sub("", str(error))
        line, column = (int(number or 0) for number in place.groups()) if place else (0, 0)
        raise TomlError(message, line, column) from None
    except RecursionError:
        raise TomlError("arrays or tables are nested too deeply", 1, 1) from None
    except TomlError:
        raise
    except ValueError:  # Python reads a number only up to so many digits
        place = _ENDLESS.search(text)
        raise _at(text, place.start() if place else 0, _BEYOND) from None
    return root


_ENDLESS = re.compile(r"(?<![0-9_])[0-9_]{1000}")
_BEYOND = "a whole number has more than 64 bits"


def _check_keys(text: str) -> None:
    """Look at the parts of every dotted key, before anything is made of them.

    Raises:
        TomlError: a key has too many.
    """
    dots, is_behind_dot = 0, False
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "dot":
            dots, is_behind_dot = dots + 1, True
            if dots >= MOST_PARTS:
                raise _at(text, token.start(), f"a key has more than {MOST_PARTS} parts")
        elif token.group()[0] not in " \t":  # the same key goes on only behind a dot
            dots, is_behind_dot = (dots if is_behind_dot else 0), False


def _at(text: str, offset: int, message: str) -> TomlError:
    return TomlError(message, text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


class _Scanner:
    """Walks through a text that is known to be valid, beside the values that were read from it."""

    def __init__(self, text: str, root: Node) -> None:
        self._text = text
        self._root = root
        self._at = 0

    def document(self) -> None:
        table = self._root
        while True:
            self._skip(_BLANK)
            if self._at >= len(self._text):
                return
            if self._text.startswith("[[", self._at):
                table = self._header("[[", "]]")
            elif self._text[self._at] == "[":
                table = self._header("[", "]")
            else:
                self._pair(table)

    def _skip(self, what: re.Pattern[str]) -> None:
        match = what.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _header(self, opening: str, closing: str) -> Node:
        start = self._at
        self._at += len(opening)
        keys = list(self._keys())
        self._at += len(closing)
        *parents, (name, span) = keys
        table = self._descend(self._root, parents)
        whole = start, self._at
        made = table.children.get(name)
        if made is None:
            made = table.children[name] = Node(table.value[name], span, whole)
        if closing == "]":
            made.key_span, made.value_span = span, whole
            return made
        element = Node(made.value[len(made.elements)], span, whole)
        made.elements.append(element)
        return element

    def _pair(self, table: Node) -> None:
        *parents, (name, span) = self._keys()
        table = self._descend(table, parents)
        self._at += 1  # the equals sign, which the keys end at
        table.children[name] = self._value(table.value[name], span)

    def _descend(self, table: Node, keys: list[tuple[str, Span]]) -> Node:
        for key, span in keys:
            child = table.children.get(key)
            if child is None:
                child = table.children[key] = Node(table.value[key], span, span)
            table = child.elements[-1] if child.elements else child
        return table

    def _keys(self) -> Iterator[tuple[str, Span]]:
        """Read a dotted key and the space behind it."""
        while True:
            self._skip(_SPACE)
            match = _STRING.match(self._text, self._at) or _BARE_KEY.match(self._text, self._at)
            assert match is not None
            name = match.group()
            if name[0] in "\"'":
                name = tomllib.loads(f"key = {name}")["key"]
            self._at = match.end()
            yield name, match.span()
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return
            self._at += 1

    def _value(self, value: Any, key_span: Span | None = None) -> Node:
        self._skip(_BLANK)
        start = self._at
        made = Node(value)
        if isinstance(value, list):
            self._array(made)
        elif isinstance(value, Mapping):
            self._inline_table(made)
        elif isinstance(value, str):
            match = _STRING.match(self._text, start)
            assert match is not None
            self._at = match.end()
        else:
            match = _SCALAR.match(self._text, start)
            assert match is not None
            self._at = start + len(match.group().rstrip())
            if type(value) is int and value.bit_length() > 64:
                raise _at(self._text, start, _BEYOND)
        made.value_span = start, self._at
        made.key_span = key_span or made.value_span
        return made

    def _array(self, made: Node) -> None:
        self._at += 1
        for value in made.value:
            made.elements.append(self._value(value))
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1
        self._skip(_BLANK)
        self._at += 1

    def _inline_table(self, made: Node) -> None:
        self._at += 1
        self._skip(_BLANK)
        while self._text[self._at] != "}":
            self._pair(made)
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip(_BLANK)
        self._at += 1
