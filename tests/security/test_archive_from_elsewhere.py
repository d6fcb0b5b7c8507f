"""The author of an archive: whoever looks into it reads and writes nothing beside it, and is not kept waiting."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from archives import written
from commands import XMML, do
from waiting import LIMIT_S
from xmml_native.archives.archive import Archive, ArchiveError
from xmml_native.archives.writer import ArchiveWriter

#: Everything that opens an archive.
COMMANDS = (
    ("xmml", "pool", "ls", "ARCHIVE"),
    ("xmml", "pool", "verify", "ARCHIVE"),
    ("xmml", "pool", "export", "ARCHIVE", "--to", "OUTPUT"),
    ("xmml", "pool", "compact", "ARCHIVE", "--drop", "step = 0"),
)
LS, VERIFY, _, COMPACT = COMMANDS
#: What a command may take of the address space [bytes].
MOST_BYTES = 1 << 30
INDEX, JOURNAL = "index.sqlite", "index.sqlite-journal"
MAGIC_OF_JOURNALS = bytes.fromhex("d9d505f920a163d7")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of ten objects."""
    objects = [(np.full(4, step), {"step": step, "sys.shape": [4]}) for step in range(10)]
    return Path(written(tmp_path, objects, "step:int[0..]! name:enum(u,v) when:time size:uint"))


