"""Reading a model document: text, includes, schema; the result is the document as written, with positions."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace

from xmml.files import FileUnreadable, similar_name
from xmml.include import Expansion
from xmml.late_dataclass import dataclass
from xmml.positions import Position
from xmml.problems import ModelError, Problem, errors_in, in_order
from xmml.reach import Reach, reach_of
from xmml.tree import XMML, XMML_PARAM, Element, unreadable


@dataclass(frozen=True, eq=False)
class Document:
    """A model document as written, includes in place.

    Attributes:
        path: the file as it was named.
        root: its `model` element; every element and attribute knows its file, line and column.
        files: every file that was read, the document first.
        reach: where the files may lie that it names.
    """

    path: str
    root: Element
    files: tuple[str, ...]
    reach: Reach


def read(path: str | os.PathLike[str]) -> Document:
    """Read a model document, put its includes in place and validate it against the schema.

    Raises:
        ModelError: it cannot be read, or is not valid; with every problem found.
    """
    document, problems = load(path)
    if document is None or errors_in(problems):
        raise ModelError(problems)
    return document


def load(path: str | os.PathLike[str], *, allow_outside: bool = False) -> tuple[Document | None, list[Problem]]:
    """Read a document as `read` does, but return problems instead of raising.

    The document is `None` only if nothing can be said about it beyond the problems.

    Parameters:
        allow_outside: files that it names may lie anywhere (see `xmml.reach`).
    """
    file = os.fspath(path)
    return _load(file, "model", reach_of(file, allow_outside=allow_outside))


def load_parameters(path: str | os.PathLike[str], model: Document) -> tuple[Document | None, list[Problem]]:
    """Read a parameter file for a model; otherwise like `load`."""
    file = os.fspath(path)
    return _load(file, "parameters", model.reach.widened(file))


def _load(path: str, expected: str, reach: Reach) -> tuple[Document | None, list[Problem]]:
    from xmml.validation import validate

    expansion = Expansion(reach)
    try:
        root = expansion.read(path)
    except FileUnreadable as error:
        return None, [unreadable(path, f"cannot read the document: {error}", _hint_of_unreadable(path, expected))]
    except ModelError as error:
        return None, [_with_hint(problem, path) if expected == "model" else problem for problem in error.problems]
    if expansion.problems:
        return None, in_order(expansion.problems)
    wrong = _wrong_root(root, expected)
    if wrong is not None:
        return None, [wrong]
    return Document(path, root, tuple(expansion.files), reach), validate(root)


def _hint_of_unreadable(path: str, expected: str) -> str:
    """Return what to do about a document that cannot be read."""
    if expected == "parameters" and "=" in path and not os.path.lexists(path):
        return f"--param takes a file; to set a parameter, write -p {shlex.quote(path)}"
    return similar_name(path, _ENDINGS)


def _with_hint(problem: Problem, path: str) -> Problem:
    """Return the problem of a document; if this is none from its first character on, with what to name instead."""
    is_document = path.endswith(_ENDINGS) or problem.position != Position(path, 1, 1) or not problem.quote
    return problem if is_document else replace(problem, help="this looks like no model: name the model document")


#: How the names of documents end.
_ENDINGS = (".xmml", ".xml")
_OLD_CHILDREN = {"submodels", "couplings", "environments"}


def _wrong_root(root: Element, expected: str) -> Problem | None:
    """Return the problem of a document that is something else than what was asked for."""
    namespace = XMML if expected == "model" else XMML_PARAM
    if root.name == expected and root.namespace == namespace:
        return None
    what = "model" if expected == "model" else "parameter file"
    help = f'the root of an xMML 0.4 {what} is <{expected} xmlns="{namespace}">'
    if expected == "model" and (root.name == "parameters" and root.namespace == XMML_PARAM):
        return root.problem("E01", "this is a parameter file, not a model", "give it with --param, beside the model")
    if root.name == expected and not root.namespace:
        if any(child.name in _OLD_CHILDREN for child in root.children) or root.get("xmml_version", "") == "0.1":
            return root.problem(
                "E01", "this document is of an old version of xMML, before 0.4, which is not supported", help
            )
        return root.problem("E01", f"the element <{expected}> is in no namespace", help)
    if root.name == expected:
        return root.problem("E01", f'the element <{expected}> is in the namespace "{root.namespace}"', help)
    return root.problem("E01", f"this is not an xMML {what}: its root is <{root.name}>", help)
