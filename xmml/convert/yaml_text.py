"""YAML texts as nodes that know their place, read without constructing anything, and within bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from xmml.convert.ymmsl_file import Place
from xmml.late_dataclass import dataclass
from xmml.problems import ModelError, Problem

#: Largest file, in bytes; deepest nesting; most aliases; most nodes that may be visited, aliases followed.
MAX_BYTES = 16 * 2**20
MAX_DEPTH = 32
MAX_ALIASES = 1000
MAX_NODES = 1_000_000

_TOO_DEEP = f"nested more than {MAX_DEPTH} deep"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_REAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


@dataclass
class Yaml:
    """A text being read; `problems` went wrong so far."""

    file: str
    text: str

    def __post_init__(self) -> None:
        self.lines = self.text.split("\n")
        self.problems: list[Problem] = []
        self._visited = 0

    def root(self) -> Any:
        """Return the root node; `None` for an empty text.

        Raises:
            ModelError: it is no YAML, or beyond a bound.
        """
        try:
            self._check_bounds()
            return yaml.compose(self.text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = self.place_at(mark.line, mark.column) if mark else Place(self.file, 1, 1, 1, "")
            what = " ".join(part for part in (error.context, error.problem) if part)
            # Newer parsers have a bound of their own, and look further ahead than they tell of events.
            if "maximum nesting depth" in what:
                raise self.refusal(_TOO_DEEP) from None
            raise ModelError([place.problem(f"not well-formed YAML: {what}", _MENDING, "Y01")]) from None
        except yaml.YAMLError as error:
            raise self.refusal(f"not well-formed YAML: {str(error).splitlines()[0]}") from None
        except (ValueError, RecursionError) as error:
            raise self.refusal(f"not readable as YAML: {error}") from None

    def _check_bounds(self) -> None:
        depth = aliases = 0
        for event in yaml.parse(self.text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.AliasEvent):
                aliases += 1
            if depth > MAX_DEPTH:
                raise self.refusal(_TOO_DEEP)
            if aliases > MAX_ALIASES:
                raise self.refusal(f"more than {MAX_ALIASES} aliases")

    def refusal(self, message: str) -> ModelError:
        """Return the error of a file that is not read at all."""
        return ModelError([Place(self.file, 1, 1, 1, "").problem(message, code="Y01")])

    def place(self, node: Any) -> Place:
        """Return where a node begins."""
        start, end = node.start_mark, node.end_mark
        length = end.column - start.column if end.line == start.line else 1
        return self.place_at(start.line, start.column, max(length, 1))

    def place_at(self, line: int, column: int, length: int = 1) -> Place:
        """Return a place by line and column, both counted from 0; to YAML a few more characters end a line."""
        line = min(line, len(self.lines) - 1)
        quote = self.lines[line].rstrip("\r")
        return Place(self.file, line + 1, min(column, len(quote)) + 1, length, quote)

    def wrong(self, node: Any, message: str, help: str = "") -> None:
        """Add a problem at a node."""
        self.problems.append(self.place(node).problem(message, help))

    def visit(self) -> None:
        """Count a node.

        Raises:
            ModelError: they are too many, through aliases of aliases.
        """
        self._visited += 1
        if self._visited > MAX_NODES:
            raise self.refusal(f"more than {MAX_NODES} values, aliases included")

    # Kinds of nodes

    def pairs(self, node: Any, what: str) -> Iterator[tuple[str, Any, Any]]:
        """Yield key, key node and value node of a mapping; nothing, with a problem, if it is none."""
        if is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, f"{what} must be a mapping (name: value)")
            return
        seen: set[str] = set()
        for key, value in node.value:
            self.visit()
            if not isinstance(key, yaml.ScalarNode):
                self.wrong(key, f"a key of {what} must be a name")
            elif key.value in seen:
                self.wrong(key, f'"{key.value}" stands twice in {what}', "remove one of them")
            else:
                seen.add(key.value)
                yield key.value, key, value

    def items(self, node: Any, what: str) -> list[Any]:
        """Return the nodes of a sequence."""
        if not isinstance(node, yaml.SequenceNode):
            self.wrong(node, f"{what} must be a list")
            return []
        for _ in node.value:
            self.visit()
        return list(node.value)

    def string(self, node: Any, what: str) -> str:
        """Return the text of a scalar."""
        if not isinstance(node, yaml.ScalarNode):
            self.wrong(node, f"{what} must be a text")
            return ""
        return "" if is_null(node) else str(node.value)

    def words(self, node: Any, what: str) -> list[tuple[str, Any]]:
        """Return words, of a list or separated by blanks, each with its node."""
        if isinstance(node, yaml.SequenceNode):
            return [(self.string(each, what), each) for each in self.items(node, what)]
        return [(word, node) for word in self.string(node, what).split()]

    def number(self, node: Any, what: str) -> int | None:
        """Return a whole number of at least 1; `None`, with a problem, if it is none."""
        value = scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if type(value) is not int or not 1 <= value < 2**31:
            self.wrong(node, f"{what} must be a whole number of at least 1")
            return None
        return value

    def truth(self, node: Any, what: str) -> bool:
        """Return true or false."""
        value = scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if type(value) is not bool:
            self.wrong(node, f"{what} must be true or false")
            return False
        return value


_MENDING = "check the indentation (blanks, no tabs), and put texts with : or # into quotes"


def is_null(node: Any) -> bool:
    """Return whether nothing stands there."""
    return isinstance(node, yaml.ScalarNode) and not node.style and _WORDS.get(node.value, False) is None


def scalar(node: Any) -> str | bool | int | float | None:
    """Return the value of a scalar node: only what is not in quotes can be something else than a text."""
    text: str = node.value
    if node.style:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text