def carry_out(words: tuple[str, ...], archive: Path) -> subprocess.CompletedProcess[str]:
    """Carry out a command on an archive, with bounded time and memory; what it says has no traceback."""
    output = archive.parent / "output"
    shutil.rmtree(output, ignore_errors=True)
    names = {"xmml": XMML, "ARCHIVE": str(archive), "OUTPUT": f"{output}/"}
    ended = subprocess.run(
        ["prlimit", f"--as={MOST_BYTES}", *(names.get(word, word) for word in words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended


def is_refused(words: tuple[str, ...], archive: Path, *problem: str) -> None:
    """Hold that a command refuses an archive in one line, which has these words."""
    ended = carry_out(words, archive)
    assert ended.returncode == 2, ended
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert all(word in ended.stderr for word in problem), ended.stderr


def change(archive: Path, *statements: str) -> None:
    """Change the index of an archive."""
    with contextlib.closing(sqlite3.connect(archive / INDEX, isolation_level=None)) as index:
        for statement in statements:
            index.execute(statement)


def state_of(folder: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# --- the journal of the index -----------------------------------------------------------------------------------------


def journal(archive: Path, named: Path | None = None) -> bytes:
    """Return a journal with which SQLite has nothing to restore, and which may name a super-journal."""
    header = (archive / INDEX).read_bytes()[:100]
    (page_bytes,) = struct.unpack(">H", header[16:18])
    pages = (archive / INDEX).stat().st_size // page_bytes
    head = MAGIC_OF_JOURNALS + struct.pack(">IIIII", 0, 0, pages, 512, page_bytes)
    if named is None:
        return head.ljust(512, b"\0")
    name = os.fsencode(named)
    record = struct.pack(">I", (1 << 30) // page_bytes + 1) + name + struct.pack(">II", len(name), sum(name))
    return head.ljust(512, b"\0") + record + MAGIC_OF_JOURNALS


def test_sqlite_removes_what_a_journal_names(archive: Path, tmp_path: Path) -> None:
    """So the attack is a real one."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (archive / JOURNAL).write_bytes(journal(archive, victim))
    with contextlib.closing(sqlite3.connect(archive / INDEX)) as index:
        index.execute("SELECT count(*) FROM objects").fetchone()
    assert not victim.exists()


@pytest.mark.parametrize("words", COMMANDS)
def test_no_command_removes_what_a_journal_names(archive: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (archive / JOURNAL).write_bytes(journal(archive, victim))
    is_refused(words, archive, JOURNAL, "names another file")
    assert victim.read_text() == "precious"


def test_no_program_removes_what_a_journal_names(archive: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (archive / JOURNAL).write_bytes(journal(archive, victim))
    for opened in (Archive, ArchiveWriter):
        with pytest.raises(ArchiveError, match="names another file"):
            opened(str(archive))
    assert victim.read_text() == "precious"


def test_a_journal_that_comes_while_an_archive_is_open_removes_nothing(archive: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    with Archive(str(archive)) as reader:
        (archive / JOURNAL).write_bytes(journal(archive, victim))
        with pytest.raises(ArchiveError, match="names another file"):
            len(reader)
    assert victim.read_text() == "precious"


def test_a_journal_without_such_a_name_is_rolled_back(archive: Path) -> None:
    (archive / JOURNAL).write_bytes(journal(archive))
    assert carry_out(LS, archive).stdout.endswith("\n10 of 10 objects\n")
    assert not (archive / JOURNAL).exists()


def test_nothing_is_rolled_back_into_a_file_that_has_another_name(archive: Path, tmp_path: Path) -> None:
    """An archive that was unpacked may have hard links to files beside it."""
    content = b"x" * 10_000
    (tmp_path / "thesis").write_bytes(content)
    (archive / JOURNAL).write_bytes(journal(archive))
    (archive / INDEX).unlink()
    os.link(tmp_path / "thesis", archive / INDEX)
    for words in COMMANDS:
        is_refused(words, archive, INDEX, "other names")
    with pytest.raises(ArchiveError, match="other names"):
        ArchiveWriter(str(archive))
    assert (tmp_path / "thesis").read_bytes() == content


def test_a_copy_by_hard_links_is_read_and_not_written(archive: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.archive"
    shutil.copytree(archive, copy, copy_function=os.link)
    assert carry_out(LS, copy).stdout.endswith("\n10 of 10 objects\n")
    is_refused(COMPACT, copy, INDEX, "other names")


@pytest.mark.parametrize("name", ["index.sqlite-wal", "index.sqlite-shm"])
def test_files_of_another_kind_of_journal_are_refused(archive: Path, name: str) -> None:
    (archive / name).write_bytes(b"")
    for words in COMMANDS:
        is_refused(words, archive, name, "no archive of xMML has such a file")
    with pytest.raises(ArchiveError, match=name):
        ArchiveWriter(str(archive))


@pytest.mark.parametrize("words", COMMANDS)
def test_an_index_with_another_kind_of_journal_is_refused(archive: Path, words: tuple[str, ...]) -> None:
    change(archive, "PRAGMA journal_mode = WAL")
    is_refused(words, archive, INDEX, "WAL")
    with pytest.raises(ArchiveError, match=r"WAL|-wal"):
        ArchiveWriter(str(archive))


# --- links and pipes --------------------------------------------------------------------------------------------------

#: A command that opens a file of this name.
OPENING = {
    INDEX: LS,
    JOURNAL: LS,
    "index.sqlite-wal": LS,
    "index.sqlite-shm": LS,
    "readers": LS,
    "lock": COMPACT,
    "left-overs": COMPACT,
}


def put_in_its_place(archive: Path, name: str, target: Path) -> None:
    """Put a link in the place of a file of an archive."""
    (archive / name).unlink(missing_ok=True)
    (archive / name).symlink_to(os.path.relpath(target, archive))


@pytest.mark.parametrize("is_there", [True, False], ids=["to a file", "to nothing"])
@pytest.mark.parametrize("name", OPENING)
def test_links_are_not_followed(archive: Path, tmp_path: Path, name: str, is_there: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if is_there:
        content = (archive / name).read_bytes() if name == INDEX else b"precious"
        (elsewhere / "keys").write_bytes(content)
    before = state_of(elsewhere)
    put_in_its_place(archive, name, elsewhere / "keys")
    is_refused(OPENING[name], archive, str(archive / name), "is a symbolic link")
    for words in COMMANDS:
        carry_out(words, archive)
    with contextlib.suppress(ArchiveError), ArchiveWriter(str(archive)) as writer:
        writer.append(1, {"step": 1}, {})
    assert state_of(elsewhere) == before


def test_a_link_in_the_place_of_a_segment_is_not_followed(archive: Path, tmp_path: Path) -> None:
    (archive / "segment-000001").rename(tmp_path / "keys")
    before = (tmp_path / "keys").read_bytes()
    put_in_its_place(archive, "segment-000001", tmp_path / "keys")
    checked = carry_out(VERIFY, archive)
    assert checked.stdout == "10 objects, 10 cannot be read\n"
    assert checked.stderr.count(f"{archive}/segment-000001 is a symbolic link") == 10
    assert not (archive.parent / "output" / "1.npy").exists()
    for words in COMMANDS[2:]:
        is_refused(words, archive, "segment-000001 is a symbolic link")
    assert (tmp_path / "keys").read_bytes() == before


def test_a_file_that_marks_left_overs_keeps_what_it_has(archive: Path, tmp_path: Path) -> None:
    """It may be a hard link to a file beside the archive."""
    (tmp_path / "thesis").write_text("precious")
    os.link(tmp_path / "thesis", archive / "left-overs")
    carry_out(COMPACT, archive)
    assert (tmp_path / "thesis").read_text() == "precious"


@pytest.mark.parametrize("name", [*OPENING, "segment-000001"])
def test_pipes_keep_nobody_waiting(archive: Path, name: str) -> None:
    (archive / name).unlink(missing_ok=True)
    os.mkfifo(archive / name)
    if name in OPENING:
        is_refused(OPENING[name], archive, str(archive / name), "is no regular file")
    else:
        assert carry_out(VERIFY, archive).stdout == "10 objects, 10 cannot be read\n"
    for words in COMMANDS:
        carry_out(words, archive)


def test_a_lock_that_somebody_keeps_is_waited_for_a_bounded_time(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmml_native.archives.segments.LOCK_WAIT_S", 0.1)
    with open(archive / "readers", "rb") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        with pytest.raises(ArchiveError, match=r"readers was locked by another program for 0\.1 s"):
            Archive(str(archive))


# --- what an index holds ----------------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"
#: What no index of xMML has, and what the refusal calls it.
SCHEMAS = {
    "objects without end": (
        [
            "ALTER TABLE objects RENAME TO others",
            f'CREATE VIEW objects AS {ENDLESS} SELECT i AS "at.number", 1 AS "at.segment", 0 AS "at.first", '
            '1 AS "at.bytes", 0 AS "at.checksum", 1 AS step, 0 AS name, 0 AS "when", 0 AS size FROM r',
        ],
        "others",
    ),
    "a format without end": (
        ["DROP TABLE archive", f"CREATE VIEW archive AS {ENDLESS} SELECT max(i) AS format FROM r"],
        "archive",
    ),
    "a trigger": (["CREATE TRIGGER t AFTER INSERT ON objects BEGIN DELETE FROM objects; END"], "'t'"),
    "a column that is computed": (
        ["ALTER TABLE objects ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))"],
        "objects",
    ),
    "a default": (["ALTER TABLE objects ADD COLUMN more TEXT DEFAULT 'x'"], "objects"),
    "a lookup that computes": (['CREATE INDEX "by.more" ON objects (hex(zeroblob(step)))'], "by.more"),
    "a lookup of some": (['CREATE INDEX "by.more" ON objects (step) WHERE step > 1'], "by.more"),
    "a table of a module": (
        [
            "PRAGMA writable_schema = ON",
            "INSERT INTO sqlite_master VALUES ('table', 'more', 'more', 0, 'CREATE VIRTUAL TABLE more USING csv(x)')",
        ],
        "more",
    ),
    "one more table": (["CREATE TABLE more (x)"], "more"),
}


@pytest.mark.parametrize("what", SCHEMAS)
def test_an_index_holds_nothing_that_xmml_does_not_make(archive: Path, what: str) -> None:
    statements, name = SCHEMAS[what]
    change(archive, *statements)
    for words in COMMANDS:
        is_refused(words, archive, INDEX, name, "none that xMML makes")
    with pytest.raises(ArchiveError, match="none that xMML makes"):
        ArchiveWriter(str(archive))


def test_a_column_that_is_not_there_is_no_text(archive: Path) -> None:
    """SQLite takes a name in double quotes that it does not know for a text."""
    change(archive, "UPDATE attributes SET \"column\" = 'nothing' WHERE name = 'step'")
    for words in COMMANDS:
        is_refused(words, archive, "there is no column for the attribute step")


@pytest.mark.parametrize("shape", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000])
def test_lists_in_lists_are_an_error_of_the_archive(archive: Path, shape: str) -> None:
    change(archive, f"UPDATE objects SET \"sys.shape\" = '{shape}'")
    is_refused(LS, archive, "object 1 cannot be read: ")
    assert carry_out(VERIFY, archive).stdout == "10 objects, 10 cannot be read\n"


def made_endless(content: bytes, root: int, levels: int = 12, width: int = 200) -> bytes:
    """Return a database in which a table has the rows of one page again and again.

    Each page of the upper levels has `width` pointers, all to the same page below it.

    Args:
        root: the number of the page at the top of the table, which is one of rows.
    """
    page_bytes = struct.unpack(">H", content[16:18])[0]
    pages = [content[first : first + page_bytes] for first in range(0, len(content), page_bytes)]
    pages.append(pages[root - 1])
    assert pages[-1][0] == 13  # a leaf of a table
    for level in range(levels):
        # A pointer and a key of one byte.
        cells = b"".join(struct.pack(">IB", len(pages), min(key, 127)) for key in range(1, width + 1))
        start = page_bytes - len(cells)
        head = struct.pack(">BHHHBI", 5, 0, width, start, 0, len(pages))
        places = b"".join(struct.pack(">H", start + 5 * number) for number in range(width))
        page = (head + places).ljust(start, b"\0") + cells
        if level == levels - 1:
            pages[root - 1] = page
        else:
            pages.append(page)
    made = bytearray(b"".join(pages))
    made[28:32] = struct.pack(">I", len(pages))
    return bytes(made)


@pytest.mark.parametrize("table", ["objects", "attributes"])
def test_an_index_that_has_no_end_takes_a_bounded_time_and_memory(archive: Path, table: str) -> None:
    change(archive, *(f'DROP INDEX "by.{name}"' for name in ("step", "name", "when", "size")))
    with contextlib.closing(sqlite3.connect(archive / INDEX)) as index:
        ((root,),) = index.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    (archive / INDEX).write_bytes(made_endless((archive / INDEX).read_bytes(), root))
    for words in COMMANDS:
        is_refused(words, archive, INDEX)


def test_a_value_that_is_larger_than_the_index_is_refused(archive: Path) -> None:
    """A text goes on in a chain of pages, here in one that leads to itself."""
    change(archive, f"UPDATE objects SET \"sys.node\" = '{'x' * 5_000_000}' WHERE step = 3")
    content = bytearray((archive / INDEX).read_bytes())
    (page_bytes,) = struct.unpack(">H", content[16:18])
    full = b"x" * (page_bytes - 4)
    [first, *_] = [at for at in range(0, len(content), page_bytes) if content[at + 4 : at + page_bytes] == full]
    pages = first // page_bytes + 1
    content[first : first + 4] = content[28:32] = struct.pack(">I", pages)
    (archive / INDEX).write_bytes(content[: pages * page_bytes])
    is_refused(LS, archive, "cannot be read")


def test_an_archive_that_nobody_attacks_is_listed(archive: Path) -> None:
    """So what is refused above is refused for what was done to it."""
    assert do(*LS[:3], archive).stdout.endswith("\n10 of 10 objects\n")
    for words in COMMANDS:
        assert carry_out(words, archive).returncode == 0
    with ArchiveWriter(str(archive)) as writer:
        writer.append(1, {"step": 1}, {})
    assert carry_out(VERIFY, archive).stdout == "10 objects, all as written\n"
