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

import fcntl
import json
import mmap
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from xmml_native._native import AttributeSchema, Selector, deserialize, serialize
from xmml_native.errors import Error

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

#: The number of this format; another one is refused.
FORMAT = 1

#: Payloads begin where the elements of an array lie at a multiple of this [bytes].
ALIGNMENT = 64

#: A segment that is longer is followed by another [bytes].
SEGMENT_BYTES = 1 << 30

#: What waits to be written in one transaction at most: objects, bytes, seconds.
MOST_OBJECTS, MOST_BYTES, MOST_SECONDS = 4096, 64 << 20, 1.0

INDEX = "index.sqlite"

#: So many rows are read at a time.
_ROWS = 1000

#: The columns that say which object it is, and where its payload lies; no attribute has such a name.
_NUMBER = "at.number"
_PLACE = ("at.segment", "at.first", "at.bytes", "at.checksum")

#: What every object has besides, with the type of each column.
_SYSTEM: Mapping[str, str] = {
    "sys.t": "REAL",
    "sys.dt_next": "REAL",
    "sys.seq": "INTEGER",
    "sys.instance": "TEXT",
    "sys.index": "INTEGER",
    "sys.rank": "INTEGER",
    "sys.port": "TEXT",
    "sys.size": "INTEGER",
    "sys.type": "TEXT",
    "sys.shape": "TEXT",
    "sys.node": "TEXT",
    "sys.group": "INTEGER",
    "sys.follow": "INTEGER",
}

#: What no column can hold as it is.
_OTHER_TYPES = {"sys.shape": "int[]", "sys.seq": "uint", "sys.size": "uint"}

#: SQLite has whole numbers of 64 bits with a sign; larger ones are kept as texts.
_LARGEST = (1 << 63) - 1

_COLUMN_TYPES = {"int": "INTEGER", "real": "REAL", "bool": "INTEGER", "bytes": "BLOB"}


