"""JSON that sites send, read into dataclasses once, where it comes in.

Nothing that a site says is believed before it has the members and types that it should have. Whatever has others is an
error that names its source.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from xmml_executors.outcome import SiteError

#: Error messages show at most so much of the input.
SHOWN_CHARACTERS = 200
#: Integers lie in [-2^63, 2^63).
INTEGER_END = 1 << 63


class ProtocolError(SiteError):
    """What was read is not what a site may send."""

    def __init__(self, source: str, why: str, what: object) -> None:
        text = what.decode(errors="replace") if isinstance(what, bytes) else json.dumps(what)
        super().__init__(
            f"{source} has reported what xmml-run does not understand: {_shortened(why)}: {_shortened(text)}"
        )


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def parsed(text: str | bytes, source: str) -> Any:
    """Return the JSON value that a text says.

    Raises:
        ProtocolError: it says none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(source, f"this is not JSON ({error})", text) from None


def check_type(kind: Any, what: object, source: str, name: str) -> Any:
    """Return a JSON value that has a type, such as `Mapping[str, int]`.

    Raises:
        ProtocolError: it has another one.
    """
    if not _has_type(what, kind):
        raise ProtocolError(source, f"{name} has the wrong type", what)
    return what


def read_object(kind: type, what: object, source: str, name: str) -> Any:
    """Return what a JSON value says, as an object of a dataclass, whose fields are the members.

    Args:
        kind: the dataclass.
        source: who has sent it, for errors.
        name: what it is, for errors.

    Raises:
        ProtocolError: it is no object, or has not the members, or they have not the types, of the dataclass.
    """
    if not isinstance(what, dict):
        raise ProtocolError(source, "this is not an object", what)
    types = _types(kind)
    for member, value in what.items():
        if member not in types:
            raise ProtocolError(source, f"{name} has an unknown member {member!r}", what)
        if not _has_type(value, types[member]):
            raise ProtocolError(source, f"{member} of {name} has the wrong type", what)
    if missing := [each for each, default in defaults(kind) if default is MISSING and each not in what]:
        raise ProtocolError(source, f"{name} lacks {', '.join(missing)}", what)
    return kind(**what)


def read_tagged_object(kinds: Mapping[str, type], what: object, source: str) -> Any:
    """Return what a JSON object says, as an object of the dataclass that its member `is` names.

    Args:
        kinds: the dataclasses by their words.
        source: who has sent it, for errors.

    Raises:
        ProtocolError: see `read_object`; or `is` names none of them.
    """
    if not isinstance(what, dict):
        raise ProtocolError(source, "this is not an object", what)
    word = what.get("is")
    kind = kinds.get(word) if isinstance(word, str) else None
    if kind is None:
        raise ProtocolError(source, f"unknown message {word!r}", what)
    return read_object(kind, {name: value for name, value in what.items() if name != "is"}, source, repr(word))


@cache
def defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a dataclass, each with its default, or `MISSING`."""
    return tuple(
        (each.name, each.default if each.default_factory is MISSING else each.default_factory())
        for each in fields(kind)
    )


@cache
def _types(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _has_type(value: object, kind: Any) -> bool:
    """Whether a JSON value has a type. Numbers must be finite, and integers in range."""
    match get_origin(kind) or kind:
        case origin if origin is UnionType:
            return any(_has_type(value, each) for each in get_args(kind))
        case origin if origin is Sequence:
            (inside,) = get_args(kind)
            return isinstance(value, list) and all(_has_type(each, inside) for each in value)
        case origin if origin is Mapping:
            _, inside = get_args(kind)
            return isinstance(value, dict) and all(_has_type(each, inside) for each in value.values())
    if kind is object:
        return True
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and -INTEGER_END <= value < INTEGER_END
    if kind is float:
        return _has_type(value, int) or (isinstance(value, float) and math.isfinite(value))
    assert kind in (str, bool, NoneType), f"a type that JSON has not: {kind}"
    return isinstance(value, kind)
