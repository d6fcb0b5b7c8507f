"""Objects of an archive as one array, whose payloads are read when their elements are asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Any, Literal, get_args

import numpy as np

from xmml_native.archives.archived_object import ArchivedObject
from xmml_native.archives.plain import single
from xmml_native.errors import ArchiveError

#: Which of objects that have the same place counts.
Which = Literal["only", "first", "last"]

#: Where objects follow each other that are not put in order by their attributes.
OBJECT = "object"

#: What the array says itself.
_OF_PAYLOADS = ("sys.size", "sys.type", "sys.shape")

_NUMBERS = {"bool": "bool", "int": "int64", "float": "float64", "complex": "complex128"}

Place = tuple[int, ...]


class Stack:
    """Objects side by side: an array with a dimension for each of some attributes, before the axes of the payloads.

    Attributes:
        dims: the attributes that are dimensions, or `object`.
        shape: extents, those of the payloads last.
        dtype: the type of the elements.
        fill: the elements where there is no object.
        coordinates: of each attribute that objects do not have alike, its dimensions and values.
        attributes: the others, as numbers and texts.

    Args:
        objects: at least one.
        dims: attributes; `None`: objects follow each other along `object`.
        which: which of objects counts that agree in all of them.
        fill: the elements where there is no object; `None`: NaN, also of whole numbers.
        types: those of the attributes.

    Raises:
        ArchiveError: the objects do not fit together.
    """

    def __init__(
        self,
        objects: Sequence[ArchivedObject],
        dims: Sequence[str] | None,
        which: Which,
        fill: Any,
        types: Mapping[str, str],
    ) -> None:
        if which not in get_args(Which):
            raise ArchiveError(f'which="{which}" is unknown; use {", ".join(get_args(Which))}')
        if not objects:
            raise ArchiveError("the selector chooses no object, and an array needs one at least")
        self.coordinates: dict[str, tuple[tuple[str, ...], np.ndarray[Any, Any]]] = {}
        self.attributes: dict[str, Any] = {}
        if dims is None:
            self._follow_each_other(objects, types)
        else:
            self._put_in_order(objects, dims, which, types)
        self._of_payloads(fill)
        for name, kind in types.items():
            if name not in self.dims and name not in _OF_PAYLOADS:
                self._describe(name, kind)

    def _follow_each_other(self, objects: Sequence[ArchivedObject], types: Mapping[str, str]) -> None:
        if OBJECT in types:
            raise ArchiveError(f"the objects have an attribute '{OBJECT}': say which attributes become dimensions")
        self.dims: tuple[str, ...] = (OBJECT,)
        self._extents: Place = (len(objects),)
        self._objects: dict[Place, ArchivedObject] = {(place,): each for place, each in enumerate(objects)}
        self.coordinates[OBJECT] = (self.dims, np.array([each.number for each in objects]))

    def _put_in_order(
        self, objects: Sequence[ArchivedObject], dims: Sequence[str], which: Which, types: Mapping[str, str]
    ) -> None:
        for dim in dims:
            if dim not in types:
                raise ArchiveError(f"there is no attribute '{dim}'; there are {', '.join(types)}")
            if types[dim] in ("int[]", "real[]", "bytes"):
                raise ArchiveError(f"{dim} is {types[dim]}, which no dimension can be: it takes a single value")
            lacking = next((each for each in objects if dim not in each), None)
            if lacking is not None:
                raise ArchiveError(f"object {lacking.number} has no {dim}, which is to be a dimension")
        if len(set(dims)) < len(dims):
            raise ArchiveError(f"an attribute is a dimension once: {', '.join(dims)}")
        self.dims = tuple(dims)
        values = [sorted({each[dim] for each in objects}) for dim in dims]
        self._extents = tuple(map(len, values))
        places = [{value: place for place, value in enumerate(some)} for some in values]
        self._objects = {}
        for each in objects:
            place = tuple(some[each[dim]] for dim, some in zip(dims, places, strict=True))
            other = self._objects.setdefault(place, each)
            if other is not each and which == "only":
                agreed = " and ".join(f"{dim} = {each[dim]}" for dim in dims)
                raise ArchiveError(
                    f"objects {other.number} and {each.number} "
                    + (f"both have {agreed}" if dims else "cannot both be an array without more dimensions")
                    + '; choose fewer objects, name more dimensions, or say which of them counts: "first" or "last"'
                )
            if which == "last":
                self._objects[place] = each
        for dim, some in zip(dims, values, strict=True):
            self.coordinates[dim] = ((dim,), _column(types[dim], some))

    def _of_payloads(self, fill: Any) -> None:
        first, *others = self._objects.values()
        self._payload_shape, kind = _payload(first)
        kinds = {kind}
        for each in others:
            shape, kind = _payload(each)
            kinds.add(kind)
            if shape != self._payload_shape:
                raise ArchiveError(
                    f"objects {first.number} and {each.number} have different shapes, {self._payload_shape} and {shape}"
                )
        self._payload_type = np.result_type(*kinds)
        self.shape = (*self._extents, *self._payload_shape)
        self.dtype, self.fill = self._payload_type, fill
        if fill is None:
            self.fill = np.nan
            if self._has_gaps and self.dtype.kind in "iub":
                self.dtype = np.dtype("float64")
        elif not _fits(fill, self.dtype):
            raise ArchiveError(
                f"the elements are {self.dtype}, and fill={fill!r} is none; without fill, NaN stands where no object "
                "is, and whole numbers and truth values become float64"
            )

    @property
    def _has_gaps(self) -> bool:
        return len(self._objects) < math.prod(self._extents)

    def _describe(self, name: str, kind: str) -> None:
        """Make a coordinate of an attribute, or an attribute of the array if all objects have it alike."""
        values = {place: each.get(name) for place, each in self._objects.items()}
        first = next(iter(values.values()))
        if all(value == first for value in values.values()):
            if first is not None:
                self.attributes[name] = single(first)
            return
        for axis, dim in enumerate(self.dims):
            along: dict[int, Any] = {}
            if all(along.setdefault(place[axis], value) == value for place, value in values.items()):
                self.coordinates[name] = ((dim,), _column(kind, [along[at] for at in sorted(along)]))
                return
        column = _column(kind, [*values.values(), *([None] if self._has_gaps else [])])
        full = np.full(self._extents, column[-1], column.dtype)
        full[tuple(np.array(list(values)).T)] = column[: len(values)]
        self.coordinates[name] = (self.dims, full)

    def __len__(self) -> int:
        """Return how many objects there are in it."""
        return len(self._objects)

    def read(self, key: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Return elements: of each axis those at a place, in a slice, or at the places of an array.

        Raises:
            ArchiveError: a payload is not there, or not what the index says.
        """
        ahead, within = key[: len(self.dims)], key[len(self.dims) :]
        chosen = [np.atleast_1d(np.arange(extent)[some]) for extent, some in zip(self._extents, ahead, strict=True)]
        like = _of_each_axis(np.broadcast_to(np.empty(()), self._payload_shape), within)
        found = np.full((*map(len, chosen), *like.shape), self.fill if self._has_gaps else 0, self.dtype)
        for at, place in zip(np.ndindex(*map(len, chosen)), product(*(some.tolist() for some in chosen)), strict=True):
            each = self._objects.get(place)
            if each is not None:
                found[at] = _of_each_axis(self._elements(each), within)
        return _of_each_axis(
            found, [0 if np.ndim(some) == 0 and not isinstance(some, slice) else slice(None) for some in ahead]
        )

    def _elements(self, each: ArchivedObject) -> np.ndarray[Any, Any]:
        elements = np.asarray(each.data)
        if elements.shape != self._payload_shape or not np.can_cast(elements.dtype, self._payload_type):
            raise ArchiveError(f"object {each.number} is not the array that the index says")
        return elements


