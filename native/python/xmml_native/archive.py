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
from typing import TYPE_CHECKING, Any, cast

from xmml_native._native import AttributeSchema, Selector, serialize
from xmml_native.archive_index import (
    INDEX,
    LEFT_OVERS,
    NUMBER,
    PLACE,
    SYSTEM,
    declare,
    loaded,
    narrowing,
    open_index,
    remove_left_overs,
    stored,
)
from xmml_native.archive_segments import (
    MappedSegments,
    SegmentAppender,
    lock_for_reading,
    lock_for_writing,
    not_written,
    segments_of,
)
from xmml_native.archived_object import ArchivedObject
from xmml_native.errors import ArchiveError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from xarray import DataArray

    from xmml_native.archive_arrays import Stack, Which

__all__ = ["Archive", "ArchiveError", "ArchiveWriter", "ArchivedObject", "Selection", "open_archive"]

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

    Args:
        folder: the archive.

    Raises:
        ArchiveError: it is no archive, has another format, or is being written by another program.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._rows: list[tuple[Any, ...]] = []
        self._pending_bytes = 0
        self._since = 0.0
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise not_written(folder, error) from None
        self._lock = lock_for_writing(folder)
        try:
            self._index, self._types, self._columns = open_index(folder, may_be_new=True)
            if os.path.exists(os.path.join(folder, LEFT_OVERS)):
                remove_left_overs(folder, self._index)
            self._segments = SegmentAppender(folder, max(segments_of(folder), default=0))
        except OSError as error:
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

    def append(self, data: Any, attributes: Mapping[str, Any], system: Mapping[str, Any]) -> None:
        """Write an object, which becomes visible with the next `commit`.

        Args:
            data: its payload.
            attributes: those that were declared.
            system: those that every object has, `sys.t` and the others.
        """
        payload = serialize(data)
        with memoryview(cast("Any", payload)) as view:
            place = self._segments.append(view)
            known = {**attributes, **system}
            types = {**self._types, **SYSTEM}
            values = [stored(types[name], known[name]) if known.get(name) is not None else None for name in types]
            columns = (*PLACE, *self._columns.values(), *SYSTEM)
            self._rows.append((columns, (*place, len(view), zlib.crc32(view), *values)))
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
        if not self._rows:
            return
        rows, self._rows, self._pending_bytes = self._rows, [], 0
        try:
            self._segments.sync()
            self._index.execute("BEGIN IMMEDIATE")
            for columns, values in rows:
                named, marks = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(values))
                self._index.execute(f"INSERT INTO objects ({named}) VALUES ({marks})", values)
            self._index.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise not_written(self.folder, error) from None

    def close(self) -> None:
        """Commit, and let others write."""
        try:
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
        return " ".join(f"{name}:{kind}" for name, kind in self._types.items())

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
        types = self.types
        where, values = ("true", []) if chosen is None else narrowing(chosen, schema, self._types, self._columns)
        for row in self._rows((NUMBER, *PLACE, *self._columns.values(), *SYSTEM), where, values):
            try:
                known = {
                    name: loaded(kind, value)
                    for (name, kind), value in zip(types.items(), row[5:], strict=True)
                    if value is not None
                }
                if not all(isinstance(place, int) for place in row[:5]):
                    raise TypeError("it is said to lie nowhere")
                own = {name: value for name, value in known.items() if name not in SYSTEM}
                system = {name: value for name, value in known.items() if name in SYSTEM}
                attributes = schema.complete(own, system)  # which refuses values of other types
                if chosen is not None and not chosen.matches(attributes):
                    continue
            except (TypeError, ValueError) as error:
                raise ArchiveError(f"{self.folder}: object {row[0]} cannot be read: {error}") from None
            yield ArchivedObject(self._segments, row[0], row[1:5], known)

    def _rows(self, columns: Sequence[str], where: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that are there now, without keeping the index from who writes while the caller is busy."""
        named = ", ".join(f'"{column}"' for column in columns)
        # Not put in order by SQLite, which would rather look at each row in order than look the values up.
        found = self._query(f'SELECT "{NUMBER}" FROM objects WHERE {where}', values)
        numbers = array("q", sorted(row[0] for row in found))
        del found
        for first in range(0, len(numbers), _ROWS):
            some = ", ".join(map(str, numbers[first : first + _ROWS]))
            yield from self._query(f'SELECT {named} FROM objects WHERE "{NUMBER}" IN ({some}) ORDER BY "{NUMBER}"')

    def _query(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._index.execute(text, values).fetchall()
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise ArchiveError(f"{self.folder} cannot be read: {error}") from None

    def verify(self) -> Iterator[str]:
        """Yield what is wrong with each object whose payload is not what was written."""
        for entry in self:
            problem = entry.problem()
            if problem is not None:
                yield problem

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
        from xmml_native.archive_arrays import Stack

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
        that; `fill` keeps them as they are. The archive must stay open until the values have been read.

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

        return to_xarray(self.stack(dims, which=which, fill=fill), axes, name)
