"""Archives: objects of pools on disk, found by their attributes.

An archive is a folder. Payloads stand one behind the other in segments (``segment-000001``, ...), which are only ever
appended to: each as the filter ``serialize`` writes it, with the elements of its first array at a multiple of 64 bytes.
What is known of each object stands in ``index.sqlite``: a row for an object, a column for an attribute. Rows are
written in a transaction when their payloads are on the disk, so that a program or machine that fails at any moment
leaves whole objects, and whole groups of them, or none.

>>> with ArchiveWriter("fields.archive") as archive:
...     archive.declare("step:int[0..]!")
...     archive.append(np.zeros((3, 4)), {"step": 6}, {})
>>> with Archive("fields.archive") as archive:
...     for field in archive.select("step % 6 = 0"):
...         print(field["step"], field.data.mean())
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from xmml_native._native import Attributes, AttributeSchema, Selector, serialize
from xmml_native.archive_index import (
    INDEX,
    LEFT_OVERS,
    NUMBER,
    PLACE,
    SYSTEM,
    declare,
    highest,
    last_number,
    loaded,
    narrowing,
    open_index,
    stored,
    system_columns,
    tidy,
    transaction,
)
from xmml_native.archive_segments import (
    MappedSegments,
    SegmentAppender,
    lock_for_reading,
    lock_for_writing,
    not_written,
    segments_of,
)
from xmml_native.archived_object import ArchivedObject, Problem
from xmml_native.errors import ArchiveError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from xarray import DataArray

    from xmml_native.archive_arrays import Stack, Which

__all__ = ["Archive", "ArchiveError", "ArchiveWriter", "ArchivedObject", "Problem", "Selection", "open_archive"]

#: What waits to be written in one transaction at most: objects, bytes, seconds.
MOST_OBJECTS, MOST_BYTES, MOST_SECONDS = 4096, 64 << 20, 1.0

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


class ArchiveWriter:
    """Appends objects to an archive, which is made if it is not there.

    Once it fails to write, it takes no more objects: a part of a group could become visible otherwise.

    Args:
        folder: the archive.

    Raises:
        ArchiveError: it is no archive, has another format, or is being written by another program.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        #: For each object its columns, and their values.
        self._rows: list[tuple[tuple[str, ...], tuple[Any, ...]]] = []
        self._pending_bytes = 0
        self._since = 0.0
        self._failure: ArchiveError | None = None
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise not_written(folder, error) from None
        self._lock = lock_for_writing(folder)
        try:
            self._index, self._types, self._columns = open_index(folder, may_be_new=True)
            if os.path.exists(os.path.join(folder, LEFT_OVERS)):
                tidy(folder, self._index)
            self._schema = AttributeSchema(_declarations(self._types))
            self._last = last_number(self._index)
            self._segments = SegmentAppender(folder, max([*segments_of(folder), highest(self._index, "segment")]))
        except (OSError, sqlite3.Error) as error:
            os.close(self._lock)
            raise not_written(folder, error) from None
        except BaseException:
            os.close(self._lock)
            raise

    def declare(self, attributes: str) -> None:
        """Add attributes that objects can have from now on.

        Raises:
            ArchiveError: one of them has another type in the objects that the archive holds.
        """
        declare(self.folder, self._index, self._types, self._columns, attributes)
        self._schema = AttributeSchema(_declarations(self._types))

    def append(self, data: Any, attributes: Mapping[str, Any], system: Mapping[str, Any]) -> None:
        """Write an object, which becomes visible with the next `commit`.

        Args:
            data: its payload.
            attributes: those that were declared; those that are `None` it does not have.
            system: those that every object has, `sys.t` and the others.

        Raises:
            ArchiveError: an attribute was not declared or cannot have this value, or there is no room. Then this
                object is not in the archive.
        """
        self._raise_if_failed()
        own = {name: value for name, value in attributes.items() if value is not None}
        system = {name: value for name, value in system.items() if value is not None}
        try:
            self._schema.complete(own, system)
        except (TypeError, ValueError) as error:
            raise ArchiveError(
                f"{self.folder}: {error}; declared are {_declarations(self._types) or 'no attributes'}"
            ) from None
        payload = serialize(data)
        with memoryview(cast("Any", payload)) as view:
            try:
                place = self._segments.append(view)
            except ArchiveError as error:
                self._fail(error)
                raise
            types, known = {**self._types, **SYSTEM}, {**own, **system}
            values = [stored(kind, known[name]) if name in known else None for name, kind in types.items()]
            columns = (NUMBER, *PLACE, *self._columns.values(), *SYSTEM)
            self._last += 1
            self._rows.append((columns, (self._last, *place, len(view), zlib.crc32(view), *values)))
            self._pending_bytes += len(view)
        if len(self._rows) == 1:
            self._since = time.monotonic()

    def due_in(self) -> float | None:
        """Return in how many seconds a `commit` is due; `None`: nothing waits for one."""
        if not self._rows:
            return None
        if len(self._rows) >= MOST_OBJECTS or self._pending_bytes >= MOST_BYTES:
            return 0.0
        return max(0.0, self._since + MOST_SECONDS - time.monotonic())

    def commit(self) -> None:
        """Make visible what was appended: it survives from now on, whatever fails.

        Raises:
            ArchiveError: it cannot be written; then nothing of it is visible.
        """
        self._raise_if_failed()
        if not self._rows:
            return
        try:
            self._segments.sync()
            with transaction(self.folder, self._index):
                for columns, some in groupby(self._rows, key=lambda row: row[0]):
                    named, marks = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(columns))
                    insert = f"INSERT INTO objects ({named}) VALUES ({marks})"
                    self._index.executemany(insert, (values for _, values in some))
        except (OSError, sqlite3.Error) as error:
            problem = not_written(self.folder, error)
            self._fail(problem)
            raise problem from None
        self._forget_pending()

    def _fail(self, problem: ArchiveError) -> None:
        self._failure = problem
        self._forget_pending()

    def _forget_pending(self) -> None:
        self._rows, self._pending_bytes = [], 0

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise ArchiveError(
                f"this writer takes no more objects: {self._failure}; open the archive anew to add objects"
            )

    def close(self) -> None:
        """Commit, and let others write.

        Raises:
            ArchiveError: the rest cannot be written. A writer that failed before has told that already.
        """
        try:
            if self._failure is None:
                self.commit()
                with contextlib.suppress(sqlite3.Error):  # it only helps SQLite to choose among attributes
                    self._index.execute("PRAGMA analysis_limit = 1000")
                    self._index.execute("ANALYZE")
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._segments.close()
        self._index.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._let_go()


