"""What a site may list as results, and what is refused of that."""

from __future__ import annotations

import os
from typing import Any

import pytest
from xmml_sites.transfer.messages import Malformed
from xmml_sites.transfer.results import Listing, is_in, is_path_below, read_listing

NOTHING: dict[str, Any] = {
    "found": [],
    "bytes": 0,
    "too_large": [],
    "not_there": [],
    "links": 0,
    "first_links": [],
}


@pytest.mark.parametrize(
    "path", ["a", "instances/a/work/mesh.nc", "a b/\u00e9", os.fsdecode(b"a/\xe9.csv"), "..a/b..", "a/\n"]
)
def test_a_file_may_have_any_name_that_a_file_system_holds(path: str) -> None:
    assert is_path_below(path)


@pytest.mark.parametrize(
    "path", ["", ".", "..", "../a", "a/../b", "a/..", "/a", "//a", "./a", "a//b", "a/", "a\0b", "a/\ud800", "\udfff"]
)
def test_a_path_that_leads_elsewhere_or_is_no_name_is_refused(path: str) -> None:
    assert not is_path_below(path)


def test_a_name_that_begins_like_a_folder_is_not_in_it() -> None:
    assert is_in("a/b/c", ["a/b"])
    assert is_in("a/b", ["a/b"])
    assert not is_in("a/bc", ["a/b"])


def test_a_listing_is_read_with_all_that_it_says() -> None:
    told = {**NOTHING, "found": ["a/b"], "bytes": 7, "not_there": [["a", "*.nc"]], "links": 1, "first_links": ["a/l"]}
    assert read_listing(told) == Listing(["a/b"], 7, [], [("a", "*.nc")], 1, ["a/l"])


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *[(member, value) for member in NOTHING for value in (None, -1, True, "a", {"a": 1}, [1], [[]], 1.5)],
        ("not_there", [["a"]]),
        ("not_there", [["a", "b", "c"]]),
        ("not_there", [["a", 1]]),
        ("more", 1),
    ],
)
def test_what_is_no_listing_is_refused(member: str, value: object) -> None:
    with pytest.raises(Malformed):
        read_listing({**NOTHING, member: value})


def test_what_lacks_the_files_is_no_listing() -> None:
    with pytest.raises(Malformed):
        read_listing({"bytes": 0})
