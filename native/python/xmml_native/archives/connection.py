"""Connections to the index of an archive, which may come from somebody else.

SQLite does what a database and the files beside it say. It follows links, rolls back the journal of a writer that was
killed, and removes a further file if that journal names one. So these files are looked at before SQLite opens them. A
reader opens the index for reading alone, and for writing only to roll back.

A database that is damaged, or made to, may have SQLite read the same pages without end. So a statement may take only so
many steps, and give only so much, as an index of that size can need.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from xmml_native.archives.files import ArchiveFiles
from xmml_native.errors import ArchiveError

INDEX = "index.sqlite"

#: What SQLite writes beside an index: to undo a transaction; and where it keeps transactions, which xMML has it not do.
JOURNAL, OTHERS = f"{INDEX}-journal", (f"{INDEX}-wal", f"{INDEX}-shm")

#: The last bytes of a journal that names another file, the super-journal (https://sqlite.org/fileformat.html).
_END_OF_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")

#: A lock of the index is waited for so long [s].
LOCK_WAIT_S = 30.0

#: Steps of SQLite's virtual machine: so many are free, and so many for each byte of the index. A row has dozens of
#: bytes, and each of the at most 100 conditions of a selector takes a few steps for it.
_FREE_STEPS, _STEPS_PER_BYTE, _STEPS_PER_CALL = 20_000_000, 100, 1_000_000

#: A row takes at least so many bytes of an index, and holes in a file that was compressed at most so many per byte.
_LEAST_ROW_BYTES, _MOST_COMPRESSED = 8, 32

#: Limits of SQLite [bytes, or a number]. The largest statement of xMML makes a table of 1,000 attributes. To give back
#: room, SQLite attaches an empty database.
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 64 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 << 20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 1,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
}

#: A reader whose writer is killed rolls back so often before it fails.
_ROLLBACKS = 5


class _Steps:
    """Counts the steps of a statement, and ends it after too many."""

    def __init__(self, files: ArchiveFiles) -> None:
        self._files, self._taken, self._are_bounded, self.are_too_many = files, 0, True, False

    def begin(self, *, are_bounded: bool = True) -> None:
        self._taken, self._are_bounded, self.are_too_many = 0, are_bounded, False

    def count(self) -> bool:
        if not self._are_bounded:
            return False
        self._taken += _STEPS_PER_CALL
        if self._taken > _FREE_STEPS:
            size = 0
            with contextlib.suppress(ArchiveError, OSError):
                size = index_bytes(self._files)
            self.are_too_many = self._taken > _FREE_STEPS + _STEPS_PER_BYTE * size
        return self.are_too_many


class IndexConnection(sqlite3.Connection):
    """A connection to an index; `connect` makes it."""

    files: ArchiveFiles
    _steps: _Steps

    def guard(self, files: ArchiveFiles) -> None:
        """Bound what statements take, and believe nothing that a schema says.

        Raises:
            sqlite3.Error: it cannot be opened.
        """
        self.files, self._steps = files, _Steps(files)
        for limit, most in _LIMITS.items():
            self.setlimit(limit, most)
        self.set_progress_handler(self._steps.count, _STEPS_PER_CALL)
        self.execute("PRAGMA trusted_schema = OFF")
        self.execute("PRAGMA cell_size_check = ON")

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement.

        Raises:
            sqlite3.Error: it fails, or takes too long for an index of this size.
        """
        self._steps.begin()
        for rollback in range(_ROLLBACKS + 1):
            try:
                return super().execute(sql, parameters)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK and rollback < _ROLLBACKS:
                    roll_back(self.files)  # a writer was killed meanwhile
                    continue
                raise self._told(error) from None
        raise AssertionError("unreachable")

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """Execute a statement that changes one row, for each of many: there is no bound to their number.

        Raises:
            sqlite3.Error: it fails.
        """
        self._steps.begin(are_bounded=False)
        return super().executemany(sql, parameters)

    def rows(self, text: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that a query finds.

        Raises:
            sqlite3.Error: it fails, takes too long, or finds more than an index of this size can hold.
        """
        cursor, found, most = self.execute(text, values), 0, 0
        with contextlib.closing(cursor):
            while True:
                try:
                    row = cursor.fetchone()
                except sqlite3.OperationalError as error:
                    raise self._told(error) from None
                if row is None:
                    return
                found += _LEAST_ROW_BYTES + sum(len(value) for value in row if isinstance(value, str | bytes))
                if found > most and found > (most := index_bytes(self.files)):
                    raise sqlite3.DatabaseError(f"more is in {INDEX} than fits in it")
                yield row

    def _told(self, error: sqlite3.OperationalError) -> sqlite3.OperationalError:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            return error
        if not self._steps.are_too_many:
            raise KeyboardInterrupt
        return sqlite3.OperationalError(f"{INDEX} takes longer to read than one of its size can")


def connect(files: ArchiveFiles, mode: str) -> IndexConnection:
    """Open the index of an archive.

    Args:
        mode: `ro`, to be read; `rwc`, to be written, and made if it is not there.

    Raises:
        ArchiveError: it cannot be opened, or the files beside it are none that xMML leaves there.
    """
    if mode == "ro":
        roll_back(files)
    else:
        _inspect(files, is_written=True)
    return _connected(files, mode)


def _connected(files: ArchiveFiles, mode: str) -> IndexConnection:
    path = os.path.abspath(files.path(INDEX))
    index = None
    try:
        index = sqlite3.connect(
            f"file:{quote(path)}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=LOCK_WAIT_S,
            factory=IndexConnection,
        )
        index.guard(files)
    except sqlite3.Error as error:
        if index is not None:
            index.close()
        raise ArchiveError(f"{files.folder} cannot be opened: {error}") from None
    return index


def index_bytes(files: ArchiveFiles) -> int:
    """Return the size of an index [bytes]. Holes in its file count little."""
    status = files.status(INDEX)
    if status is None:
        return 0
    room = _MOST_COMPRESSED * 512 * status.st_blocks
    return min(status.st_size, room) if room else status.st_size


def has_journal(files: ArchiveFiles) -> bool:
    """Return whether there is a transaction under way, or one to undo."""
    status = files.status(JOURNAL)
    return status is not None and status.st_size > 0


def may_write(files: ArchiveFiles) -> bool:
    """Return whether this user may write the index, and files beside it."""
    return os.access(files.path(INDEX), os.W_OK) and os.access(files.folder, os.W_OK)


def roll_back(files: ArchiveFiles) -> None:
    """Undo what a writer that was killed had begun, if this user may. Nothing happens to a transaction under way.

    Raises:
        ArchiveError: the files beside the index are none that xMML leaves there.
    """
    is_written = has_journal(files) and may_write(files)
    _inspect(files, is_written=is_written)
    if is_written:
        with contextlib.closing(_connected(files, "rw")) as index:
            try:
                # The first that is read has SQLite roll back. Another rollback is not tried for this one.
                sqlite3.Connection.execute(index, "PRAGMA schema_version")
            except sqlite3.Error as error:
                raise ArchiveError(f"{files.path(INDEX)}: {JOURNAL} cannot be rolled back: {error}") from None


def _inspect(files: ArchiveFiles, *, is_written: bool) -> None:
    """Look at an index, and at what lies beside it, before SQLite opens them.

    Raises:
        ArchiveError: SQLite would do there what xMML never has it do.
    """
    try:
        for name in OTHERS:
            if files.status(name) is not None:
                raise ArchiveError(f"{files.path(name)} is there, and no archive of xMML has such a file")
        for name in (INDEX, JOURNAL):
            status = files.status(name)
            if status is not None and status.st_nlink > 1 and is_written:
                raise ArchiveError(
                    f"{files.path(name)} is a file that has other names, too (hard links), and would be changed under "
                    "these: copy the archive"
                )
        if has_journal(files) and _names_super_journal(files):
            raise ArchiveError(
                f"{files.path(JOURNAL)} names another file, which SQLite would remove; no archive of xMML has that"
            )
    except OSError as error:
        raise ArchiveError(f"{files.folder} cannot be opened: {error.strerror}") from None


def _names_super_journal(files: ArchiveFiles) -> bool:
    try:
        descriptor = files.open(JOURNAL, os.O_RDONLY)
    except FileNotFoundError:  # its writer has just removed it
        return False
    try:
        end = max(0, os.fstat(descriptor).st_size - len(_END_OF_SUPER_JOURNAL))
        return os.pread(descriptor, len(_END_OF_SUPER_JOURNAL), end) == _END_OF_SUPER_JOURNAL
    finally:
        os.close(descriptor)
