"""Runs over several sites, each with an sshd of its own on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from several_sites import Sites


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    """Two sites that are reached by ssh, and this machine; at the end nothing may be left at any of them."""
    with Sites(tmp_path) as made:
        yield made
        assert made.left_behind() == []
