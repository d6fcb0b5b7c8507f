"""Reads archives: objects are found by their attributes, and their payloads are mapped."""

from __future__ import annotations

import os
import sqlite3
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xmml_native._native import Attributes, AttributeSchema, Selector
from xmml_native.archives.archived_object import ArchivedObject, Problem
from xmml_native.archives.connection import INDEX
from xmml_native.archives.files import ArchiveFiles
from xmml_native.archives.index import (
    NUMBER,
    PLACE,
    SYSTEM,
    declarations,
    loaded,
    narrowing,
    open_index,
    system_columns,
)
from xmml_native.archives.segments import (
    MappedSegments,
    lock_for_reading,
)
from xmml_native.errors import ArchiveError

if TYPE_CHECKING:
    from typing import Self

    from xarray import DataArray

    from xmml_native.archives.arrays import Stack, Which

__all__ = ["Archive", "ArchiveError", "ArchivedObject", "Problem", "Selection", "open_archive"]

#: So many rows are read at a time.
_ROWS = 1000


def open_archive(folder: str) -> Archive:
    """Return the archive in a folder, to be read.

    >>> for field in xmml.open_archive("fields.archive").select("step % 6 = 0"):
    ...     print(field["step"], field.data.mean())

    Raises:
        ArchiveError: there is no archive, or one of another format.
    """
    return Archive(folder)


class SelectorError(ValueError):
    """A text that is no selector of the objects of an archive.

    Its arguments are what is wrong, and the characters of the text that are: the first, and the one behind the last.
    """

    def __init__(self, selector: str, problem: str, first: int, end: int) -> None:
        super().__init__(problem, first, end)
        self.selector = selector

    def __str__(self) -> str:
        problem, first, end = self.args
        return f"{problem}\n{self.selector}\n{' ' * first}{'^' * max(1, end - first)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.selector, *self.args)


