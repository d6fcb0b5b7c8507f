"""XInclude for model documents: parts of other local files, put in place before anything else looks at the document.

Supported: `href` with a fragment `#xpointer(/path)`, the attribute `xpointer`, neither (the root element),
`parse="text"`, and `xi:fallback`. A path is made of absolute child steps, each a name or `*`. Files are local, named
relative to the including file, and in reach (see `xmml.reach`); nothing is fetched.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from xmml.files import FileUnreadable, read_bytes
from xmml.positions import Source
from xmml.problems import ModelError, Problem
from xmml.reach import Reach, outside_problem, real_path
from xmml.tree import MAX_DEPTH, MAX_DOCUMENT_BYTES, XINCLUDE, Element, decode, parse, unreadable

#: How many inclusions a document may make in all, so that includes of includes cannot multiply without end.
MAX_INCLUDES = 1000
#: How deep files may include files.
MAX_NESTING = 8

_POINTER = re.compile(r"^\s*(?:xmlns\([^()]*\)\s*)*xpointer\(\s*((?:/\s*(?:[\w.-]+:)?(?:[\w.-]+|\*)\s*)+)\)\s*$")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


class Expansion:
    """One document's includes being put in place: `files` were read, `problems` went wrong."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self.files: list[str] = []
        self.problems: list[Problem] = []
        self._open: list[str] = []
        self._includes = 0
        self._bytes = 0
        self._depth = 0

    def read(self, path: str) -> Element:
        """Read a document and everything it includes.

        Raises:
            ModelError: this file itself cannot be read. Failing includes are collected in `problems` instead.
        """
        root = parse(self._text(path), path)
        self._open.append(real_path(path))
        try:
            self._expand_content(root)
        finally:
            self._open.pop()
        return root

    def _text(self, path: str) -> str:
        data = read_bytes(path)
        self._bytes += len(data)
        if path not in self.files:
            self.files.append(path)
        if self._bytes > 2 * MAX_DOCUMENT_BYTES:
            raise ModelError([unreadable(path, "the included files are too large in all")])
        return decode(data, path)

    def _expand_content(self, element: Element) -> None:
        if not any(isinstance(part, Element) for part in element.content):
            return
        if self._depth >= MAX_DEPTH:
            message = f"with what is included, elements are nested more than {MAX_DEPTH} deep"
            self.problems.append(element.problem("E01", message))
            return
        self._depth += 1
        expanded: list[Element | str] = []
        for part in element.content:
            if isinstance(part, str):
                expanded.append(part)
            elif part.namespace == XINCLUDE and part.name == "include":
                expanded.extend(self._included(part))
            elif part.namespace == XINCLUDE:
                self.problems.append(
                    part.problem("E01", f"xi:{part.name} may stand only inside xi:include", "remove it or move it")
                )
            else:
                self._expand_content(part)
                expanded.append(part)
        element.content = expanded
        self._depth -= 1

    def _included(self, include: Element) -> list[Element | str]:
        """Return what takes the place of one xi:include."""
        self._includes += 1
        if self._includes > MAX_INCLUDES:
            if self._includes == MAX_INCLUDES + 1:
                self.problems.append(include.problem("E01", f"the document makes more than {MAX_INCLUDES} inclusions"))
            return []
        asked = self._asked(include)
        if asked is None:
            return []
        path, steps, as_text = asked
        if not self._reach.holds(path):
            self.problems.append(outside_problem(include, include.get("href") or "", path, self._reach, "href"))
            return []
        if real_path(path) in self._open:
            chain = " includes ".join(f'"{os.path.basename(opened)}"' for opened in (*self._open, path))
            self.problems.append(
                include.problem("E01", f"this include goes round in a circle: {chain}", attribute="href")
            )
            return []
        if len(self._open) > MAX_NESTING:
            self.problems.append(include.problem("E01", f"files include files more than {MAX_NESTING} deep"))
            return []
        told = len(self.problems)
        try:
            if as_text:
                return [self._text(path)]
            root = self.read(path)
        except FileUnreadable as error:
            return self._fallback(include, path, str(error))
        except ModelError as error:
            self.problems.extend(error.problems)
            return []
        found = _select(root, steps) if steps else [root]
        if not found and len(self.problems) == told:
            self.problems.append(
                include.problem(
                    "E01",
                    f'the path {"".join("/" + step for step in steps)} selects nothing in "{path}"',
                    f"the root element there is <{root.name}>",
                    attribute="xpointer" if include.get("xpointer") else "href",
                )
            )
        return list(found)

    def _asked(self, include: Element) -> tuple[str, list[str], bool] | None:
        """Return file, path steps and whether it is text; `None`, with a problem, for what is not supported."""

        def refuse(message: str, help: str, attribute: str | None = None) -> None:
            self.problems.append(include.problem("E01", message, help, attribute=attribute))

        as_text = include.get("parse", "") == "text"
        href, _, fragment = (include.get("href") or "").partition("#")
        href = unquote(href)
        pointer, where = include.get("xpointer"), "xpointer"
        if pointer is None and fragment:
            pointer, where = unquote(fragment), "href"
        if include.get("parse") not in (None, "xml", "text"):
            refuse('parse must be "xml" or "text"', "", "parse")
        elif not href:
            refuse("this include names no file", 'write href="FILE", relative to this document')
        elif "\0" in href:
            refuse("the name of this file holds the character NUL", "remove %00", "href")
        elif _SCHEME.match(href) or href.startswith(("/", "\\")):
            refuse(
                f'"{href}" is not a file relative to this document; nothing is fetched or read from elsewhere',
                "copy the file beside the document and include that",
                "href",
            )
        elif pointer is None:
            return _beside(include.source, href), [], as_text
        else:
            steps = pointer_steps(pointer)
            if steps and not as_text:
                return _beside(include.source, href), steps, False
            refuse(f'the pointer "{pointer}" is not supported', "use xpointer(/name/*): child steps, names or *", where)
        return None

    def _fallback(self, include: Element, path: str, why: str) -> list[Element | str]:
        for child in include.children:
            if child.namespace == XINCLUDE and child.name == "fallback":
                self._expand_content(child)
                return child.content
        self.problems.append(
            include.problem(
                "E01",
                f'cannot include "{path}": {why}',
                "correct href, or add <xi:fallback> with what to use instead",
                attribute="href",
            )
        )
        return []


def _beside(source: Source, href: str) -> str:
    return str(Path(source.file).parent / href)


def pointer_steps(pointer: str) -> list[str]:
    """Return the steps of `xpointer(/a/*)`, without prefixes; empty if it is another kind of pointer."""
    match = _POINTER.match(pointer)
    return [step.strip().rpartition(":")[2] for step in match.group(1).split("/")[1:]] if match else []


def _select(root: Element, steps: list[str]) -> list[Element]:
    """Return the elements that absolute child steps lead to; names are compared without namespaces."""
    found = [root] if steps[0] in ("*", root.name) else []
    for step in steps[1:]:
        found = [child for element in found for child in element.children if step in ("*", child.name)]
    return found
