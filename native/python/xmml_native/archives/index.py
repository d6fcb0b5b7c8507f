"""The index of an archive: a row of SQLite for each object, a column for each attribute.

Attributes are declared by programs and change from run to run, so that the columns are found in a table of their own.
Selectors are asked by the native library. What of a selector SQLite can decide narrows the rows that are looked at:
see `narrowing`.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
import warnings
from datetime import UTC, datetime
from typing import Any

from xmml_native._native import AttributeSchema, Selector
from xmml_native.archives.connection import INDEX, LOCK_WAIT_S, IndexConnection, connect, has_journal, may_write
from xmml_native.archives.files import ArchiveFiles
from xmml_native.archives.segments import not_written, remove_segments, segments_of
from xmml_native.errors import ArchiveError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

#: The number of this format; another one is refused.
FORMAT = 1

#: A file that is there while segments may lie in the archive in which no object lies.
LEFT_OVERS = "left-overs"

#: The columns that say which object it is, and where its payload lies; no attribute has such a name.
NUMBER = "at.number"
PLACE = ("at.segment", "at.first", "at.bytes", "at.checksum")

#: What every object has besides, with its type, as the native library has them (native/pool/src/schema.rs).
SYSTEM: Mapping[str, str] = {
    "sys.t": "real",
    "sys.dt_next": "real",
    "sys.seq": "uint",
    "sys.instance": "str",
    "sys.index": "uint",
    "sys.rank": "uint",
    "sys.port": "str",
    "sys.size": "uint",
    "sys.type": "str",
    "sys.shape": "int[]",
    "sys.node": "str",
    "sys.group": "uint",
    "sys.follow": "uint",
    "sys.redelivered": "uint",
}

#: Those that an object of which nothing was said does not have; the others are 0 or empty then.
_MAY_BE_ABSENT = ("sys.dt_next", "sys.index", "sys.group", "sys.follow", "sys.redelivered")

#: So many of the attributes that were declared first are looked up without a look at each row. Each costs the writer.
MOST_INDEXES = 16

_COLUMN_TYPES = {"int": "INTEGER", "real": "REAL", "bool": "INTEGER", "bytes": "BLOB"}

#: The columns of `sys.*`. No count is larger than SQLite's largest number, as a declared `uint` may be.
_SYSTEM_COLUMNS = {name: {**_COLUMN_TYPES, "uint": "INTEGER"}.get(kind, "TEXT") for name, kind in SYSTEM.items()}

#: A lock of the index is waited for so often, with a warning each time.
_LOCK_WAITS = 10

_TABLES = {
    "archive": "CREATE TABLE archive (format INTEGER NOT NULL)",
    "attributes": 'CREATE TABLE attributes (name TEXT PRIMARY KEY, type TEXT NOT NULL, "column" TEXT NOT NULL)',
    "highest": "CREATE TABLE highest (what TEXT PRIMARY KEY, number INTEGER NOT NULL)",
    # SQLite makes these.
    "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}

#: The table of the objects, with any columns for attributes and `sys.*`; and how SQLite looks an attribute up.
_OBJECTS = re.compile(
    re.escape(f'CREATE TABLE objects ("{NUMBER}" INTEGER PRIMARY KEY')
    + "".join(re.escape(f', "{name}" INTEGER NOT NULL') for name in PLACE)
    + r'(?:, "[A-Za-z0-9_.]+" (?:INTEGER|REAL|TEXT|BLOB))*\)'
)
_LOOKUP = re.compile(r'CREATE INDEX "by\.([A-Za-z0-9_.]+)" ON objects \((?:"\1"|CAST\("\1" AS INTEGER\))\)')

#: A condition of SQL has no more parts and no more values: SQLite refuses an expression that is too deep or too long.
_MOST_CONDITIONS, _MOST_VALUES = 100, 1000

#: SQLite has whole numbers of 64 bits with a sign; larger ones are kept as texts.
_LEAST, _LARGEST = -(1 << 63), (1 << 63) - 1


def open_index(
    files: ArchiveFiles, *, may_be_new: bool = False
) -> tuple[IndexConnection, dict[str, str], dict[str, str]]:
    """Open the index of an archive: to be written, and made if it is not there, or to be read only.

    Returns:
        It, the types of the attributes that the objects can have, and their columns.

    Raises:
        ArchiveError: there is no archive, or one of another format.
    """
    index = connect(files, "rwc" if may_be_new else "ro")
    try:
        types, columns = _known(files, index, may_be_new)
        if may_be_new:
            _add_lookups(files.folder, index, types, columns)
        return index, types, columns
    except BaseException:
        index.close()
        raise


def _known(files: ArchiveFiles, index: IndexConnection, may_be_new: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the types and columns of attributes in an index of this format, which is made if it is new and may be."""
    folder = files.folder
    try:
        if index.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            raise ArchiveError(f"{folder} is no archive: {INDEX} has a journal of another kind (WAL)")
        if may_be_new and index.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
            _make(folder, index)
        stored_columns = _columns_of_objects(folder, index)
        (form,) = index.execute("SELECT format FROM archive LIMIT 1").fetchone()
    except (sqlite3.Error, TypeError) as error:
        if not may_be_new and has_journal(files) and not may_write(files):
            raise ArchiveError(
                f"{folder} cannot be opened: a writer that was killed left half a transaction in {INDEX}-journal, "
                "which this user may not undo. Let a user who may write the folder read the archive once: xmml pool ls"
            ) from None
        raise ArchiveError(f"{folder} is no archive, or cannot be opened: {error}") from None
    if form != FORMAT:
        raise ArchiveError(f"{folder} has the format {form}; this version knows {FORMAT}")
    if may_be_new:
        _complete(folder, index)
    return _attributes(folder, index, stored_columns)


