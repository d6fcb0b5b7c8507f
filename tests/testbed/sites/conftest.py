"""The test bed for the tests of this folder: made once, found clean by each test and left clean by it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testbed import Bed, control_groups, why_not
from testbed.bed import SITES
from testbed.release import RELEASED_WITHIN_S, left_after_a_run
from waiting import wait_until

#: The longest that a test takes on a busy machine, with the making of the test bed and what it takes to find it clean.
TEST_LIMIT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(TEST_LIMIT_S))


@contextlib.contextmanager
def a_bed(**options: Any) -> Iterator[Bed]:
    """A test bed; skips the test where none can stand. The options are those of `Bed`."""
    if reason := why_not():
        pytest.skip(reason)
    with Bed(**options) as bed:
        yield bed


@pytest.fixture(autouse=True)
def keys_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users at the sites have their keys in their homes there, also after tests of other folders in this process."""
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@contextlib.contextmanager
def left_clean(bed: Bed, *, is_staged_kept: bool) -> Iterator[Bed]:
    """Within the block a test uses the bed; what it leaves there is an error, but for staged files if they are kept."""
    yield bed
    left = left_after_a_run(bed, RELEASED_WITHIN_S) if is_staged_kept else bed.wait_until_clean(RELEASED_WITHIN_S)
    if left or is_staged_kept:
        bed.clean()
    assert left == [], "left at the sites, or on the laptop"


@pytest.fixture(scope="session")
def standing_bed() -> Iterator[Bed]:
    """The test bed, for as long as the tests run."""
    with a_bed() as bed:
        yield bed


@pytest.fixture(scope="session")
def standing_open_bed() -> Iterator[Bed]:
    """A test bed in which compute nodes may dial the laptop."""
    with a_bed(is_open=True) as bed:
        yield bed


@pytest.fixture
def own_bed() -> Iterator[Bed]:
    """A test bed that the test may break."""
    with a_bed() as bed:
        yield bed


@pytest.fixture
def bound_bed() -> Iterator[Bed]:
    """A test bed of one cluster: each node has one processor of this machine, and control groups where it has some."""
    nodes = 2
    if len(os.sched_getaffinity(0)) < nodes:
        pytest.skip(f"needs {nodes} processors")
    with a_bed(kinds=[dataclasses.replace(SITES[0], nodes=nodes, is_bound=True)]) as bed:
        yield bed
    wait_until(control_groups.remove_left, "control groups of the nodes are left")


@pytest.fixture
def bed(standing_bed: Bed) -> Iterator[Bed]:
    """The test bed; what a test leaves there is an error of the test."""
    with left_clean(standing_bed, is_staged_kept=False) as bed:
        yield bed


@pytest.fixture
def firewalled(standing_bed: Bed) -> Iterator[Bed]:
    """The test bed for runs, with its firewalls; what a run leaves there, but for staged files, is an error."""
    with left_clean(standing_bed, is_staged_kept=True) as bed:
        yield bed


@pytest.fixture
def open_bed(standing_open_bed: Bed) -> Iterator[Bed]:
    """The open test bed; what a run leaves there, but for staged files, is an error."""
    with left_clean(standing_open_bed, is_staged_kept=True) as bed:
        yield bed
