"""Dataclasses as plain values, such as JSON holds, and back.

A plan may hold a hundred thousand conduits and ports, most of which are alike but for their names, so objects are read
by their shape: which fields are given, in which order, with values of which types. What is to be done for a shape is
found out once. Whatever does not fit is read again with care, which says where the mistake is.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, TypeVar

from xmml.late_dataclass import dataclass


class PlanFormatError(ValueError):
    """A `plan.json` that is none; the text says where and why."""


_SCALARS = frozenset({str, int, float, bool, type(None)})


def plain_value(value: Any) -> Any:
    """Return dataclasses as dictionaries and tuples as lists; a plan may hold a hundred thousand of them."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, (list, tuple)):
        return [plain_value(each) for each in value]
    if not dataclasses.is_dataclass(kind):
        return {key: plain_value(each) for key, each in value.items()}
    form = _written_form(typing.cast(Any, kind))
    plain = dict(vars(value)) if form.is_whole else {name: getattr(value, name) for name in form.names}
    for name, default in form.left_out:
        if plain[name] == default:
            del plain[name]
    for name in form.nested & plain.keys():
        each = plain[name]
        plain[name] = [] if each == () else plain_value(each)
    return plain


@dataclass(frozen=True)
class _WrittenForm:
    """How a class is written.

    Attributes:
        names: its fields, in their order.
        is_whole: what an object keeps is its fields, in their order, and nothing else.
        left_out: fields that are not written where they have their defaults, with these.
        nested: fields that may hold something else than scalars.
    """

    names: tuple[str, ...]
    is_whole: bool
    left_out: tuple[tuple[str, Any], ...]
    nested: frozenset[str]


@cache
def _written_form(kind: Any) -> _WrittenForm:
    fields = _fields(kind)
    keeps_more = any(isinstance(each, cached_property) for base in kind.__mro__ for each in vars(base).values())
    hints = _field_types(kind)
    return _WrittenForm(
        names=tuple(each.name for each in fields),
        is_whole=not keeps_more,
        left_out=tuple((each.name, each.default) for each in fields if each.metadata.get("left_out")),
        nested=frozenset(each.name for each in fields if not _is_scalar(hints[each.name])),
    )


def _is_scalar(hint: Any) -> bool:
    origin, arguments = _parts(hint)
    return hint in _SCALARS or (origin is types.UnionType and _SCALARS.issuperset(arguments))


_Made = TypeVar("_Made")


