"""Runs with something wrong."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for faulty_models

if TYPE_CHECKING:
    from faulty_models import Models


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Models]:
    """Makes models in a folder of their own, and leaves no process behind."""
    from faulty_models import Models

    made = Models(tmp_path)
    yield made
    for going in made.going:
        if going.process.poll() is None:
            os.killpg(going.process.pid, signal.SIGKILL)
            going.process.communicate()
