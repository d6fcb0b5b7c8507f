"""Holds docs/glossary.md and docs/words.md: terms stand once, and old names still exist."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
WORDS = ROOT / "docs" / "words.md"
SOURCES = {".c", ".cpp", ".f90", ".h", ".hpp", ".java", ".md", ".py", ".rs"}
TERM = re.compile(r"\*\*([^*]+)\*\*")
ROW = re.compile(r"\| `([^`]+)` \| `([^`]+)` \| (.+) \|")


def section(page: Path, heading: str) -> str:
    """Return what stands below a heading of a page, up to the next one of its level or above."""
    level = heading.partition(" ")[0]
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{page.name} has no section {heading!r}"
    return found.group(1)


def order(name: str) -> tuple[str, str]:
    """Return the key by which names are sorted: without regard to case first."""
    return name.lower(), name


def groups() -> dict[str, list[str]]:
    """Return the terms by group, in the order of the page."""
    parts = re.split(r"^### (.+)\n", section(GLOSSARY, "## Terms"), flags=re.MULTILINE)[1:]
    return {name: TERM.findall(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def renames() -> list[tuple[str, str, str]]:
    """Return the rows of the names that will change: name, place, new name."""
    table = section(WORDS, "## Names that will change").partition("\n### ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    rows = [ROW.fullmatch(line) for line in lines]
    unread = [line for line, row in zip(lines, rows, strict=True) if row is None]
    assert not unread, f"write rows as | `name` | `place` | new name |: {unread}"
    return [(row[1], row[2], row[3]) for row in rows if row is not None]


@cache
def words_of(path: Path) -> str:
    """Return the text of a file, or of all sources below a folder."""
    if path.is_file():
        return path.read_text(encoding="utf-8")
    files = (file for file in path.rglob("*") if file.suffix in SOURCES)
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def exists(name: str, place: Path) -> bool:
    """Return whether a file or folder has this name in a folder, or the name occurs in a file or folder."""
    if place.is_dir() and (place / name).exists():
        return True
    if not place.exists() or re.search(r"\.(py|rs|java)$", name):
        return False
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words_of(place)) is not None


def test_every_term_stands_once_and_in_order():
    terms = groups()
    counts = Counter(term.lower() for group in terms.values() for term in group)
    assert not [term for term, count in counts.items() if count > 1]
    for name, group in terms.items():
        assert group, f"the group {name!r} has no terms"
        assert group == sorted(group, key=order), f"sort the group {name!r}"


def test_every_term_has_a_definition():
    lines = [line for line in section(GLOSSARY, "## Terms").splitlines() if TERM.search(line)]
    assert not [line for line in lines if not re.match(r"\* \*\*[^*]+\*\*: [A-Z`].*\.", line)]


def test_every_old_name_still_exists_where_the_page_says():
    gone = [f"{name} in {place}" for name, place, _ in renames() if not exists(name, ROOT / place)]
    assert not gone, f"delete these rows of {WORDS.name}, or correct their places: {gone}"


def test_old_names_are_sorted_and_each_stands_once_per_place():
    rows = [(name, place) for name, place, _ in renames()]
    assert rows == sorted(set(rows), key=lambda row: (*order(row[0]), row[1]))
