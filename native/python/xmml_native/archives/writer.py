"""Writes archives: payloads first, and their rows in the index when these are on the disk."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import zlib
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from xmml_native._native import AttributeSchema, serialize
from xmml_native.archives.files import ArchiveFiles
from xmml_native.archives.index import (
    LEFT_OVERS,
    NUMBER,
    PLACE,
    SYSTEM,
    declarations,
    declare,
    highest,
    last_number,
    open_index,
    stored,
    tidy,
    transaction,
)
from xmml_native.archives.segments import SegmentAppender, lock_for_writing, not_written, segments_of
from xmml_native.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

#: What waits to be written in one transaction at most: objects, bytes, seconds.
MOST_OBJECTS, MOST_BYTES, MOST_SECONDS = 4096, 64 << 20, 1.0


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
            self._files = ArchiveFiles(folder)
        except OSError as error:
            raise not_written(folder, error) from None
        self._lock = lock_for_writing(self._files)
        try:
            self._index, self._types, self._columns = open_index(self._files, may_be_new=True)
            if self._files.status(LEFT_OVERS) is not None:
                tidy(self._files, self._index)
            self._schema = AttributeSchema(declarations(self._types))
            self._last = last_number(self._index)
            self._segments = SegmentAppender(
                self._files, max([*segments_of(self._files), highest(self._index, "segment")])
            )
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
        self._schema = AttributeSchema(declarations(self._types))

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
                f"{self.folder}: {error}; declared are {declarations(self._types) or 'no attributes'}"
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
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._let_go()
