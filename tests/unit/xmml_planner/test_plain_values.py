"""Reading by shape, against reading with care: they must understand the same, and refuse the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from xmml_planner.execution_plan import (
    ConduitSpec,
    Cut,
    FilterSpec,
    Job,
    PartsSpec,
    PlannedInstance,
    PlannedPath,
    PortSpec,
    ScaleSpec,
)
from xmml_planner.plain_values import PlanFormatError, _read_with_care, plain_value, read
from xmml_planner.sites.catalogue import Site

CUT = Cut(0, 2)
WHOLE = [
    PortSpec("p", "in", "S", 0, (CUT, CUT), (3, 4), True),
    ConduitSpec(
        *(3, "a.o -> b.i", "a", "o", "b", "i", 15, 1 << 26, None, 2, ("shm", "tcp")),
        sender_filters=(FilterSpec("multiply", 2.5, {"a": "b"}), FilterSpec("reduce")),
        parts=PartsSpec((CUT,), 1, (), 0),
    ),
    PlannedInstance(
        *("c[1]", "c", "submodel", 1, 2, True, 10, False, 0.5, 5.0, {"k": "1 m"}, (PortSpec("p", "out", None),)),
        *(("/bin/true", "x"), {"HOME": "/"}, 1, "instances/c[1]", "local"),
        scales=(ScaleSpec("x", "space", 0.1, 1.0, 10),),
    ),
    PlannedPath(("a", "b"), None, 4, True, 0.01, 1e9, 1 << 20),
    PortSpec("p", "in", None),
    ConduitSpec(3, "a.o -> b.i", "a", "o", "b", "i", 15, 1 << 26, is_state=True),
    Job("job", "site", ("a", "b"), nodes=2, cost=1.5),
    Site("here", env={"A": "B"}, options=("--x",)),
]
VALUES: list[Any] = [None, True, 0, -3, 1 << 40, 2.5, "text", "", [], [1, 2], ["a", "b"], [1, "a"], [[1]], [None]]
VALUES += [{}, {"a": "b"}, {"a": 1}, [{}], [{"dimension": 1, "parts": 2}], {"dimension": 1, "parts": "2"}]


def outcome(read_it: Any, kind: type, plain: Any) -> Any:
    try:
        made = read_it(kind, plain, "it")
    except PlanFormatError as error:
        return str(error)
    return made, hash(repr(made)), [(name, type(value)) for name, value in vars(made).items()]


@pytest.mark.parametrize("whole", WHOLE, ids=lambda whole: type(whole).__name__)
def test_what_was_written_is_read(whole: Any) -> None:
    plain = plain_value(whole)
    assert read(type(whole), plain, "it") == whole
    assert plain_value(read(type(whole), plain, "it")) == plain
    assert all(type(each) in (dict, list, str, int, float, bool, type(None)) for each in plain.values())


@pytest.mark.parametrize("whole", WHOLE, ids=lambda whole: type(whole).__name__)
def test_whatever_stands_in_a_field_is_understood_alike(whole: Any) -> None:
    kind, plain = type(whole), plain_value(whole)
    for name in [field.name for field in dataclasses.fields(kind)] + ["unknown"]:
        without = {key: value for key, value in plain.items() if key != name}
        assert outcome(read, kind, without) == outcome(_read_with_care, kind, without)
        for value in VALUES:
            spoilt = {**plain, name: value}
            assert outcome(read, kind, spoilt) == outcome(_read_with_care, kind, spoilt), (name, value)
    for value in VALUES:
        assert outcome(read, kind, value) == outcome(_read_with_care, kind, value)


@pytest.mark.parametrize("whole", WHOLE, ids=lambda whole: type(whole).__name__)
def test_the_order_of_fields_does_not_matter(whole: Any) -> None:
    backwards = dict(reversed(plain_value(whole).items()))
    made = read(type(whole), backwards, "it")
    assert made == whole
    assert list(plain_value(made)) == list(plain_value(whole))


def test_what_is_read_is_frozen_and_its_own() -> None:
    plain = plain_value(WHOLE[0])
    first, second = read(PortSpec, plain, "it"), read(PortSpec, plain, "it")
    plain["name"] = "other"
    assert (first.name, hash(first)) == ("p", hash(second))
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.name = "q"  # type: ignore[misc]
