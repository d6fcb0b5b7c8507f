"""Where a file is, as people write it."""

from __future__ import annotations

import pytest
from xmml_executors.copying.place import Place, place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("results", Place(None, "results")),
        ("./a:b", Place(None, "./a:b")),
        ("/data/12:30", Place(None, "/data/12:30")),
        ("host:x/y", Place("host", "x/y")),
        ("me@host:", Place("me@host", ".")),
        ("host:a:b", Place("host", "a:b")),
        ("[::1]:/x", Place("::1", "/x")),
        ("me@[fe80::1]:x", Place("me@fe80::1", "x")),
    ],
)
def test_a_colon_before_any_slash_ends_the_host(text: str, expected: Place) -> None:
    assert place(text) == expected


@pytest.mark.parametrize("text", ["", ":x", "me@:x", "-oProxyCommand=x:y", "[::1", "[::1]x"])
def test_what_is_no_place_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|name|missing"):
        place(text)
