"""The events of the coordinator: read once, and whatever is none is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from xmml_executors.coordinator_events import (
    Away,
    Back,
    ConduitTotals,
    Confirmed,
    CoordinatorEvent,
    Failed,
    Figures,
    GivenAgain,
    Joined,
    Left,
    Lost,
    MethodChanged,
    MethodChosen,
    MethodReport,
    Opened,
    Progress,
    Refused,
    Resumed,
    Wait,
    Waiting,
    Warned,
    read_event,
)
from xmml_executors.typed_json import ProtocolError
from xmml_planner import FIRST_OPENED, ConduitSpec

SOURCE_OF_EVENTS = Path(__file__).parents[3] / "native/python/src/coordinator.rs"

TOTALS = {"conduit": 3, "sent": 2, "received": 0, "bytes": 16, "dropped": 1}
REPORT = {
    "conduit": 3,
    "name": "a.o -> b.i",
    "chosen": "tcp",
    "protected": True,
    "refused": {"shm": "not allowed"},
    "slower": ["relay"],
    "messages": 2,
    "bytes": 16,
    "messages_per_s": 0.5,
    "bytes_per_s": 4.0,
    "latency_s": 1e-5,
}
CONDUIT = {
    "id": FIRST_OPENED,
    "name": "a.o -> b.i",
    "sender": "a",
    "sender_port": "o",
    "receiver": "b",
    "receiver_port": "i",
    "capacity": 16,
    "byte_budget": 1 << 26,
}
#: What the coordinator gives, and what it means.
EVENTS: list[tuple[dict[str, Any], CoordinatorEvent]] = [
    (
        {"event": "joined", "instance": "a", "pid": 7, "host": "n1", "language": "c++", "version": "0.1"},
        Joined("a", 7, "n1", "c++", "0.1"),
    ),
    (
        {
            "event": "progress",
            "instance": "a",
            "run": 1,
            "iteration": 4,
            "time": 0.5,
            "messages_sent": 4,
            "bytes_sent": 32,
            "messages_received": 3,
            "bytes_received": 24,
        },
        Progress("a", 1, 4, 0.5, 4, 32, 3, 24),
    ),
    (
        {
            "event": "waiting",
            "instance": "a",
            "epoch": 2,
            "waits": [{"conduit": 3, "kind": "receive"}],
            "is_any": False,
            "is_timed": True,
            "sent": [(1, 7)],
            "received": [(3, 6), (4, 0)],
        },
        Waiting("a", 2, (Wait(3, "receive"),), False, True, {1: 7}, {3: 6, 4: 0}),
    ),
    ({"event": "resumed", "instance": "a", "epoch": 2}, Resumed("a", 2)),
    ({"event": "confirmed", "instance": "a", "epoch": 2, "still": True}, Confirmed("a", 2, True)),
    ({"event": "warning", "instance": "a", "text": "drift"}, Warned("a", "drift")),
    ({"event": "failed", "instance": "a", "text": ""}, Failed("a", "")),
    (
        {"event": "left", "instance": "a", "runs": 1, "conduits": [TOTALS], "waited_s": 0.25},
        Left("a", 1, (ConduitTotals(3, 2, 0, 16, 1),), 0.25),
    ),
    ({"event": "away", "instance": "a", "limit_s": 60.0}, Away("a", 60.0)),
    ({"event": "back", "instance": "a"}, Back("a")),
    ({"event": "lost", "instance": "a"}, Lost("a")),
    ({"event": "refused", "peer": "10.0.0.9", "reason": "wrong secret"}, Refused("10.0.0.9", "wrong secret")),
    (
        {
            "event": "conduits",
            "instance": "a",
            "conduits": [3, 4],
            "method": "tcp",
            "protected": True,
            "refused": {"shm": "not allowed"},
        },
        MethodChosen("a", (3, 4), "tcp", True, {"shm": "not allowed"}),
    ),
    (
        {
            "event": "figures",
            "instance": "a",
            "number": 1,
            "sending": [REPORT],
            "receiving": [{**REPORT, "chosen": None, "latency_s": None}],
        },
        Figures(
            "a",
            1,
            (
                MethodReport(
                    3, "a.o -> b.i", "tcp", True, {"shm": "not allowed"}, ("relay",), 2, 16, 0.5, 4.0, latency_s=1e-5
                ),
            ),
            (
                MethodReport(
                    3, "a.o -> b.i", None, True, {"shm": "not allowed"}, ("relay",), 2, 16, 0.5, 4.0, latency_s=None
                ),
            ),
        ),
    ),
    (
        {"event": "given_again", "instance": "a", "conduit": 3, "objects": 2, "deadly": None},
        GivenAgain("a", 3, 2, None),
    ),
    (
        {"event": "changed", "instance": "a", "change": 5, "conduit": 3, "method": None, "problem": "not allowed"},
        MethodChanged("a", 5, 3, None, "not allowed"),
    ),
    (
        {"event": "opened", "instance": "a", "conduit": CONDUIT},
        Opened("a", ConduitSpec(FIRST_OPENED, "a.o -> b.i", "a", "o", "b", "i", 16, 1 << 26)),
    ),
]
MEMBERS = [(told, member) for told, _ in EVENTS for member in told if member != "event"]
#: Of no member's type.
OF_NO_TYPE = (1, 2, 3)


def name_of(value: object) -> str | None:
    return value["event"] if isinstance(value, dict) else value if isinstance(value, str) else ""


def reordered(value: Any) -> Any:
    """Return the members of objects in the opposite order."""
    if isinstance(value, list):
        return [reordered(each) for each in value]
    return {name: reordered(value[name]) for name in reversed(value)} if isinstance(value, dict) else value


def error_of(told: Mapping[str, Any]) -> str:
    with pytest.raises(ProtocolError) as caught:
        read_event(told)
    text = str(caught.value)
    assert text.startswith("the coordinator has reported what xmml-run does not understand: ")
    return text


@pytest.mark.parametrize(("told", "event"), EVENTS, ids=name_of)
def test_an_event_is_read_into_an_object_of_its_class(told: dict[str, Any], event: CoordinatorEvent) -> None:
    assert read_event(told) == event
    assert event.word == told["event"]


@pytest.mark.parametrize(("told", "member"), MEMBERS, ids=name_of)
def test_an_event_that_lacks_a_member_is_none(told: dict[str, Any], member: str) -> None:
    lacking = {name: value for name, value in told.items() if name != member}
    assert f"{told['event']!r} lacks {member}: " in error_of(lacking)


@pytest.mark.parametrize(("told", "member"), MEMBERS, ids=name_of)
def test_an_event_of_which_a_member_has_the_wrong_type_is_none(told: dict[str, Any], member: str) -> None:
    assert f"{member} of {told['event']!r} has the wrong type: " in error_of({**told, member: OF_NO_TYPE})


@pytest.mark.parametrize(("told", "event"), EVENTS, ids=name_of)
def test_the_order_of_members_means_nothing(told: dict[str, Any], event: CoordinatorEvent) -> None:
    assert read_event(reordered(told)) == event


@pytest.mark.parametrize(("told", "event"), EVENTS, ids=name_of)
def test_an_event_with_an_unknown_member_is_none(told: dict[str, Any], event: CoordinatorEvent) -> None:
    assert f"{told['event']!r} has an unknown member 'colour'" in error_of({**told, "colour": "red"})


@pytest.mark.parametrize(
    ("event", "member", "inside"),
    [
        ("waiting", "waits", {"conduit": 3}),
        ("waiting", "waits", {"conduit": 3, "kind": "breakfast"}),
        ("waiting", "sent", (1, "7")),
        ("waiting", "received", ("1", 7)),
        ("waiting", "received", (1,)),
        ("waiting", "received", 1),
        *[("left", "conduits", {**TOTALS, each: "7"}) for each in TOTALS],
        *[("left", "conduits", {name: TOTALS[name] for name in TOTALS if name != each}) for each in TOTALS],
        ("left", "conduits", {**TOTALS, "colour": 7}),
        *[("figures", "sending", {**REPORT, each: OF_NO_TYPE}) for each in REPORT],
        *[("figures", "receiving", {name: REPORT[name] for name in REPORT if name != each}) for each in REPORT],
        ("figures", "sending", {**REPORT, "messages": 1 << 63}),
        ("figures", "sending", {**REPORT, "latency_s": float("inf")}),
        ("conduits", "conduits", "3"),
    ],
)
def test_an_event_with_something_malformed_inside_is_none(event: str, member: str, inside: object) -> None:
    (told,) = [told for told, _ in EVENTS if told["event"] == event]
    assert f"{member} of '{event}' has the wrong type: " in error_of({**told, member: [inside]})


@pytest.mark.parametrize("member", CONDUIT)
def test_an_opened_conduit_that_lacks_something_is_none(member: str) -> None:
    conduit = {name: value for name, value in CONDUIT.items() if name != member}
    assert "conduit of 'opened' has the wrong type" in error_of(
        {"event": "opened", "instance": "a", "conduit": conduit}
    )


@pytest.mark.parametrize("word", ["exploded", "", None, 7, ["joined"]])
def test_an_unknown_event_is_an_error(word: object) -> None:
    assert f"unknown message {word!r}" in error_of({"event": word, "instance": "a"})


def test_what_does_not_say_which_event_it_is_is_none() -> None:
    assert "unknown message None" in error_of({"is": "lost", "instance": "a"})


def test_the_native_coordinator_reports_these_events_with_these_members() -> None:
    made = SOURCE_OF_EVENTS.read_text().partition("fn to_dict")[2].partition("\n}\n")[0].split('"event": ')[1:]
    members = {word: names for word, *names in (re.findall(r'"(\w+)"', each) for each in made)}
    classes = {each.word: [one.name for one in fields(each)] for each in get_args(CoordinatorEvent)}
    assert members == classes
    assert {told["event"] for told, _ in EVENTS} == classes.keys()
