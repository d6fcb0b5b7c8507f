"""Holds tests/security/README.md: each test that it names exists, and each attack of the threat model is there."""

from __future__ import annotations

import re

import pytest
from named_tests import ROOT, defined_in, named_in

FOLDER = ROOT / "tests" / "security"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
THREAT_MODEL = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
NAMED = named_in(FOLDER / "README.md")


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_each_test_that_the_page_of_attacks_names_exists(path: str, name: str) -> None:
    assert name in defined_in(ROOT / path)


def test_the_page_of_attacks_names_each_test_of_its_folder() -> None:
    there = {(f"tests/security/{path.name}", name) for path in FOLDER.glob("test_*.py") for name in defined_in(path)}
    assert there <= {*NAMED}, there - {*NAMED}


def test_everybody_of_the_threat_model_has_attacks_on_the_page() -> None:
    everybody = re.findall(r"^\| \*\*(.+?)\*\*", THREAT_MODEL, re.MULTILINE)
    assert len(everybody) >= 9
    headings = " ".join(re.findall("^## (.+)$", PAGE, re.MULTILINE)).lower()
    assert [who for who in everybody if who.lower() not in headings] == []
