"""Version ranges: what they contain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmml.versions import VersionError, any_contains, parse


@pytest.mark.parametrize(
    ("range_", "version", "contains"),
    [
        ("0.1.x", "0.1", True),
        ("0.1.x", "0.1.1", True),
        ("0.0-1.x", "0.1", True),
        ("0.0.x", "0.1", False),
        ("0.1.[2-3]", "0.1", False),
        ("0.1.[2-3]", "0.1.1", False),
        ("0.1.[2-3]", "0.1.2", True),
        ("0.1", "0.1.1", False),
        ("0.1.1", "0.1", False),
        ("0.1", "0.1.0", True),
        ("x", "7", True),
    ],
)
def test_a_range_contains_what_lies_between(range_: str, version: str, contains: bool) -> None:
    assert (version in parse(range_)) is contains


def test_a_list_of_ranges_contains_what_any_of_them_does() -> None:
    assert any_contains(["0.1.x", "0.2.x"], "0.1")
    assert not any_contains(["0.1.x", "0.2.x"], "0.3")


def test_asking_a_range_to_contain_a_range_is_an_error() -> None:
    with pytest.raises(VersionError, match="range"):
        _ = parse("0.1.x") in parse("0.x")


@pytest.mark.parametrize("text", ["", ".", "1.", "a", "1.[2-3", "1.2-3]", "3-2", "1..2", "-1"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(VersionError):
        parse(text)


@given(st.text(max_size=20) | st.text("0123456789.x[]-", max_size=12))
def test_any_text_is_a_version_or_refused_with_our_own_error(text: str) -> None:
    try:
        version = parse(text)
    except VersionError:
        return
    assert str(version) == text.strip()
