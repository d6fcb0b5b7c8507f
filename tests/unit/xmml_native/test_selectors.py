"""Selectors choose what their text says: every object that an evaluation in Python chooses, and no other."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xmml_native._native import Attributes, AttributeSchema, Selector

SCHEMA = AttributeSchema(
    "step:int[-20..20]! number:int[1..5] param:uint level:real[0..100] levtype:enum(sfc,pl,ml) name:str final:bool"
)
VARIABLES = {"index": 2, "count": 4, "least": 12.5, "kind": "pl"}

Object = dict[str, Any]


@dataclass(frozen=True)
class Term:
    """The text of a term, and its value for an object: `None` where an attribute is absent."""

    text: str
    value: Callable[[Object], Any]


@dataclass(frozen=True)
class Condition:
    """The text of a condition, and whether it holds for an object."""

    text: str
    holds: Callable[[Object], bool]


def attribute(name: str) -> Term:
    return Term(name, lambda of: of.get(name))


def constant(value: Any, text: str | None = None) -> Term:
    quoted = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()
    return Term(text or quoted, lambda _: value)


def computed(left: Term, sign: str, right: Term) -> Term:
    operations = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "%": int.__mod__}

    def value(of: Object) -> Any:
        both = left.value(of), right.value(of)
        return None if None in both else operations[sign](*both)

    return Term(f"({left.text} {sign} {right.text})", value)


def compared(left: Term, sign: str, right: Term) -> Condition:
    operations: dict[str, Callable[[Any, Any], bool]] = {
        "=": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
    }

    def holds(of: Object) -> bool:
        both = left.value(of), right.value(of)
        return None not in both and operations[sign](*both)

    return Condition(f"{left.text} {sign} {right.text}", holds)


def listed(what: Term, members: list[Term]) -> Condition:
    def holds(of: Object) -> bool:
        value = what.value(of)
        return value is not None and value in [each.value(of) for each in members]

    return Condition(f"{what.text} in ({', '.join(each.text for each in members)})", holds)


def between(what: Term, least: int, most: int, step: int | None) -> Condition:
    def holds(of: Object) -> bool:
        value = what.value(of)
        return value is not None and least <= value <= most and (step is None or (value - least) % step == 0)

    return Condition(f"{what.text} in {least}..{most}" + (f" step {step}" if step else ""), holds)


def given_at_all(name: str) -> Condition:
    return Condition(f"has({name})", lambda of: name in of)


def both(one: Condition, other: Condition) -> Condition:
    return Condition(f"({one.text} and {other.text})", lambda of: one.holds(of) and other.holds(of))


def either(one: Condition, other: Condition) -> Condition:
    return Condition(f"({one.text} or {other.text})", lambda of: one.holds(of) or other.holds(of))


def negated(one: Condition) -> Condition:
    return Condition(f"not ({one.text})", lambda of: not one.holds(of))


ORDER = st.sampled_from(["=", "!=", "<", "<=", "gt", "ge"])
EQUALITY = st.sampled_from(["=", "!="])
WHOLE = st.integers(-30, 30)
TEXTS = st.text("ab'é ", max_size=3)

integers = st.recursive(
    st.one_of(
        st.sampled_from(["step", "number", "param"]).map(attribute),
        WHOLE.map(constant),
        st.just(constant(2, "$index")),
        st.just(constant(4, "$count")),
    ),
    # No operand is 0 where a remainder is taken.
    lambda inner: st.one_of(
        st.builds(computed, inner, st.sampled_from("+-*"), inner),
        st.builds(computed, inner, st.just("%"), st.integers(1, 9).map(constant)),
    ),
    max_leaves=4,
)
reals = st.one_of(st.just(attribute("level")), st.floats(0, 99).map(constant), st.just(constant(12.5, "$least")))
members = st.one_of(st.sampled_from(["sfc", "pl", "ml"]).map(constant), st.just(constant("pl", "$kind")))
conditions = st.recursive(
    st.one_of(
        st.builds(compared, integers, ORDER, integers),
        st.builds(compared, st.one_of(integers, reals), ORDER, reals),
        st.builds(compared, st.just(attribute("levtype")), EQUALITY, members),
        st.builds(compared, st.just(attribute("name")), ORDER, TEXTS.map(constant)),
        st.builds(compared, st.just(attribute("final")), EQUALITY, st.booleans().map(constant)),
        st.builds(listed, integers, st.lists(integers, min_size=1, max_size=4)),
        st.builds(listed, st.just(attribute("levtype")), st.lists(members, min_size=1, max_size=3)),
        st.builds(between, integers, WHOLE, WHOLE, st.one_of(st.none(), st.integers(1, 7))),
        st.sampled_from(["step", "number", "levtype"]).map(given_at_all),
    ),
    lambda inner: st.one_of(st.builds(both, inner, inner), st.builds(either, inner, inner), inner.map(negated)),
    max_leaves=6,
)
objects = st.fixed_dictionaries(
    {"step": st.integers(-20, 20)},
    optional={
        "number": st.integers(1, 5),
        "param": st.integers(0, 40),
        "level": st.floats(0, 100),
        "levtype": st.sampled_from(["sfc", "pl", "ml"]),
        "name": TEXTS,
        "final": st.booleans(),
    },
)


@given(condition=conditions, offered=st.lists(objects, min_size=1, max_size=30))
@settings(max_examples=20_000 if os.environ.get("XMML_SOAK") else 300, deadline=None)
def test_the_objects_that_a_selector_chooses_are_those_that_python_chooses(
    condition: Condition, offered: list[Object]
) -> None:
    selector = Selector(condition.text, SCHEMA, VARIABLES)
    wanted = [each for each in offered if condition.holds(each)]
    assert [each for each in offered if selector.matches(SCHEMA.complete(each))] == wanted
    assert selector.can_match(SCHEMA) or not wanted


def test_a_mistake_says_which_characters_are_wrong() -> None:
    with pytest.raises(ValueError, match="there is no attribute 'stpe'; did you mean step") as told:
        Selector("name = 'é' and stpe = 1", SCHEMA)
    assert told.value.args[1:] == (15, 19)
    with pytest.raises(ValueError, match="there is no type 'itn'") as told:
        AttributeSchema("a:itn")
    assert told.value.args[1:] == (2, 5)


def test_an_object_with_wrong_attributes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"number = 6 is not allowed: it is int\[1\.\.5\]"):
        SCHEMA.complete({"step": 1, "number": 6})
    with pytest.raises(ValueError, match="step is missing, which is required"):
        SCHEMA.complete({})
    with pytest.raises(TypeError, match="step: an attribute cannot be a object"):
        SCHEMA.complete({"step": object()})
    with pytest.raises(ValueError, match="step = 36893488147419103232 is larger than any int or uint"):
        SCHEMA.complete({"step": 2**65})


def test_values_of_numpy_are_taken_as_those_of_python() -> None:
    import numpy

    chosen = Selector("step = 3 and level = 0.5 and final = true", SCHEMA)
    assert chosen.matches(SCHEMA.complete({"step": numpy.int16(3), "level": numpy.float32(0.5), "final": True}))
    lists = AttributeSchema("a:int[] b:real[] c:bytes")
    assert isinstance(lists.complete({"a": numpy.arange(3), "b": [0.5, 1], "c": b"x"}), Attributes)
