"""Programs beside the packages import names of the packages that exist: most of them run in no fast test."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import rooms

ROOT = Path(__file__).resolve().parents[2]
OURS = {package.name for package in rooms.packages(ROOT)} | {"xmml"}
FOLDERS = ["benchmarks", "docs", "examples", "tests", "workflows"]


def imported(program: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the module and the name of each import from our packages."""
    for node in ast.walk(ast.parse(program.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in OURS:
            for alias in node.names:
                yield node.lineno, node.module, alias.name


def exists(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.util.find_spec(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_program_imports_names_that_exist(folder: str) -> None:
    programs = sorted((ROOT / folder).rglob("*.py"))
    names = [(program, *each) for program in programs for each in imported(program)]
    missing = [
        f"{program.relative_to(ROOT)}:{line}: {module} has no {name}"
        for program, line, module, name in names
        if not exists(module, name)
    ]
    assert not missing, "\n".join(missing)
