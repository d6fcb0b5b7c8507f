"""Objects of an archive as an array of xarray, which reads elements when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never, Self

import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from xmml_native.archives.arrays import Stack
from xmml_native.errors import ArchiveError


class _Lazy(BackendArray):
    """What xarray asks for elements."""

    def __init__(self, stack: Stack) -> None:
        self.shape, self.dtype = stack.shape, stack.dtype
        self._stack = stack

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        return self  # nothing of it changes

    def __reduce__(self) -> Never:
        # Another process would read segments that it does not keep from being removed.
        raise TypeError(
            "an array of an archive cannot be pickled before its values are read: call load() first, or open the "
            "archive in each process"
        )

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER, lambda outer: self._stack.read(outer)
        )


def to_xarray(stack: Stack, axes: Sequence[str] | None, name: str) -> xarray.DataArray:
    """Return objects side by side as an array of xarray.

    Args:
        stack: the objects.
        axes: names of the dimensions of their payloads.
        name: of the array.

    Raises:
        ArchiveError: there are more or fewer names than the payloads have dimensions, or one is an attribute.
    """
    count = len(stack.shape) - len(stack.dims)
    axes = [f"axis{axis}" for axis in range(count)] if axes is None else list(axes)
    if len(axes) != count:
        raise ArchiveError(f"the payloads have {count} dimensions, and {len(axes)} are named: {', '.join(axes)}")
    dims = (*stack.dims, *axes)
    taken = [axis for axis in axes if axis in stack.coordinates or axis in stack.attributes]
    if taken:
        raise ArchiveError(
            f"{taken[0]} is an attribute of the objects, and an axis of the payloads cannot have the same name; "
            "name the axes otherwise (axes)"
        )
    if len(set(dims)) < len(dims):
        raise ArchiveError(f"each dimension needs a name of its own, and they are called {', '.join(dims)}")
    variable = xarray.Variable(dims, indexing.LazilyIndexedArray(_Lazy(stack)), stack.attributes)
    return xarray.DataArray(variable, stack.coordinates, name=name)
