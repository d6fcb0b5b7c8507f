"""Whole runs that somebody attacks, and somebody who would hear of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faulty_models import models as models
from several_sites import sites as sites
from somebody import Somebody, listening


@pytest.fixture
def somebody() -> Iterator[Somebody]:
    with listening() as hearing:
        yield hearing
