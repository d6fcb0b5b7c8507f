"""Holds the pages that name tests: each test is where the page says."""

from __future__ import annotations

import pytest
from named_tests import ROOT, defined_in, named_in


@pytest.mark.parametrize(("path", "name"), named_in(ROOT / "docs" / "maestro.md"))
def test_each_test_that_the_page_for_users_of_maestro_names_exists(path: str, name: str) -> None:
    assert name in defined_in(ROOT / path)