class ArchiveError(Error):
    """An archive that cannot be read or written."""


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _segment(number: int) -> str:
    return f"segment-{number:06}"


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
        self._file: Any = None
        self._segment = 0
        self._at = 0
        self._is_new = False
        self._rows: list[tuple[Any, ...]] = []
        self._pending_bytes = 0
        self._since = 0.0
        try:
            os.makedirs(folder, exist_ok=True)
            self._lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ArchiveError(f"{folder} cannot be written: {error.strerror or error}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._index, self._types, self._columns = _opened(folder, may_be_new=True)
            names = [name for name in os.listdir(folder) if re.fullmatch(r"segment-\d{6,}", name)]
            self._segment = max((int(name.removeprefix("segment-")) for name in names), default=0)
        except BlockingIOError:
            os.close(self._lock)
            raise ArchiveError(f"{folder} is being written by another program") from None
        except OSError as error:
            os.close(self._lock)
            raise ArchiveError(f"{folder} cannot be written: {error.strerror or error}") from None
        except BaseException:
            os.close(self._lock)
            raise

    def declare(self, attributes: str) -> None:
        """Add attributes that objects can have from now on.

        Raises:
            ArchiveError: one of them has another type in the objects that the archive holds.
        """
        for name, kind in AttributeSchema(attributes).types().items():
            known = self._types.get(name)
            if known == kind:
                continue
            column = self._columns.get(name) or _column(name, self._columns.values())
            if known is None:
                change = f'ALTER TABLE objects ADD COLUMN "{column}" {_COLUMN_TYPES.get(kind, "TEXT")}'
            elif known.startswith("enum(") and kind.startswith("enum("):
                members = dict.fromkeys([*known[5:-1].split(","), *kind[5:-1].split(",")])
                change, kind = "", f"enum({','.join(members)})"
            else:
                raise ArchiveError(f"{self.folder} holds objects whose {name} is {known}, and here it is {kind}")
            try:
                self._declare(change, known is None, {"name": name, "type": kind, "column": column})
            except sqlite3.Error as error:
                raise ArchiveError(f"{self.folder} cannot be written: {error}") from None
            self._types[name], self._columns[name] = kind, column

    def _declare(self, change: str, is_new: bool, attribute: Mapping[str, str]) -> None:
        self._index.execute("BEGIN IMMEDIATE")
        if change:
            self._index.execute(change)
        self._index.execute(
            "INSERT INTO attributes VALUES (:name, :type, :column)"
            if is_new
            else "UPDATE attributes SET type = :type WHERE name = :name",
            attribute,
        )
        self._index.execute("COMMIT")

    def append(self, data: Any, attributes: Mapping[str, Any], system: Mapping[str, Any]) -> None:
        """Write an object, which becomes visible with the next `commit`.

        Args:
            data: its payload.
            attributes: those that were declared.
            system: those that every object has, `sys.t` and the others.
        """
        payload = serialize(data)
        with memoryview(cast("Any", payload)) as view:
            self._write(view, attributes, system)

    def _write(self, view: memoryview, attributes: Mapping[str, Any], system: Mapping[str, Any]) -> None:
        file = self._room()
        head = 8 + int.from_bytes(view[:8], "little")
        padding = -(self._at + head) % ALIGNMENT
        try:
            for rest in (memoryview(bytes(padding)), view):
                while rest:  # a disk that is nearly full takes a part
                    rest = rest[file.write(rest) :]
        except OSError as error:
            self._file.close()
            self._file = None  # nobody knows where it ends
            raise ArchiveError(f"{self.folder} cannot be written: {error.strerror or error}") from None
        first = self._at + padding
        self._at = first + len(view)
        names = [*self._types, *_SYSTEM]
        known = {**attributes, **system}
        values = [_stored(known[name]) if known.get(name) is not None else None for name in names]
        columns = (*_PLACE, *self._columns.values(), *_SYSTEM)
        self._rows.append((columns, (self._segment, first, len(view), zlib.crc32(view), *values)))
        self._pending_bytes += len(view)
        if len(self._rows) == 1:
            self._since = time.monotonic()

    def _room(self) -> Any:
        """Return the segment, which is made if there is none."""
        if self._file is None:
            self._segment += 1
            self._at, self._is_new = 0, True
            try:
                path = os.path.join(self.folder, _segment(self._segment))
                self._file = open(path, "xb", buffering=0)  # noqa: SIM115 (it stays open for the next objects)
            except OSError as error:
                raise ArchiveError(f"{self.folder} cannot be written: {error.strerror or error}") from None
        return self._file

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
            os.fdatasync(self._file.fileno())
            if self._is_new:
                _sync_folder(self.folder)  # else the name of the segment could be lost with the power
                self._is_new = False
            self._index.execute("BEGIN IMMEDIATE")
            for columns, values in rows:
                named, marks = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(values))
                self._index.execute(f"INSERT INTO objects ({named}) VALUES ({marks})", values)
            self._index.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            why = getattr(error, "strerror", None) or error
            raise ArchiveError(f"{self.folder} cannot be written: {why}") from None
        if self._at >= SEGMENT_BYTES:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Commit, and let others write."""
        try:
            self.commit()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
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
        folder: the archive; it may be written at the same time.

    Raises:
        ArchiveError: there is no archive, or one of another format.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        if not os.path.isfile(os.path.join(folder, INDEX)):
            raise ArchiveError(f"{folder} is no archive: it has no {INDEX}")
        self._index, self._types, self._columns = _opened(folder)
        self._maps: dict[int, mmap.mmap] = {}

    @property
    def attributes(self) -> str:
        """The declarations of the attributes that the objects can have, as in `run:attributes`."""
        return " ".join(f"{name}:{kind}" for name, kind in self._types.items())

    def __len__(self) -> int:
        return int(self._query("SELECT count(*) FROM objects")[0][0])

    def __iter__(self) -> Iterator[ArchivedObject]:
        return self.select()

    def select(self, selector: str = "", variables: Mapping[str, Any] | None = None) -> Iterator[ArchivedObject]:
        """Yield the objects that a selector chooses; without one, all. Payloads are read when they are asked for.

        Args:
            selector: as `run:select`.
            variables: what names behind a `$` in it stand for.

        Raises:
            ValueError: the text is no selector of these attributes.
        """
        schema = AttributeSchema(self.attributes)
        chosen = Selector(selector, schema, dict(variables or {})) if selector else None
        return self._chosen(schema, chosen)

    def _chosen(self, schema: AttributeSchema, chosen: Selector | None) -> Iterator[ArchivedObject]:
        types = self._types
        names = [*types, *_SYSTEM]
        for row in self._rows((_NUMBER, *_PLACE, *self._columns.values(), *_SYSTEM)):
            try:
                known = {
                    name: _loaded(types.get(name) or _OTHER_TYPES.get(name, ""), value)
                    for name, value in zip(names, row[5:], strict=True)
                    if value is not None
                }
                if not all(isinstance(place, int) for place in row[:5]):
                    raise TypeError("it is said to lie nowhere")
                own = {name: value for name, value in known.items() if name in types}
                system = {name: value for name, value in known.items() if name not in types}
                attributes = schema.complete(own, system)  # which refuses values of other types
                if chosen is not None and not chosen.matches(attributes):
                    continue
            except (TypeError, ValueError) as error:
                raise ArchiveError(f"{self.folder}: object {row[0]} cannot be read: {error}") from None
            yield ArchivedObject(self, row[0], row[1:5], known)

    def _rows(self, columns: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that are there now, without keeping the index from who writes while the caller is busy."""
        named = ", ".join(f'"{column}"' for column in columns)
        (first, last) = self._query(f'SELECT min("{_NUMBER}"), max("{_NUMBER}") FROM objects')[0]
        block = f'SELECT {named} FROM objects WHERE "{_NUMBER}" BETWEEN ? AND ? ORDER BY "{_NUMBER}" LIMIT {_ROWS}'
        while first is not None:
            rows = self._query(block, (first, last))
            yield from rows
            first = rows[-1][0] + 1 if len(rows) == _ROWS and isinstance(rows[-1][0], int) else None

    def _query(self, text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._index.execute(text, values).fetchall()
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise ArchiveError(f"{self.folder} cannot be read: {error}") from None

    def payload(self, segment: int, first: int, length: int) -> memoryview:
        """Return the bytes of a payload, mapped.

        Raises:
            ArchiveError: the segment is missing, or shorter than the index says.
        """
        mapped = self._maps.get(segment)
        if mapped is None or first + length > len(mapped):
            path = os.path.join(self.folder, _segment(segment))
            try:
                with open(path, "rb") as file:
                    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise ArchiveError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
            self._maps[segment] = mapped
        if first < 0 or length < 0 or first + length > len(mapped):
            raise ArchiveError(f"{self.folder}: {_segment(segment)} ends before the object at {first}")
        return memoryview(mapped)[first : first + length]

    def verify(self) -> Iterator[str]:
        """Yield what is wrong with each object whose payload is not what was written."""
        for entry in self:
            problem = entry.problem()
            if problem is not None:
                yield problem

    def close(self) -> None:
        """Let go of the index; payloads that were read stay."""
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ArchivedObject:
    """An object of an archive: `object["step"]` is an attribute, `object.data` the payload.

    Attributes:
        number: which object of the archive it is, from 1.
        attributes: those that it has, by name; `sys.t` and the others last.
    """

    def __init__(
        self, archive: Archive, number: int, place: tuple[int, int, int, int], attributes: dict[str, Any]
    ) -> None:
        self.number = number
        self.attributes = attributes
        self._archive, self._place = archive, place

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or `default` if the object does not have it."""
        return self.attributes.get(name, default)

    @property
    def data(self) -> Any:
        """The payload; arrays are shown where they lie in the file, for reading.

        Raises:
            ArchiveError: it is not there, or no payload.
        """
        segment, first, length, _ = self._place
        try:
            return deserialize(self._archive.payload(segment, first, length))
        except ValueError as error:
            raise ArchiveError(f"{self._archive.folder}: object {self.number} cannot be read: {error}") from None

    def problem(self) -> str | None:
        """Return what is wrong with the payload; `None`: it is what was written."""
        segment, first, length, checksum = self._place
        try:
            is_whole = zlib.crc32(self._archive.payload(segment, first, length)) == checksum
        except ArchiveError as error:
            return f"object {self.number}: {error}"
        return (
            None if is_whole else f"object {self.number}: its payload was changed ({_segment(segment)}, byte {first})"
        )

    def __repr__(self) -> str:
        shown = " ".join(f"{name}={value}" for name, value in self.attributes.items() if not name.startswith("sys."))
        return f"<object {self.number} {shown}>"


def _opened(folder: str, *, may_be_new: bool = False) -> tuple[sqlite3.Connection, dict[str, str], dict[str, str]]:
    """Open the index of an archive: to be written, and made if it is not there, or to be read only.

    Returns:
        It, the types of the attributes that the objects can have, and their columns.
    """
    from urllib.parse import quote

    path = os.path.abspath(os.path.join(folder, INDEX))
    # Also who only reads has to undo what a writer that was killed had begun.
    mode = "rwc" if may_be_new else "rw" if os.access(path, os.W_OK) and os.access(folder, os.W_OK) else "ro"
    try:
        index = sqlite3.connect(f"file:{quote(path)}?mode={mode}", uri=True, isolation_level=None, timeout=30.0)
    except sqlite3.Error as error:
        raise ArchiveError(f"{folder} cannot be opened: {error}") from None
    try:
        return (index, *_known(folder, index, may_be_new))
    except BaseException:
        index.close()
        raise


def _known(folder: str, index: sqlite3.Connection, may_be_new: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the types and columns of attributes in an index of this format, which is made if it is new and may be."""
    try:
        if not may_be_new:
            index.execute("PRAGMA query_only = ON")
        elif index.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            columns = ", ".join(f'"{name}" {kind}' for name, kind in _SYSTEM.items())
            index.execute("BEGIN IMMEDIATE")
            index.execute("CREATE TABLE archive (format INTEGER NOT NULL)")
            index.execute("INSERT INTO archive VALUES (?)", (FORMAT,))
            index.execute('CREATE TABLE attributes (name TEXT PRIMARY KEY, type TEXT NOT NULL, "column" TEXT NOT NULL)')
            place = ", ".join(f'"{name}" INTEGER NOT NULL' for name in _PLACE)
            index.execute(f'CREATE TABLE objects ("{_NUMBER}" INTEGER PRIMARY KEY, {place}, {columns})')
            index.execute("COMMIT")
        (form,) = index.execute("SELECT format FROM archive").fetchone()
    except (sqlite3.Error, TypeError) as error:
        raise ArchiveError(f"{folder} is no archive, or cannot be opened: {error}") from None
    if form != FORMAT:
        raise ArchiveError(f"{folder} has the format {form}; this version knows {FORMAT}")
    return _attributes(folder, index)


def _attributes(folder: str, index: sqlite3.Connection) -> tuple[dict[str, str], dict[str, str]]:
    """Return the attributes that the objects of an archive can have, with their types, and with their columns."""
    try:
        rows = index.execute('SELECT name, type, "column" FROM attributes ORDER BY rowid').fetchall()
        types, columns = {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}
        text = " ".join(f"{name}:{kind}" for name, kind in types.items())
        if AttributeSchema(text).types() != types:
            raise ValueError(f"{text} declares no attributes")
        if not all(re.fullmatch(r"[A-Za-z0-9_.]+", column) for column in columns.values()):
            raise ValueError("a column has a name that no attribute has")
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise ArchiveError(f"{folder} is no archive: {error}") from None
    return types, columns


def _column(name: str, others: Iterable[str]) -> str:
    """Return the column of a new attribute: of its name, unless there is one for SQLite, which knows no case."""
    used = {other.lower() for other in others}
    return name if name.lower() not in used else f"{name}.{len(used)}"


def _stored(value: Any) -> Any:
    """Return the value of an attribute for its column."""
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, int) and value > _LARGEST:
        return str(value)
    return value


def _loaded(kind: str, value: Any) -> Any:
    """Return the value of an attribute of this type from its column."""
    if kind == "bool":
        return bool(value)
    if kind in ("int", "uint") and isinstance(value, str):
        return int(value)
    if kind == "time":
        return datetime.fromisoformat(value)
    if kind in ("int[]", "real[]"):
        return json.loads(value)
    return value
