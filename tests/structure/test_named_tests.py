"""Holds the page that says which tests show what is required of pools."""

from __future__ import annotations

import re

import pytest
from named_tests import ROOT, defined_in, linked_in

PAGE = ROOT / "docs" / "pool-requirements.md"
ROWS = re.findall(r"^\| (R.+?) \| (.+?) \| (.*?) ?\| (.*?) ?\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("path", "name"), linked_in(PAGE))
def test_each_test_that_the_page_of_requirements_names_exists(path: str, name: str) -> None:
    assert name in defined_in(ROOT / path)


def test_the_page_has_each_requirement_once_with_a_test_or_what_is_missing() -> None:
    numbers = [number for cell, *_ in ROWS for number in re.findall(r"R\d\.\d+", cell)]
    weather = [1, 2, 3, 7, 8, 10, 11, 12, 14, 15, 16, 17, 19, 21, 24, 26, 27]
    required = [*(f"R1.{each}" for each in weather), *(f"R2.{each}" for each in range(1, 11)), "R4.1", "R4.2"]
    assert sorted(each for each in numbers if not each.startswith("R3.")) == sorted(required)
    assert [number for number, _, tests, missing in ROWS if not tests and not missing] == []
