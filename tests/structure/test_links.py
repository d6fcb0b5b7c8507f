"""Links between the pages lead somewhere, and CONTRIBUTING.md names what exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Where pages are; those of what was built or fetched are not ours.
FOLDERS = (".", "benchmarks", "changes", "docs", "native", "tests", "workflows", "xmml/checks/pages")
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
#: A path of at least two parts, in code; words in capitals stand for what whoever reads it chooses.
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/[\w.-]*)`")


def pages() -> list[Path]:
    found = [page for name in FOLDERS for page in (ROOT / name).glob("*.md" if name == "." else "**/*.md")]
    return sorted(page for page in found if not page.relative_to(ROOT).parts[0].startswith("."))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors that the headings of a page have."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    # A fragment becomes a part of CHANGELOG.md.
    base = ROOT if page.parent.name == "changes" and page.name != "README.md" else page.parent
    broken = []
    for name, anchor in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = base / name if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(f"{name}#{anchor}" if anchor else name)
    assert not broken


def test_what_contributors_are_told_to_look_into_exists() -> None:
    named = PATH.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    assert not [name for name in named if not re.search("CODE|NAME", name) and not (ROOT / name).exists()]
