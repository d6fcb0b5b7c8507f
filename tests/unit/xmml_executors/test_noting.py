"""What of the coordinator's events is written down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xmml_executors.coordinator_events import instance_of, read_event
from xmml_executors.event_notes import EventNotes

PROGRESS = {"event": "progress", "instance": "a", "run": 1, "iteration": 4, "time": 0.5, "messages_sent": 4}
PROGRESS |= {"bytes_sent": 32, "messages_received": 3, "bytes_received": 24}
TOTALS = {"conduit": 3, "sent": 2, "received": 0, "bytes": 16, "dropped": 1}
#: Not in the order of the fields of a planned conduit.
CONDUIT = {"id": 1 << 30, "name": "a.o -> b.i", "sender": "a", "sender_port": "o", "receiver": "b"}
CONDUIT |= {"receiver_port": "i", "sender_copy": 2, "capacity": 16, "byte_budget": 1 << 26}


def noted(*events: tuple[dict[str, Any], float]) -> list[str]:
    """Return what is noted of events that come at these times, as text: the order of the members counts."""
    notes = EventNotes(2)
    found = [(told, notes.details(read_event(told), told, now)) for told, now in events]
    return [json.dumps([told["event"], instance_of(told), kept]) for told, kept in found if kept is not None]


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (
            {"event": "joined", "instance": "a", "pid": 7, "host": "n1", "language": "c++", "version": "0.1"},
            '["joined", "a", {"pid": 7, "host": "n1", "language": "c++", "version": "0.1"}]',
        ),
        (
            PROGRESS,
            '["progress", "a", {"run": 1, "iteration": 4, "messages_sent": 4, "bytes_sent": 32, '
            '"messages_received": 3, "bytes_received": 24, "model_time": 0.5}]',
        ),
        ({"event": "resumed", "instance": "a", "epoch": 2}, '["resumed", "a", {"epoch": 2}]'),
        ({"event": "warning", "instance": "a", "text": "é"}, '["warning", "a", {"text": "\\u00e9"}]'),
        ({"event": "failed", "instance": "a", "text": ""}, '["failed", "a", {"text": ""}]'),
        (
            {"event": "left", "instance": "a", "runs": 1, "conduits": [TOTALS], "waited_s": 0.25},
            '["left", "a", {"runs": 1, "conduits": [{"conduit": 3, "sent": 2, "received": 0, "bytes": 16, '
            '"dropped": 1}], "waited_s": 0.25}]',
        ),
        ({"event": "away", "instance": "a", "limit_s": 60.0}, '["away", "a", {"limit_s": 60.0}]'),
        ({"event": "back", "instance": "a"}, '["back", "a", {}]'),
        ({"event": "lost", "instance": "a"}, '["lost", "a", {}]'),
        (
            {"event": "refused", "peer": "10.0.0.9", "reason": "wrong secret"},
            '["refused", null, {"peer": "10.0.0.9", "reason": "wrong secret"}]',
        ),
        (
            {
                "event": "conduits",
                "instance": "a",
                "conduits": [3],
                "method": "tcp",
                "protected": False,
                "refused": {"unix": "no", "shm": "no"},
            },
            '["conduits", "a", {"conduits": [3], "method": "tcp", "protected": false, '
            '"refused": {"unix": "no", "shm": "no"}}]',
        ),
        (
            {"event": "changed", "instance": "a", "change": 5, "conduit": 3, "method": None, "problem": "no"},
            '["changed", "a", {"change": 5, "conduit": 3, "method": null, "problem": "no"}]',
        ),
        (
            {"event": "opened", "instance": "a", "conduit": CONDUIT},
            f'["opened", "a", {{"conduit": {json.dumps(CONDUIT)}}}]',
        ),
    ],
    ids=lambda value: value["event"] if isinstance(value, dict) else "",
)
def test_an_event_is_noted_as_it_was_told(told: dict[str, Any], text: str) -> None:
    assert noted((told, 0.0)) == [text]


def test_a_wait_is_noted_without_what_every_conduit_has_carried() -> None:
    waits = [{"conduit": 3, "kind": "receive"}]
    event = {"event": "waiting", "instance": "a", "epoch": 2, "waits": waits, "is_any": False, "is_timed": False}
    kept = '"epoch": 2, "waits": [{"conduit": 3, "kind": "receive"}], "is_any": false, "is_timed": false'
    assert noted(({**event, "sent": [(1, 7)], "received": [(2, 7)]}, 0.0)) == [f'["waiting", "a", {{{kept}}}]']


def test_progress_is_noted_once_a_second_for_each_instance() -> None:
    times = [("a", 1.0), ("a", 1.9), ("b", 1.9), ("a", 2.0)]
    lines = noted(*[({**PROGRESS, "instance": name}, now) for name, now in times])
    assert [json.loads(line)[1] for line in lines] == ["a", "b", "a"]


@pytest.mark.parametrize(
    "told",
    [
        {"event": "confirmed", "instance": "a", "epoch": 2, "still": True},
        {"event": "figures", "instance": "a", "number": 1, "sending": [], "receiving": []},
    ],
    ids=lambda told: told["event"],
)
def test_answers_are_not_noted(told: dict[str, Any]) -> None:
    assert noted((told, 0.0)) == []
