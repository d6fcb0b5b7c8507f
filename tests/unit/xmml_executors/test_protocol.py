"""Orders and reports as lines: what is not one of them is an error that names its source."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xmml_executors import protocol
from xmml_executors.protocol import (
    Ended,
    Output,
    Ready,
    Start,
    Started,
    Unwritable,
    agent_report,
    details,
    order_object,
    read_supervisor_report,
)
from xmml_executors.typed_json import ProtocolError

SOURCE = "the supervisor of alpha"
REPORTS = [
    Started("flow", 17, None),
    Started("flow", 17, "hosts/1"),
    Output("flow", "stderr", "it\u2019s done"),
    Unwritable("flow", "/full", "No space left on device"),
    Unwritable("flow", "/full", "No space left on device", 28),
    Ended("flow", None, 9, 0.5, 4096, None, with_process=False, no_memory="its control group"),
    Ended("flow", 0, None, 1, 4096, "hosts/1", with_process=True),
]


def line_of(report: Any) -> bytes:
    return json.dumps({"is": report.word, **details(report)}).encode()


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.word)
def test_a_report_is_read_as_it_was_written(report: Any) -> None:
    assert read_supervisor_report(line_of(report), SOURCE) == report


def test_an_agent_may_report_what_a_supervisor_may_not() -> None:
    ready = Ready("n1", 4711, 3, "80", "/usr/bin/python3", "/usr/bin", ["n1", "n2"], "")
    assert agent_report(json.loads(line_of(ready)), "alpha") == ready
    with pytest.raises(ProtocolError, match="unknown message 'ready'"):
        read_supervisor_report(line_of(ready), SOURCE)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "this is not JSON"),
        (b"\xff", "this is not JSON"),
        (b"[1]", "this is not an object"),
        (b"{}", "unknown message None"),
        (b'{"is": ["started"]}', "unknown message"),
        (b'{"is": "strated", "name": "flow"}', "unknown message 'strated'"),
        (b'{"is": "vanished"}', "'vanished' lacks name"),
        (b'{"is": "vanished", "name": 7}', "name of 'vanished' has the wrong type"),
        (b'{"is": "started", "name": "flow", "pid": true, "process": null}', "pid of 'started' has the wrong type"),
        (b'{"is": "vanished", "name": "flow", "pid": 7}', "'vanished' has an unknown member 'pid'"),
    ],
)
def test_what_is_no_report_is_an_error_that_names_its_source(line: bytes, why: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_supervisor_report(line, SOURCE)
    assert str(caught.value).startswith(f"{SOURCE} has reported what xmml-run does not understand: ")
    assert why in str(caught.value)


def test_a_long_line_is_not_shown_whole() -> None:
    with pytest.raises(ProtocolError) as caught:
        read_supervisor_report(b'"' + b"x" * 100_000 + b'"', SOURCE)
    assert len(str(caught.value)) < 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
WORDS = [each.word for each in get_args(protocol.AgentReport)]
MEMBERS = sorted({name for each in get_args(protocol.AgentReport) for name in each.__annotations__ if name != "word"})


@given(what=JSON | st.dictionaries(st.sampled_from(MEMBERS), JSON), word=st.sampled_from(WORDS) | JSON)
def test_whatever_comes_is_a_report_or_an_error_of_the_protocol(what: Any, word: Any) -> None:
    if isinstance(what, dict):
        what = {"is": word, **what}
    try:
        report = agent_report(what, SOURCE)
    except ProtocolError:
        return
    assert report.word == word


def test_an_order_says_what_it_is_and_what_differs_from_usual() -> None:
    start = Start("flow", ["./flow"], {}, "/w", "/w/o", "/w/e", None, [], fork=False)
    assert order_object(start) == {
        "do": "start",
        "name": "flow",
        "command": ["./flow"],
        "env": {},
        "folder": "/w",
        "stdout": "/w/o",
        "stderr": "/w/e",
        "terminal": None,
        "hosted": [],
        "fork": False,
    }
    assert order_object(protocol.Go()) == {"do": "go"}
