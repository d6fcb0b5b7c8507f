"""Tests that pages name, as `path::name`, or as links to their files."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def named_in(page: Path) -> list[tuple[str, str]]:
    """Return the files and names of the tests that a page names; a file without a folder is beside the page."""
    beside = page.parent.relative_to(ROOT)
    found = re.findall(r"`(\S+)::(\w+)`", page.read_text(encoding="utf-8"))
    return [(path if "/" in path else f"{beside}/{path}", name) for path, name in found]


def linked_in(page: Path) -> list[tuple[str, str]]:
    """Return the files and names of the tests to whose files a page links."""
    found = re.findall(r"\[`(\w+)`\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    return [((page.parent / path).resolve().relative_to(ROOT).as_posix(), name) for name, path in found]


def defined_in(path: Path) -> set[str]:
    """Return the names of the tests in a file in Python or Rust."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))
    return set(re.findall(r"#\[test\]\s+fn (\w+)\(", text))
