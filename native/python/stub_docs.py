"""Writes the documentation of the compiled module into its stub, where editors look for it.

    python native/python/stub_docs.py

The documentation stands in the Rust sources, whose `///` comments become `__doc__`. A test holds the stub against it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

from xmml_native import _native

STUB = Path(__file__).resolve().parent / "xmml_native/_native.pyi"
Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def documented(stub: str) -> str:
    """Return the text of the stub with the documentation that the module has.

    It takes the place of a docstring, or of the `...` of a function.

    Raises:
        ValueError: a class of the stub begins with neither.
    """
    lines = stub.split("\n")
    bodies = [(node.body[0], documentation) for node, documentation in documentation_of(ast.parse(stub), _native)]
    # From the end on, so that what comes before stays in its place.
    for first, documentation in sorted(bodies, key=lambda body: -body[0].lineno):
        if not isinstance(first, ast.Expr):
            raise ValueError(f"line {first.lineno} of the stub: write ... before it, where the documentation goes")
        head, column = lines[first.lineno - 1][: first.col_offset].rstrip(), first.col_offset
        if head:
            column = len(head) - len(head.lstrip()) + 4
        quoted = f'"""{documentation}\n"""' if "\n" in documentation else f'"""{documentation}"""'
        lines[first.lineno - 1 : first.end_lineno] = [*filter(None, [head]), *indent(quoted, " " * column).split("\n")]
    return "\n".join(lines)


def documentation_of(node: Documented, thing: Any) -> Iterator[tuple[Documented, str]]:
    """Yield the parts of a stub with the documentation that they have in the module; of overloads, the last one."""
    if not thing.__doc__:
        raise ValueError(f"{thing} has no documentation: write a /// comment in Rust")
    yield node, inspect.cleandoc(thing.__doc__)
    defined = {each.name: each for each in node.body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
    for name, each in defined.items():
        if not name.startswith("__"):
            yield from documentation_of(each, getattr(thing, name))


if __name__ == "__main__":
    STUB.write_text(documented(STUB.read_text(encoding="utf-8")), encoding="utf-8")
