"""Figures on the page come from results alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import publish
from harness import places

PAGE = """# Fast
<!-- figures: trains / machine -->
<!-- end of figures -->
typed by hand
<!-- figures: trains / Speed -->
| old |
<!-- end of figures -->
"""


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(places, "RESULTS", tmp_path)
    (tmp_path / "trains-20260101-000000.md").write_text("old machine\n\n### Speed\n\n| 1 |\n")
    (tmp_path / "trains-20260102-000000.md").write_text("2 CPUs\n\n### Speed\n\nfast\n\n| 2 |\n\n### Weight\n\n| 3 |\n")
    return tmp_path


def test_the_newest_section_stands_where_the_page_wants_it() -> None:
    page = publish.published(PAGE, ["trains"])
    assert "<!-- figures: trains / machine -->\n\n2 CPUs\n\n<!-- end" in page
    assert "<!-- figures: trains / Speed -->\n\nfast\n\n| 2 |\n\n<!-- end" in page
    assert "old" not in page
    assert page.startswith("# Fast\n")
    assert "\ntyped by hand\n" in page


def test_publishing_again_changes_nothing() -> None:
    once = publish.published(PAGE, ["trains"])
    assert publish.published(once, ["trains"]) == once


def test_other_suites_are_left_alone() -> None:
    assert publish.published(PAGE, []) == PAGE


def test_a_section_that_was_not_measured_is_an_error() -> None:
    page = PAGE.replace("/ Speed", "/ Colour")
    with pytest.raises(publish.NothingToPublish, match='no section "Colour"'):
        publish.published(page, ["trains"])
    with pytest.raises(publish.NothingToPublish, match=r"ships/run\.py"):
        publish.published(PAGE.replace("trains / Speed", "ships / Speed"), ["ships"])


def test_every_place_of_the_page_is_closed() -> None:
    page = publish.PAGE.read_text()
    assert page.count("<!-- figures: ") == len(publish.PLACE.findall(page)) == page.count("<!-- end of figures -->")
