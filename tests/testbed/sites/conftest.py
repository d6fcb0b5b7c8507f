"""The test bed for the tests of this folder: made once, found clean by each test and left clean by it."""

import pytest
from testbed import Bed, why_not
from testbed.release import RELEASED_WITHIN_S, left_after_a_run


@pytest.fixture(scope="session")
def standing_bed():
    """The test bed, for as long as the tests run."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with Bed() as bed:
        yield bed


@pytest.fixture
def bed(standing_bed):
    """The test bed; what a test leaves there is an error of the test."""
    yield standing_bed
    left = standing_bed.wait_until_clean()
    if left:
        standing_bed.clean()
    assert left == [], "left at the sites, or on the laptop"


@pytest.fixture
def firewalled(standing_bed):
    """The test bed for runs, with its firewalls; what a run leaves there, but for staged files, is an error."""
    yield standing_bed
    left = left_after_a_run(standing_bed, RELEASED_WITHIN_S)
    standing_bed.clean()
    assert left == [], "left at the sites, or on the laptop"


@pytest.fixture
def own_bed():
    """A test bed that the test may break."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with Bed() as bed:
        yield bed


@pytest.fixture(scope="session")
def standing_open_bed():
    """A test bed in which compute nodes may dial the laptop."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with Bed(is_open=True) as bed:
        yield bed


@pytest.fixture
def open_bed(standing_open_bed):
    """The open test bed; what a run leaves there, but for staged files, is an error."""
    yield standing_open_bed
    left = left_after_a_run(standing_open_bed, RELEASED_WITHIN_S)
    standing_open_bed.clean()
    assert left == [], "left at the sites, or on the laptop"