class Archive:
    """The objects of an archive, in the order in which they were written.

    Args:
        folder: the archive; it may be written or compacted at the same time.

    Raises:
        ArchiveError: there is no archive, or one of another format.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        if not os.path.exists(folder):
            here = "" if os.path.isabs(folder) else f" here ({os.path.abspath(folder)})"
            raise ArchiveError(f"there is no archive {folder}{here}")
        try:
            files = ArchiveFiles(folder)
            has_index = files.status(INDEX) is not None
        except NotADirectoryError:
            has_index = False
        except OSError as error:
            raise ArchiveError(f"{folder} cannot be opened: {error.strerror}") from None
        if not has_index:
            raise ArchiveError(f"{folder} is no archive: it has no {INDEX}")
        self._lock = lock_for_reading(files)
        try:
            self._index, self._types, self._columns = open_index(files)
        except BaseException:
            self._unlock()
            raise
        self._segments = MappedSegments(files)

    @property
    def types(self) -> Mapping[str, str]:
        """The types of the attributes that the objects can have, `sys.t` and the others last."""
        return {**self._types, **SYSTEM}

    @property
    def attributes(self) -> str:
        """The declarations of the attributes that the objects can have, as in `run:attributes`."""
        return declarations(self._types)

    def __len__(self) -> int:
        # A count of all rows as such would not stop where an index leads SQLite in circles.
        return int(self._query("SELECT sum(1) FROM objects")[0][0] or 0)

    def __iter__(self) -> Iterator[ArchivedObject]:
        return iter(self.select())

    def select(self, selector: str = "", variables: Mapping[str, Any] | None = None) -> Selection:
        """Return the objects that a selector chooses; without one, all.

        Args:
            selector: as `run:select`.
            variables: what names behind a `$` in it stand for.

        Raises:
            ValueError: the text is no selector of these attributes.
        """
        schema = AttributeSchema(self.attributes)
        try:
            chosen = Selector(selector, schema, dict(variables or {})) if selector else None
        except ValueError as error:
            raise SelectorError(selector, *error.args) from None
        return Selection(self, lambda: self._chosen(schema, chosen))

    def _chosen(self, schema: AttributeSchema, chosen: Selector | None) -> Iterator[ArchivedObject]:
        system = self._system()
        where, values = (
            ("true", []) if chosen is None else narrowing(chosen, schema, self._types, self._columns, system)
        )
        for row in self._rows(self._named(system), where, values):
            try:
                found, attributes = self._read(row, schema, system)
                if chosen is None or chosen.matches(attributes):
                    yield found
            except (TypeError, ValueError) as error:
                raise ArchiveError(f"{self.folder}: object {row[0]} cannot be read: {error}") from None

    def _system(self) -> list[str]:
        try:
            return system_columns(self._index)
        except sqlite3.Error as error:
            raise ArchiveError(f"{self.folder} cannot be read: {error}") from None

    def _named(self, system: Sequence[str]) -> tuple[str, ...]:
        return (NUMBER, *PLACE, *self._columns.values(), *system)

    def _read(
        self, row: tuple[Any, ...], schema: AttributeSchema, system: Sequence[str]
    ) -> tuple[ArchivedObject, Attributes]:
        """Return the object of a row.

        Raises:
            TypeError, ValueError: a column holds what no such attribute can be.
        """
        types = {**self._types, **{name: SYSTEM[name] for name in system}}
        known = {
            name: loaded(kind, value)
            for (name, kind), value in zip(types.items(), row[5:], strict=True)
            if value is not None
        }
        if not all(isinstance(place, int) for place in row[:5]):
            raise TypeError("it is said to lie nowhere")
        own = {name: value for name, value in known.items() if name not in SYSTEM}
        # Values of other types are refused.
        attributes = schema.complete(own, {name: value for name, value in known.items() if name in SYSTEM})
        return ArchivedObject(self._segments, row[0], row[1:5], known), attributes

    def _rows(self, columns: Sequence[str], where: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that are there now, without keeping the index from who writes while the caller is busy."""
        numbers = self._numbers(where, values)
        for first in range(0, len(numbers), _ROWS):
            yield from self._some_rows(columns, numbers[first : first + _ROWS])

    def _numbers(self, where: str, values: Sequence[Any]) -> array[int]:
        """Return the numbers of the objects that are there now, in order."""
        # Not put in order by SQLite, which would rather look at each row in order than look the values up.
        found = self._found(f'SELECT "{NUMBER}" FROM objects WHERE {where}', values)
        return array("q", sorted(array("q", (row[0] for row in found))))

    def _some_rows(self, columns: Sequence[str], numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        named, some = ", ".join(f'"{column}"' for column in columns), ", ".join(map(str, numbers))
        return self._query(f'SELECT {named} FROM objects WHERE "{NUMBER}" IN ({some}) ORDER BY "{NUMBER}"')

    def _query(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return list(self._found(text, values))

    def _found(self, text: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._index.rows(text, values)
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise ArchiveError(f"{self.folder} cannot be read: {error}") from None

    def verify(self) -> Iterator[str]:
        """Yield what is wrong with each object whose payload is not what was written, or cannot be read."""
        return (problem.text for problem in self.problems())

    def problems(self) -> Iterator[Problem]:
        """Compare each payload with the checksum that was made when it was written.

        Yields:
            What is wrong with each object that was changed or cannot be read; the others are compared all the same.

        Raises:
            ArchiveError: the index does not even say which objects there are.
        """
        schema, system = AttributeSchema(self.attributes), self._system()
        columns, numbers = self._named(system), self._numbers("true", [])
        for first in range(0, len(numbers), _ROWS):
            for row in self._rows_or_problems(columns, numbers[first : first + _ROWS]):
                problem = row if isinstance(row, Problem) else self._problem(row, schema, system)
                if problem is not None:
                    yield problem

    def _rows_or_problems(self, columns: Sequence[str], numbers: Sequence[int]) -> Iterator[tuple[Any, ...] | Problem]:
        """Yield the rows of some objects, and for each that SQLite cannot read what is wrong."""
        try:
            yield from self._some_rows(columns, numbers)
        except ArchiveError as error:
            if len(numbers) == 1:
                yield Problem(numbers[0], "unreadable", f"object {numbers[0]} cannot be read: {error}")
            else:
                for number in numbers:
                    yield from self._rows_or_problems(columns, (number,))

    def _problem(self, row: tuple[Any, ...], schema: AttributeSchema, system: Sequence[str]) -> Problem | None:
        try:
            found, _ = self._read(row, schema, system)
        except (TypeError, ValueError) as error:
            return Problem(row[0], "unreadable", f"object {row[0]} cannot be read: its row in {INDEX}: {error}")
        return found.problem()

    def close(self) -> None:
        """Let go of the archive; payloads that were read stay."""
        self._index.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Selection:
    """The objects of an archive that a selector chooses. Each iteration looks for them anew.

    >>> fields = xmml.open_archive("fields.archive").select("param = 't'")
    >>> fields.to_xarray(dims=["step", "member"]).sel(step=6).mean("member")
    """

    def __init__(self, archive: Archive, objects: Callable[[], Iterator[ArchivedObject]]) -> None:
        self._archive, self._objects = archive, objects

    def __iter__(self) -> Iterator[ArchivedObject]:
        """Yield them in the order in which they were written. Payloads are read when they are asked for."""
        return self._objects()

    def stack(self, dims: Sequence[str] | None = None, *, which: Which = "only", fill: Any = None) -> Stack:
        """Return the objects as one array of NumPy, of which each part is read when it is asked for.

        Args:
            dims, which, fill: as of `to_xarray`.

        Raises:
            ArchiveError: as of `to_xarray`.
        """
        from xmml_native.archives.arrays import Stack

        if isinstance(dims, str):
            raise ArchiveError(f'dims is a list of attributes, not a text: dims=["{dims}"]')
        return Stack(list(self), None if dims is None else list(dims), which, fill, self._archive.types)

    def to_xarray(
        self,
        dims: Sequence[str] | None = None,
        *,
        which: Which = "only",
        fill: Any = None,
        axes: Sequence[str] | None = None,
        name: str = "data",
    ) -> DataArray:
        """Return the objects as one array of xarray. Attributes are read now, payloads when their values are asked for.

        Attributes that all objects have alike become attributes of the array, others coordinates. Where no object has
        a combination of values the elements are NaN, and whole numbers and truth values become numbers of 64 bits for
        that; `fill` keeps them as they are. The archive must stay open until the values have been read, and so the
        array cannot be pickled (for processes of dask or multiprocessing) before `load()`.

        Args:
            dims: attributes that become dimensions, before those of the payloads, each in ascending order. Without
                them objects follow each other along `object`.
            which: of objects that agree in all of `dims` the `first` or the `last` counts; `only`: that is an error.
            fill: the elements where there is no object.
            axes: names of the dimensions of the payloads; without them `axis0`, `axis1`, ...
            name: of the array.

        Raises:
            ArchiveError: no object is chosen, payloads have different shapes or are neither arrays nor numbers, an
                object lacks one of `dims`, or several agree in all of them.
            ImportError: xarray is not installed.
        """
        try:
            from xmml_native.archives.data_array import to_xarray
        except ModuleNotFoundError as missing:
            if missing.name != "xarray":
                raise
            raise ImportError('the package xarray is not installed: pip install xarray, or "xmml[archives]"') from None

        if isinstance(axes, str):
            raise ArchiveError(f'axes is a list of names, not a text: axes=["{axes}"]')
        return to_xarray(self.stack(dims, which=which, fill=fill), axes, name)
