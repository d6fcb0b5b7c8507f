"""Runs over several sites, each with an sshd of its own on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for several_sites
sys.path.insert(0, str(Path(__file__).parents[1]))  # for support

if TYPE_CHECKING:
    from several_sites import Sites


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    """Two sites that are reached by ssh, and this machine; at the end nothing may be left at any of them."""
    from several_sites import Sites

    with Sites(tmp_path) as made:
        yield made
        assert made.left_behind() == []