@cache
def _field_types(kind: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _read_with_care(kind: type[_Made], plain: Any, where: str) -> _Made:
    """Return a dataclass from plain values, checking every field's type."""
    if not isinstance(plain, dict):
        raise PlanFormatError(f"{where}: expected an object, found {type(plain).__name__}")
    hints = _field_types(typing.cast(Any, kind))
    values = {}
    for each in _fields(typing.cast(Any, kind)):
        if each.name in plain:
            values[each.name] = _value(hints[each.name], plain[each.name], f"{where}.{each.name}")
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise PlanFormatError(f'{where}: the field "{each.name}" is missing')
    unknown = plain.keys() - hints.keys()
    if unknown:
        raise PlanFormatError(f"{where}: unknown field(s) {', '.join(sorted(unknown))}")
    return kind(**values)


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(hint), typing.get_args(hint)


@cache
def _fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


def _value(hint: Any, plain: Any, where: str) -> Any:
    if type(plain) is hint:
        return plain
    origin, arguments = _parts(hint)
    if origin is tuple:
        if not isinstance(plain, list):
            raise PlanFormatError(f"{where}: expected a list, found {type(plain).__name__}")
        return tuple(_value(arguments[0], each, f"{where}[{index}]") for index, each in enumerate(plain))
    if origin is types.UnionType:
        return None if plain is None else _value(arguments[0], plain, where)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(plain, dict):
            raise PlanFormatError(f"{where}: expected an object, found {type(plain).__name__}")
        return {key: _value(arguments[1], each, f"{where}.{key}") for key, each in plain.items()}
    if dataclasses.is_dataclass(hint):
        return _read_with_care(typing.cast(type, hint), plain, where)
    if hint is float and type(plain) is int:
        return float(plain)
    if type(plain) is not hint:
        raise PlanFormatError(f"{where}: expected {hint.__name__}, found {plain!r}")
    return plain


def read(kind: type[_Made], plain: Any, where: str) -> _Made:
    """Return a dataclass from plain values, checking every field's type; `where` names it for people.

    Raises:
        PlanFormatError: a field is missing, unknown, or of another type.
    """
    try:
        made: _Made = _reader(typing.cast(Any, kind))(plain)
    except _UnexpectedError:
        return _read_with_care(kind, plain, where)
    return made


class _UnexpectedError(Exception):
    """Plain values that do not fit, or that only reading with care understands."""


_Convert = Callable[[Any], Any]

#: Frozen classes with few different objects: of those that are alike, one is made.
_SHARED = frozenset({"PortSpec"})


@cache
def _reader(kind: Any) -> _Convert:
    """Return what makes an object of a class from a dictionary."""
    shapes: dict[tuple[Any, ...], tuple[tuple[tuple[str, _Convert], ...], dict[str, Any] | None]] = {}
    alike: dict[tuple[Any, ...], Any] = {}
    is_shared = kind.__name__ in _SHARED
    if hasattr(kind, "__post_init__") or hasattr(kind, "__slots__"):
        return _refuse
    new = object.__new__

    def read_object(plain: Any) -> Any:
        if type(plain) is not dict:
            raise _UnexpectedError
        shape = (*plain, *map(type, plain.values()))
        found = shapes.get(shape)
        if found is None:
            found = shapes[shape] = _examined(kind, plain), _defaults(kind, plain)
        conversions, defaults = found
        if defaults is None:
            return kind(**{**plain, **{name: convert(plain[name]) for name, convert in conversions}})
        key = (shape, *plain.values()) if is_shared and not conversions else None
        if key in alike:
            return alike[key]
        # As its own method would, but without a call for each field: what is frozen is frozen from here on.
        made = new(kind)
        values = vars(made)
        values.update(defaults)
        values.update(plain)
        for name, convert in conversions:
            values[name] = convert(plain[name])
        if key is not None:
            alike[key] = made
        return made

    return read_object


def _defaults(kind: Any, plain: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the fields hold that plain values of this shape leave out: all fields in their order, so that an
    object has them in this one. Empty: nothing is left out; `None`: something is that each object has anew."""
    fields = _fields(kind)
    if tuple(plain) == tuple(each.name for each in fields):
        return {}
    if any(each.name not in plain and each.default is dataclasses.MISSING for each in fields):
        return None
    return {each.name: None if each.name in plain else each.default for each in fields}


def _refuse(plain: Any) -> Any:
    raise _UnexpectedError


def _examined(kind: Any, plain: Mapping[str, Any]) -> tuple[tuple[str, _Convert], ...]:
    """Return which fields of plain values of this shape have to be converted, and how."""
    hints = _field_types(kind)
    fields = {each.name: each for each in _fields(kind)}
    if not plain.keys() <= fields.keys():
        raise _UnexpectedError
    for name, each in fields.items():
        if name not in plain and each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise _UnexpectedError
    given: dict[str, Any] = {name: type(value) for name, value in plain.items()}
    conversions = ((name, _conversion(hints[name], kind)) for name, kind in given.items())
    return tuple((name, convert) for name, convert in conversions if convert is not None)


@cache
def _conversion(hint: Any, given: Any) -> _Convert | None:
    """Return how a value of the type `given` becomes one that `hint` describes; `None`: it is one."""
    if given is hint:
        return None
    origin, arguments = _parts(hint)
    if origin is types.UnionType:
        return None if given is type(None) else _conversion(arguments[0], given)
    if origin is tuple and given is list:
        return _list_reader(arguments[0])
    if origin is not None and issubclass(origin, Mapping) and given is dict:
        return _mapping_reader(arguments[1])
    if dataclasses.is_dataclass(hint) and given is dict:
        wanted: Any = hint
        return _reader(wanted)
    if hint is float and given is int:
        return float
    raise _UnexpectedError


def _list_reader(hint: Any) -> _Convert:
    def read_list(plain: list[Any]) -> tuple[Any, ...]:
        if not plain:
            return ()
        kinds: set[Any] = set(map(type, plain))
        if len(kinds) > 1:
            return tuple(_converted(hint, each) for each in plain)
        convert = _conversion(hint, kinds.pop())
        return tuple(plain) if convert is None else tuple(map(convert, plain))

    return read_list


def _mapping_reader(hint: Any) -> _Convert:
    return lambda plain: {key: _converted(hint, each) for key, each in plain.items()}


def _converted(hint: Any, plain: Any) -> Any:
    given: Any = type(plain)
    convert = _conversion(hint, given)
    return plain if convert is None else convert(plain)