def _of_each_axis(elements: np.ndarray[Any, Any], key: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return what is chosen of each axis by itself; a number takes its axis away."""
    for axis in reversed(range(len(key))):  # from the last on, so that those before stay where they are
        elements = elements[(*[slice(None)] * axis, key[axis])]
    return elements


def _fits(fill: Any, kind: np.dtype[Any]) -> bool:
    """Return whether a value is an element of a type, but for the digits that a real number loses."""
    try:
        value = np.asarray(fill)
        if value.ndim or value.dtype.kind not in "biufc" or (value.dtype.kind == "c" and kind.kind != "c"):
            return False
        with np.errstate(invalid="ignore"):
            return kind.kind in "fc" or bool(value.astype(kind) == fill)
    except (TypeError, ValueError, OverflowError):
        return False


def _payload(each: ArchivedObject) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of a payload: as the index says, or else as it is."""
    kind = each.get("sys.type")
    if kind is not None and "sys.shape" in each:
        try:
            return tuple(each["sys.shape"]), np.dtype(_NUMBERS.get(kind, kind))
        except TypeError:
            raise _no_array(each, kind) from None
    data = each.data
    if not isinstance(data, np.ndarray | bool | int | float | complex):
        raise _no_array(each, type(data).__name__)
    elements = np.asarray(data)
    return elements.shape, elements.dtype


def _no_array(each: ArchivedObject, kind: str) -> ArchiveError:
    return ArchiveError(f"object {each.number} is of the type {kind}; only arrays and numbers become an array")


def _column(kind: str, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return values of an attribute as an array; where one is absent NaN stands, in times NaT, in texts nothing."""
    is_complete = all(value is not None for value in values)
    if kind == "time":
        times = [np.datetime64("NaT") if value is None else _in_utc(value) for value in values]
        return np.array(times, "datetime64[us]")
    if kind in ("bool", "int", "uint", "real"):
        types = {"bool": "bool", "int": "int64", "uint": "uint64"}
        return np.array(_or(np.nan, values), types.get(kind, "float64") if is_complete else "float64")
    return np.array([str(single(value)) for value in _or("", values)])


def _or(absent: Any, values: Iterable[Any]) -> list[Any]:
    return [absent if value is None else value for value in values]


def _in_utc(value: datetime) -> datetime:
    return (value if value.tzinfo is None else value.astimezone(UTC)).replace(tzinfo=None)
