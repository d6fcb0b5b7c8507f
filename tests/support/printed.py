"""The examples of the documentation, as printed: tests write them into files, and compile and run them.

A page shows a file under a line that has nothing but its name, `decay.c`: or "In C, `decay.c`:".
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_FILE = re.compile(r"^(?:In [\w+]+, )?`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files(page: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    found = dict(_FILE.findall((DOCS / page).read_text(encoding="utf-8")))
    assert found, f"{page} shows no file under a line like `model.xmml`:"
    return found


def blocks(page: str, language: str) -> list[str]:
    """Every block of a page in a language."""
    return [text for kind, text in _BLOCK.findall((DOCS / page).read_text(encoding="utf-8")) if kind == language]


def write(page: str, folder: Path) -> dict[str, str]:
    """Write the files that a page shows into a folder; returns them."""
    shown = files(page)
    for name, text in shown.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return shown
