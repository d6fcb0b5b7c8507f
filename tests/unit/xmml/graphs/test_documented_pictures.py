"""The pictures in docs/: there is one of every workflow, and it shows the model as it is now."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from xmml.check import check

ROOT = Path(__file__).parents[4]
PICTURES = ROOT / "docs" / "pictures"
MODELS = sorted([*ROOT.glob("workflows/*/model.xmml"), *ROOT.glob("docs/examples/*.xmml")])


def name_of(path: Path) -> str:
    return path.parent.name if path.name == "model.xmml" else path.stem


@pytest.mark.parametrize("path", MODELS, ids=name_of)
@pytest.mark.parametrize("view", ["coupling", "task"])
def test_the_documented_picture_has_all_instances(path: Path, view: str) -> None:
    model = check(path).resolved
    assert model is not None
    svg = (PICTURES / f"{model.id}-{view}.svg").read_text(encoding="utf-8")
    words = {re.sub(r"\[\d+\]$", "", unescape(text)) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)}
    assert set(model.instances) <= words, "draw them again: make pictures"


@pytest.mark.parametrize("page", [ROOT / "docs" / "graphs.md", *ROOT.glob("workflows/*/README.md")], ids=str)
def test_every_picture_that_a_page_shows_is_there(page: Path) -> None:
    shown = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", page.read_text(encoding="utf-8"))
    assert shown
    assert all((page.parent / picture).is_file() for picture in shown)