def _make(folder: str, index: sqlite3.Connection) -> None:
    """Make the tables of a new archive."""
    place = ", ".join(f'"{name}" INTEGER NOT NULL' for name in PLACE)
    columns = ", ".join(f'"{name}" {kind}' for name, kind in _SYSTEM_COLUMNS.items())
    with transaction(folder, index):
        index.execute(_TABLES["archive"])
        index.execute("INSERT INTO archive VALUES (?)", (FORMAT,))
        index.execute(_TABLES["attributes"])
        index.execute(f'CREATE TABLE objects ("{NUMBER}" INTEGER PRIMARY KEY, {place}, {columns})')


def _complete(folder: str, index: sqlite3.Connection) -> None:
    """Add what an archive of an earlier version lacks: columns of `sys.*`, and the highest numbers that were used."""
    try:
        present = system_columns(index)
        lacking = [name for name in SYSTEM if name not in present]
        if lacking or not _has_highest(index):
            with transaction(folder, index):
                for name in lacking:
                    index.execute(f'ALTER TABLE objects ADD COLUMN "{name}" {_SYSTEM_COLUMNS[name]}')
                if not _has_highest(index):
                    index.execute(_TABLES["highest"])
    except sqlite3.Error as error:
        raise not_written(folder, error) from None


def system_columns(index: sqlite3.Connection) -> list[str]:
    """Return those of `sys.*` for which an index has a column: an archive of an earlier version has fewer."""
    present = {row[1] for row in index.execute("PRAGMA table_info(objects)")}
    return [name for name in SYSTEM if name in present]