class Archive:
    """The objects of an archive, in the order in which they were written.

    Args:
        folder: the archive; it may be written or compacted at the same time.

    Raises:
        ArchiveError: there is no archive, or one of another format.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        if not os.path.isfile(os.path.join(folder, INDEX)):
            raise ArchiveError(f"{folder} is no archive: it has no {INDEX}")
        self._lock = lock_for_reading(folder)
        try:
            self._index, self._types, self._columns = open_index(folder)
        except BaseException:
            self._unlock()
            raise
        self._segments = MappedSegments(folder)

    @property
    def types(self) -> Mapping[str, str]:
        """The types of the attributes that the objects can have, `sys.t` and the others last."""
        return {**self._types, **SYSTEM}

    @property
    def attributes(self) -> str:
        """The declarations of the attributes that the objects can have, as in `run:attributes`."""
        return _declarations(self._types)

    def __len__(self) -> int:
        return int(self._query("SELECT count(*) FROM objects")[0][0])

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
        chosen = Selector(selector, schema, dict(variables or {})) if selector else None
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
        found = self._query(f'SELECT "{NUMBER}" FROM objects WHERE {where}', values)
        return array("q", sorted(row[0] for row in found))

    def _some_rows(self, columns: Sequence[str], numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        named, some = ", ".join(f'"{column}"' for column in columns), ", ".join(map(str, numbers))
        return self._query(f'SELECT {named} FROM objects WHERE "{NUMBER}" IN ({some}) ORDER BY "{NUMBER}"')

    def _query(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._index.execute(text, values).fetchall()
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


def _declarations(types: Mapping[str, str]) -> str:
    """Return attributes with their types as `run:attributes` declares them."""
    return " ".join(f"{name}:{kind}" for name, kind in types.items())


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
        from xmml_native.archive_arrays import Stack

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
            from xmml_native.archive_xarray import to_xarray
        except ModuleNotFoundError as missing:
            if missing.name != "xarray":
                raise
            raise ImportError('the package xarray is not installed: pip install xarray, or "xmml[archives]"') from None

        if isinstance(axes, str):
            raise ArchiveError(f'axes is a list of names, not a text: axes=["{axes}"]')
        return to_xarray(self.stack(dims, which=which, fill=fill), axes, name)
