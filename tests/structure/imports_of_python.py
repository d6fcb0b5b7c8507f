"""Reads which names the modules of Python packages take from each other, without importing them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from arrows import Arrow


def modules_of(packages: Iterable[Path]) -> dict[str, Path]:
    """Return the file of each module, by dotted name. A compiled module has a stub (`.pyi`)."""
    return {
        ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for package in packages
        for file in sorted(package.rglob("*.py*"))
        if file.suffix in (".py", ".pyi")
    }


def imports(modules: dict[str, Path], root: Path) -> Iterator[Arrow]:
    """Yield each name that a module takes from another one, on module level or inside a function.

    A private attribute of an imported module, `module._name`, counts as a name that is taken.
    """
    for module, file in modules.items():
        nodes = [*ast.walk(ast.parse(file.read_bytes()))]
        package = module if file.stem == "__init__" else module.rpartition(".")[0]
        bound = {alias: whole for node in nodes for whole, alias in _imported(node, package)}
        for_types = {*_nodes_for_types(nodes)}
        for node in nodes:
            for whole in [whole for whole, _ in _imported(node, package)] + _private_attributes(node, bound):
                target, name = _split(whole, modules)
                if target not in ("", module):
                    yield Arrow(module, target, name, f"{file.relative_to(root)}:{node.lineno}", node in for_types)


def private_names(arrows: Iterable[Arrow]) -> Iterator[Arrow]:
    """Yield the arrows to a name that begins with `_`. A module `_name` belongs to its whole package."""
    for arrow in arrows:
        package, _, module = arrow.target.rpartition(".")
        name = arrow.name.partition(".")[0]
        if _is_private(name):
            yield replace(arrow, target=f"{arrow.target}.{name}")
        elif _is_private(module) and not f"{arrow.source}.".startswith(f"{package}."):
            yield arrow


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _nodes_for_types(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes below `if TYPE_CHECKING:`."""
    for branch in nodes:
        if isinstance(branch, ast.If) and ast.unparse(branch.test).endswith("TYPE_CHECKING"):
            for statement in branch.body:
                yield from ast.walk(statement)


def _imported(node: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Yield the dotted name of each thing that an import statement takes, and the text that stands for it."""
    if isinstance(node, ast.Import):
        for each in node.names:
            yield each.name, each.asname or each.name
    elif isinstance(node, ast.ImportFrom):
        parents = package.split(".")
        base = ".".join(parents[: len(parents) + 1 - node.level] if node.level else [])
        for each in node.names:
            yield ".".join(filter(None, (base, node.module, each.name))), each.asname or each.name


def _private_attributes(node: ast.AST, bound: dict[str, str]) -> list[str]:
    """Return the dotted name of `node` if it is a private attribute of something imported."""
    if not isinstance(node, ast.Attribute) or not _is_private(node.attr):
        return []
    text = ast.unparse(node)
    return [whole + text.removeprefix(alias) for alias, whole in bound.items() if text.startswith(f"{alias}.")]


def _split(whole: str, modules: dict[str, Path]) -> tuple[str, str]:
    """Split a dotted name into the longest module of ours and the name in it; the module is empty if none is ours."""
    parts = whole.split(".")
    lengths = (length for length in range(len(parts), 0, -1) if ".".join(parts[:length]) in modules)
    length = next(lengths, 0)
    return ".".join(parts[:length]), ".".join(parts[length:])
