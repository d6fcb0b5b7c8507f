"""Plain values that come from elsewhere, such as JSON that sites send, read into dataclasses once, where they come in.

Nothing that somebody says is believed before it has the members and types that it should have. Whatever has others is
an error that names its source.

`xmml_planner.plain_values` reads plans, which are files of this user and may be large. It remembers each shape that an
object had, by which a site could fill the memory here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

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
    try:
        return _reader(kind)(what)
    except _WrongTypeError:
        raise ProtocolError(source, f"{name} has the wrong type", what) from None


def read_object(kind: type, what: object, source: str, name: str) -> Any:
    """Return what a JSON value says, as an object of a dataclass, whose fields are the members.

    Fields whose type is a dataclass hold objects of it, and those of type `tuple` tuples.

    Args:
        kind: the dataclass.
        source: who has sent it, for errors.
        name: what it is, for errors.

    Raises:
        ProtocolError: it is no object, or has not the members, or they have not the types, of the dataclass.
    """
    try:
        return _object_reader(kind)(what)
    except _WrongTypeError:
        raise ProtocolError(source, _mistake(kind, what, name), what) from None


def _mistake(kind: type, what: object, name: str) -> str:
    """Return why a value is no object of a dataclass."""
    if not isinstance(what, dict):
        return "this is not an object"
    readers, needed = _members(kind)
    for member, value in what.items():
        if member not in readers:
            return f"{name} has an unknown member {member!r}"
        try:
            readers[member](value)
        except _WrongTypeError:
            return f"{member} of {name} has the wrong type"
    return f"{name} lacks {', '.join(each for each in readers if each in needed and each not in what)}"


def read_tagged_object(kinds: Mapping[str, type], what: object, source: str, tag: str = "is") -> Any:
    """Return what a JSON object says, as an object of the dataclass that its member `tag` names.

    Args:
        kinds: the dataclasses by their words.
        source: who has sent it, for errors.

    Raises:
        ProtocolError: see `read_object`; or the member names none of them.
    """
    if not isinstance(what, dict):
        raise ProtocolError(source, "this is not an object", what)
    word = what.get(tag)
    kind = kinds.get(word) if isinstance(word, str) else None
    if kind is None:
        raise ProtocolError(source, f"unknown message {word!r}", what)
    members = dict(what)
    del members[tag]
    return read_object(kind, members, source, repr(word))


@cache
def defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a dataclass, each with its default, or `MISSING`."""
    return tuple(
        (each.name, each.default if each.default_factory is MISSING else each.default_factory())
        for each in fields(kind)
    )


_Read = Callable[[Any], Any]
_ReadAll = Callable[[Collection[Any]], list[Any]]


class _WrongTypeError(Exception):
    """A value has not the type that it should have."""


@cache
def _members(kind: type) -> tuple[dict[str, _Read], frozenset[str]]:
    """Return the function that reads each field of a dataclass, and the names of the fields that have no default."""
    hints = get_type_hints(kind)
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
    return readers, frozenset(name for name, default in defaults(kind) if default is MISSING)


@cache
def _reader(kind: Any) -> _Read:
    """Return the function that reads a value of a type, and raises `_WrongTypeError` for any other value.

    It is made once for each type: a run may have a hundred thousand conduits.
    """
    if kind in _SCALAR_READERS:
        return _SCALAR_READERS[kind]
    origin, inside = get_origin(kind), get_args(kind)
    if origin is UnionType:
        others = [_reader(each) for each in inside if each is not NoneType]
        return _union_reader(others, allows_none=NoneType in inside)
    if origin is Sequence:
        return _list_reader(_items_reader(inside[0]), list)
    if origin is tuple:
        return _list_reader(_items_reader(inside[0]), tuple)
    if origin is Mapping:
        return _mapping_reader(*inside)
    if origin is Literal:
        return _word_reader(frozenset(inside))
    assert isinstance(kind, type), f"a type that JSON has not: {kind}"
    return _object_reader(kind)


@cache
def _items_reader(kind: Any) -> _ReadAll:
    """Return the function that reads all values of a collection; most of very long ones are of integers."""
    if kind is int:
        return _read_integers
    read = _reader(kind)
    return lambda values: [read(each) for each in values]


def _read_text(value: Any) -> Any:
    if type(value) is str:
        return value
    raise _WrongTypeError


def _read_truth(value: Any) -> Any:
    if value is True or value is False:
        return value
    raise _WrongTypeError


def _read_integer(value: Any) -> Any:
    if type(value) is int and -INTEGER_END <= value < INTEGER_END:
        return value
    raise _WrongTypeError


def _read_integers(values: Collection[Any]) -> list[Any]:
    for each in values:
        if type(each) is not int or not -INTEGER_END <= each < INTEGER_END:
            raise _WrongTypeError
    return list(values)


def _read_number(value: Any) -> Any:
    if type(value) is float and math.isfinite(value):
        return value
    return _read_integer(value)


#: Numbers must be finite, and integers in range.
_SCALAR_READERS: dict[Any, _Read] = {
    str: _read_text,
    bool: _read_truth,
    int: _read_integer,
    float: _read_number,
    object: lambda value: value,
}


def _union_reader(others: Sequence[_Read], *, allows_none: bool) -> _Read:
    def read(value: Any) -> Any:
        if value is None and allows_none:
            return None
        for each in others:
            try:
                return each(value)
            except _WrongTypeError:
                continue
        raise _WrongTypeError

    return read


def _list_reader(read_all: _ReadAll, make: Callable[[list[Any]], Sequence[Any]]) -> _Read:
    def read(value: Any) -> Any:
        if isinstance(value, list):
            return make(read_all(value))
        raise _WrongTypeError

    return read


def _mapping_reader(keys: type, inside: type) -> _Read:
    """Read mappings. JSON has only texts as keys, so that those with other keys come as lists of pairs."""
    read_keys, read_all = _items_reader(keys), _items_reader(inside)
    form = dict if keys is str else list

    def read(value: Any) -> Any:
        if not isinstance(value, form):
            raise _WrongTypeError
        try:
            made = dict(value)
        except (TypeError, ValueError):
            raise _WrongTypeError from None
        return dict(zip(read_keys(made), read_all(made.values()), strict=True))

    return read


def _word_reader(words: frozenset[str]) -> _Read:
    def read(value: Any) -> Any:
        if type(value) is str and value in words:
            return value
        raise _WrongTypeError

    return read


@cache
def _object_reader(kind: type) -> _Read:
    assert not hasattr(kind, "__post_init__"), f"what {kind} does with its fields would be left out"
    readers, needed = _members(kind)
    names = tuple(readers)
    has_only_integers = all(each is _read_integer for each in readers.values())
    new = object.__new__

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _WrongTypeError
        if tuple(value) != names:
            return read_some(value)
        # As its own method would, but without a call for each field: what is frozen is frozen from here on.
        made: Any = new(kind)
        if has_only_integers:
            _read_integers(value.values())
            vars(made).update(value)
        else:
            vars(made).update({member: readers[member](each) for member, each in value.items()})
        return made

    def read_some(value: dict[str, Any]) -> Any:
        """Read an object some of whose fields have their defaults, or come in another order."""
        if not needed <= value.keys() <= readers.keys():
            raise _WrongTypeError
        return kind(**{member: readers[member](each) for member, each in value.items()})

    return read
