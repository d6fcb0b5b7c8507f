"""Where a file is, as people write it."""

from __future__ import annotations

import pytest
from xmml_sites.transfer.file_location import FileLocation, read_location


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("results", FileLocation(None, "results")),
        ("./a:b", FileLocation(None, "./a:b")),
        ("/data/12:30", FileLocation(None, "/data/12:30")),
        ("host:x/y", FileLocation("host", "x/y")),
        ("me@host:", FileLocation("me@host", ".")),
        ("host:a:b", FileLocation("host", "a:b")),
        ("[::1]:/x", FileLocation("::1", "/x")),
        ("me@[fe80::1]:x", FileLocation("me@fe80::1", "x")),
    ],
)
def test_a_colon_before_any_slash_ends_the_host(text: str, expected: FileLocation) -> None:
    assert read_location(text) == expected


@pytest.mark.parametrize("text", ["", ":x", "me@:x", "-oProxyCommand=x:y", "[::1", "[::1]x"])
def test_what_is_no_place_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|name|missing"):
        read_location(text)
