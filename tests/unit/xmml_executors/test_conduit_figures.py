"""How conduits travel, put together from what both ends say."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from xmml_executors.conduit_figures import from_events, merged
from xmml_executors.coordinator_events import Figures, MethodReport
from xmml_planner import ConduitSpec
from xmml_run.conduit_table import conduit_lines

CONDUITS = [ConduitSpec(1, "a.o -> b.i", "a", "o", "b", "i", 4, 1 << 20)]


NOTHING_PASSED = MethodReport(1, "a.o -> b.i", None, False, {}, (), 0, 0, 0.0, 0.0, None)


def said(*, sending: Sequence[MethodReport] = (), receiving: Sequence[MethodReport] = ()) -> Figures:
    return Figures("a", 1, tuple(sending), tuple(receiving))


def test_the_sender_says_the_method_and_the_receiver_what_was_taken() -> None:
    sent = dataclasses.replace(
        NOTHING_PASSED,
        chosen="shm",
        refused={"inproc": "no"},
        slower=("tcp",),
        messages=9,
        bytes=900,
        latency_s=1e-5,
    )
    assert not merged(CONDUITS, [said(sending=[sent])])[0].protected
    assert merged(CONDUITS, [said(sending=[dataclasses.replace(sent, protected=True)])])[0].protected
    received = dataclasses.replace(NOTHING_PASSED, chosen="shm", messages=7, bytes=700)
    (figures,) = merged(CONDUITS, [said(sending=[sent]), said(receiving=[received])])
    assert (figures.method, figures.sent, figures.received, figures.bytes) == ("shm", 9, 7, 900)
    assert (figures.refused, figures.slower, figures.latency_s) == ({"inproc": "no"}, ("tcp",), 1e-5)


def test_both_ends_count_what_newer_messages_have_replaced() -> None:
    sent = dataclasses.replace(NOTHING_PASSED, messages=5, replaced=3)
    received = dataclasses.replace(NOTHING_PASSED, messages=4, replaced=1)
    (figures,) = merged(CONDUITS, [said(sending=[sent], receiving=[received])])
    assert (figures.sent, figures.received, figures.replaced) == (5, 4, 4)
    end = {"conduit": 1, "sent": 0, "received": 0, "bytes": 0, "dropped": 0}
    (figures,) = from_events(
        CONDUITS,
        [
            {"what": "left", "instance": "a", "conduits": [{**end, "sent": 5, "replaced": 3}]},
            {"what": "left", "instance": "b", "conduits": [{**end, "received": 5, "replaced": 1}]},
        ],
    )
    assert (figures.sent, figures.received, figures.replaced) == (5, 4, 4)
    assert "4 messages were replaced by newer ones" in conduit_lines([figures.as_json()])[2]


def test_the_sender_tells_what_waits_with_it_and_what_it_has_dropped() -> None:
    sent = dataclasses.replace(NOTHING_PASSED, messages=5, dropped=2, waiting=7, held_bytes=900)
    (figures,) = merged(CONDUITS, [said(sending=[sent], receiving=[NOTHING_PASSED])])
    assert (figures.dropped, figures.waiting, figures.held_bytes) == (2, 7, 900)


def test_a_conduit_of_which_nobody_has_told_is_listed_too() -> None:
    (figures,) = merged(CONDUITS, [])
    assert (figures.name, figures.method, figures.sent, figures.bytes) == ("a.o -> b.i", None, None, None)
    (line,) = conduit_lines([figures.as_json()])[1:]
    assert line.split() == ["a.o", "->", "b.i", "-", "-", "-", "-", "-", "-", "-"]


def test_the_events_of_a_run_that_has_ended_tell_the_method_and_the_totals() -> None:
    end = {"conduit": 1, "sent": 0, "received": 0, "bytes": 0, "dropped": 0}
    events: list[dict[str, Any]] = [
        {"what": "conduits", "instance": "a", "conduits": [1], "method": "shm", "refused": {}},
        {"what": "conduits", "instance": "a", "conduits": [1, 99], "method": "tcp", "refused": {"shm": "not allowed"}},
        {"what": "left", "instance": "b", "conduits": [{**end, "received": 5, "bytes": 500}]},
        {"what": "left", "instance": "a", "conduits": [{**end, "sent": 6, "bytes": 600, "dropped": 1}]},
    ]
    (figures,) = from_events(CONDUITS, events)
    assert (figures.method, figures.refused) == ("tcp", {"shm": "not allowed"})
    assert (figures.sent, figures.received, figures.bytes, figures.dropped) == (6, 5, 600, 1)


def test_what_an_instance_that_was_stopped_has_sent_is_not_known() -> None:
    end = {"conduit": 1, "sent": 0, "received": 0, "bytes": 0, "dropped": 0}
    chosen: dict[str, Any] = {"what": "conduits", "instance": "a", "conduits": [1], "method": "shm"}
    (nobody,) = from_events(CONDUITS, [chosen])
    assert (nobody.method, nobody.sent, nobody.received, nobody.bytes) == ("shm", None, None, None)
    left: dict[str, Any] = {"what": "left", "instance": "b", "conduits": [{**end, "received": 5, "bytes": 500}]}
    (receiver,) = from_events(CONDUITS, [chosen, left])
    assert (receiver.sent, receiver.received) == (None, 5)
    (line,) = conduit_lines([nobody.as_json()])[1:]
    assert line.split() == ["a.o", "->", "b.i", "shm", "-", "-", "-", "-", "-", "-"]
