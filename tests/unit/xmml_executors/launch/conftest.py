"""Sites for the tests of what runs there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agents_at_a_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The folder of a run at a site."""
    made = Site(tmp_path / "run")
    yield made
    made.close()
