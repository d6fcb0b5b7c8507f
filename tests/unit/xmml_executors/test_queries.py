"""What people ask a run that goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xmml_executors.queries import AskChange, AskStatus, AskStop, AskTap, Query, query_object, read_query
from xmml_executors.typed_json import ProtocolError

QUERIES: list[tuple[dict[str, Any], Query]] = [
    ({"ask": "status"}, AskStatus()),
    ({"ask": "change", "conduits": [3], "methods": ["tcp"]}, AskChange([3], ["tcp"])),
    (
        {"ask": "tap", "ports": ["a.o"], "select": "sys.t > 1", "limit_bytes": 64},
        AskTap(["a.o"], "sys.t > 1", 64),
    ),
    ({"ask": "stop"}, AskStop()),
]


@pytest.mark.parametrize(("plain", "query"), QUERIES, ids=lambda each: each["ask"] if isinstance(each, dict) else "")
def test_a_query_is_read_as_it_was_written(plain: dict[str, Any], query: Query) -> None:
    assert query_object(query) == plain
    assert read_query(json.dumps(plain).encode() + b"\n") == query


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"GET / HTTP/1.1", "this is not JSON"),
        (b"[]", "this is not an object"),
        (b"{}", "unknown message None"),
        (b'{"ask": "breakfast"}', "unknown message 'breakfast'"),
        (b'{"ask": "change", "conduits": [3]}', "'change' lacks methods"),
        (b'{"ask": "change", "methods": []}', "'change' lacks conduits"),
        (b'{"ask": "change", "conduits": ["3"], "methods": []}', "conduits of 'change' has the wrong type"),
        (b'{"ask": "change", "conduits": [3], "methods": "tcp"}', "methods of 'change' has the wrong type"),
        (b'{"ask": "stop", "now": true}', "'stop' has an unknown member 'now'"),
    ],
)
def test_what_is_no_query_is_an_error_that_names_its_source(line: bytes, why: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_query(line)
    assert str(caught.value).startswith("a client of the query socket has reported what xmml-run does not understand: ")
    assert why in str(caught.value)