def _columns_of_objects(folder: str, index: IndexConnection) -> list[str]:
    """Return the columns of the objects, of an index that holds nothing which xMML does not make.

    A view, a trigger or a column that is computed could be a program, which would have SQLite take any time and memory.

    Raises:
        ArchiveError: it holds something else.
        sqlite3.Error: it cannot be read.
    """
    columns: list[str] = []
    for kind, name, table, text in index.rows("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        if kind == "table" and name == "objects" and isinstance(text, str) and _OBJECTS.fullmatch(text):
            columns = re.findall('"(.*?)"', text)
        elif kind == "table":
            if name not in _TABLES or text != _TABLES[name]:
                raise ArchiveError(_not_ours(folder, kind, name))
        elif kind != "index" or not (
            (name == f"sqlite_autoindex_{table}_1" and table in ("attributes", "highest") and text is None)
            or (table == "objects" and isinstance(text, str) and _LOOKUP.fullmatch(text))
        ):
            raise ArchiveError(_not_ours(folder, kind, name))
    return columns


def _not_ours(folder: str, kind: Any, name: Any) -> str:
    return f"{folder} is no archive: in its {INDEX}, the {str(kind)[:20]} {str(name)[:60]!r} is none that xMML makes"


# --- transactions -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def transaction(folder: str, index: sqlite3.Connection) -> Iterator[None]:
    """Have all changes of a block become visible at once, or none if it fails.

    Raises:
        sqlite3.Error: the index cannot be written; then it is what it was.
    """
    _patiently(folder, index, "BEGIN IMMEDIATE")
    try:
        yield
        _patiently(folder, index, "COMMIT")
    except BaseException:
        # A COMMIT that fails leaves the transaction open, which would keep every other program out.
        with contextlib.suppress(sqlite3.Error):
            index.execute("ROLLBACK")
        raise


def _patiently(folder: str, index: sqlite3.Connection, statement: str) -> None:
    """Execute a statement that may have to wait for programs that hold a lock of the index."""
    for wait in range(1, _LOCK_WAITS + 1):
        try:
            index.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or wait == _LOCK_WAITS:
                raise
            warnings.warn(
                f"{folder}: {wait * LOCK_WAIT_S:g} s were spent waiting for another program that holds a lock of "
                f"{INDEX}; the wait goes on, up to {_LOCK_WAITS * LOCK_WAIT_S:g} s",
                stacklevel=2,
            )


# --- numbers that are used once ---------------------------------------------------------------------------------------


def highest(index: sqlite3.Connection, what: str) -> int:
    """Return the highest number that objects or segments that were dropped had; 0: none was dropped.

    Args:
        what: `object` or `segment`.
    """
    if not _has_highest(index):
        return 0
    row = index.execute("SELECT number FROM highest WHERE what = ?", (what,)).fetchone()
    return int(row[0]) if row else 0


def keep_highest(index: sqlite3.Connection, what: str, number: int) -> None:
    """Have no later object or segment get a number up to this one."""
    index.execute(
        "INSERT INTO highest VALUES (?, ?) ON CONFLICT (what) DO UPDATE SET number = max(number, excluded.number)",
        (what, number),
    )


def last_number(index: sqlite3.Connection) -> int:
    """Return the highest number that an object has or had; 0: there was none."""
    (number,) = index.execute(f'SELECT max("{NUMBER}") FROM objects').fetchone()
    return max(number or 0, highest(index, "object"))


def _has_highest(index: sqlite3.Connection) -> bool:
    found = index.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'highest'")
    return bool(found.fetchone()[0])


# --- attributes -------------------------------------------------------------------------------------------------------


def _attributes(
    folder: str, index: IndexConnection, stored_columns: Container[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the attributes that the objects of an archive can have, with their types, and with their columns."""
    try:
        rows = list(index.rows('SELECT name, type, "column" FROM attributes ORDER BY rowid'))
        types, columns = {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}
        text = declarations(types)
        if AttributeSchema(text).types() != types:
            raise ValueError(f"{text} declares no attributes")
        if not all(re.fullmatch(r"[A-Za-z0-9_.]+", column) for column in columns.values()):
            raise ValueError("a column has a name that no attribute has")
        if lacking := [name for name, column in columns.items() if column not in stored_columns]:
            raise ValueError(f"there is no column for the attribute {lacking[0]}")
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise ArchiveError(f"{folder} is no archive: {error}") from None
    return types, columns


def declarations(types: Mapping[str, str]) -> str:
    """Return attributes with their types as `run:attributes` declares them."""
    return " ".join(f"{name}:{kind}" for name, kind in types.items())


def declare(
    folder: str, index: sqlite3.Connection, types: dict[str, str], columns: dict[str, str], attributes: str
) -> None:
    """Add attributes to an index, and to their types and columns.

    Raises:
        ArchiveError: one of them has another type in the objects that the archive holds.
    """
    for name, kind in AttributeSchema(attributes).types().items():
        known = types.get(name)
        if known == kind:
            continue
        column = columns.get(name) or _column(name, columns.values())
        if known is None:
            change = f'ALTER TABLE objects ADD COLUMN "{column}" {_COLUMN_TYPES.get(kind, "TEXT")}'
        elif known.startswith("enum(") and kind.startswith("enum("):
            members = dict.fromkeys([*known[5:-1].split(","), *kind[5:-1].split(",")])
            change, kind = "", f"enum({','.join(members)})"
        else:
            raise ArchiveError(f"{folder} holds objects whose {name} is {known}, and here it is {kind}")
        try:
            with transaction(folder, index):
                if change:
                    index.execute(change)
                index.execute(
                    "INSERT INTO attributes VALUES (:name, :type, :column)"
                    if known is None
                    else "UPDATE attributes SET type = :type WHERE name = :name",
                    {"name": name, "type": kind, "column": column},
                )
        except sqlite3.Error as error:
            raise ArchiveError(f"{folder} cannot be written: {error}") from None
        types[name], columns[name] = kind, column
    _add_lookups(folder, index, types, columns)


def _column(name: str, others: Iterable[str]) -> str:
    """Return the column of a new attribute: of its name, unless there is one for SQLite, which knows no case."""
    used = {other.lower() for other in others}
    return name if name.lower() not in used else f"{name}.{len(used)}"


def _add_lookups(folder: str, index: sqlite3.Connection, types: Mapping[str, str], columns: Mapping[str, str]) -> None:
    """Have SQLite look up the attributes that selectors ask for, also in an archive of a version that did not."""
    looked_up = [name for name, kind in types.items() if _is_narrowing(kind) and kind != "bool"]
    try:
        for name in looked_up[:MOST_INDEXES]:
            expression = _expression(columns[name], types[name])
            index.execute(f'CREATE INDEX IF NOT EXISTS "by.{columns[name]}" ON objects ({expression})')
    except sqlite3.Error as error:
        raise ArchiveError(f"{folder} cannot be written: {error}") from None


def remove_left_overs(files: ArchiveFiles, index: sqlite3.Connection) -> int:
    """Remove the segments in which no object lies, unless somebody reads the archive; return how many stay for readers.

    Raises:
        ArchiveError: one cannot be removed.
    """
    try:
        used = {row[0] for row in index.execute(f'SELECT DISTINCT "{PLACE[0]}" FROM objects')}
        staying = remove_segments(files, used)
        if not staying:
            with contextlib.suppress(FileNotFoundError):
                files.remove(LEFT_OVERS)
    except (OSError, sqlite3.Error) as error:
        raise not_written(files.folder, error) from None
    return staying


def tidy(files: ArchiveFiles, index: sqlite3.Connection) -> int:
    """Do as `remove_left_overs`, and warn where that fails: what stays takes room, and the next writer tries again.

    Returns:
        How many segments stay in which no object lies.
    """
    try:
        return remove_left_overs(files, index)
    except ArchiveError as error:
        warnings.warn(f"segments in which no object lies stay for now: {error}", stacklevel=2)
    try:
        used = {row[0] for row in index.execute(f'SELECT DISTINCT "{PLACE[0]}" FROM objects')}
        return sum(number not in used for number in segments_of(files))
    except (OSError, sqlite3.Error):
        return 0


# --- values -----------------------------------------------------------------------------------------------------------


def stored(kind: str, value: Any) -> Any:
    """Return the value of an attribute of a type for its column."""
    value = _of_python(value)
    if kind in ("int[]", "real[]"):
        return json.dumps([_of_python(each) for each in value])
    if kind == "time":  # all in one zone: then the order of the texts is that of the times
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return (time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)).isoformat()
    if isinstance(value, int) and value > _LARGEST:
        return str(value)
    return value


def _of_python(value: Any) -> Any:
    """Return a value of Python for one of NumPy, which neither SQLite nor JSON takes."""
    return value.tolist() if hasattr(value, "tolist") else value


def loaded(kind: str, value: Any) -> Any:
    """Return the value of an attribute of a type from its column."""
    if kind == "bool":
        return bool(value)
    if kind in ("int", "uint") and isinstance(value, str):
        return int(value)
    if kind == "time":
        return datetime.fromisoformat(value)
    if kind in ("int[]", "real[]"):
        try:
            return json.loads(value)
        except RecursionError:
            raise ValueError("a list holds lists that hold lists, too deep to be read") from None
    return value


# --- selectors --------------------------------------------------------------------------------------------------------


def narrowing(
    chosen: Selector,
    schema: AttributeSchema,
    types: Mapping[str, str],
    columns: Mapping[str, str],
    present: Container[str],
) -> tuple[str, list[Any]]:
    """Return a condition of SQL that the row of each object meets that a selector chooses, and its values.

    It is met by others, too, where SQLite cannot say exactly what the selector does, or not so much: who reads asks
    the selector of each row.

    Args:
        present: those of `sys.*` for which the index has a column.
    """
    conditions: list[str] = []
    values: list[Any] = []
    for name, *need in chosen.needs(schema):
        kind = types.get(name) or SYSTEM[name]
        if not _is_narrowing(kind) or (name not in types and name not in present):
            continue
        # Columns of `sys.*` hold whole numbers as such, those of a `uint` texts.
        expression = _expression(columns[name], kind) if name in types else f'"{name}"'
        condition, some = _one_of(expression, kind, *need) if len(need) == 1 else _within(expression, kind, *need)
        if not condition or len(some) > _MOST_VALUES:
            continue
        if len(conditions) == _MOST_CONDITIONS:
            break
        is_zero_if_absent = name in SYSTEM and name not in _MAY_BE_ABSENT
        conditions.append(f"({condition} OR {expression} IS NULL)" if is_zero_if_absent else f"({condition})")
        values += some
    return " AND ".join(conditions) or "true", values


def _is_narrowing(kind: str) -> bool:
    """Return whether SQLite compares the values of a type as selectors do."""
    return kind in ("bool", "int", "uint", "real", "str", "time") or kind.startswith("enum(")


def _expression(column: str, kind: str) -> str:
    # What is larger than SQLite's largest number becomes that number, so that the order stays.
    return f'CAST("{column}" AS INTEGER)' if kind == "uint" else f'"{column}"'


def _one_of(expression: str, kind: str, needed: list[Any]) -> tuple[str, list[Any]]:
    values = [value for each in needed for value in _equal(kind, each)]
    return f"{expression} IN ({', '.join('?' * len(values))})", values


def _within(expression: str, kind: str, least: Any, most: Any) -> tuple[str, list[Any]]:
    ends = [
        (f"{expression} {sign} ?", _end(kind, end, is_least=sign == ">="))
        for sign, end in ((">=", least), ("<=", most))
        if end is not None
    ]
    return " AND ".join(condition for condition, end in ends if end is not None), [
        end for _, end in ends if end is not None
    ]


def _equal(kind: str, value: Any) -> list[Any]:
    """Return what a column of a type holds where it equals a value: one thing, or nothing."""
    if kind in ("int", "uint"):
        is_whole = isinstance(value, int) or value.is_integer()
        return [min(max(int(value), _LEAST), _LARGEST)] if is_whole else []
    if kind == "real":
        real = float(value)
        return [real] if real == value else []
    return [stored(kind, value)]


def _end(kind: str, value: Any, *, is_least: bool) -> Any:
    """Return the end of a range as a column of a type holds it, or the next that it holds; `None`: there is none."""
    if kind in ("int", "uint"):
        if not math.isfinite(value):
            return None
        return min(max(math.floor(value) if is_least else math.ceil(value), _LEAST), _LARGEST)
    if kind == "real":
        real = float(value)
        return real if real == value else math.nextafter(real, -math.inf if is_least else math.inf)
    return stored(kind, value)
