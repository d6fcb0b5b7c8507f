"""Archives: what was written is found by its attributes, and what fails leaves whole objects or none."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xmml_native.archives import segments as module
from xmml_native.archives.archive import Archive, ArchiveError
from xmml_native.archives.index import SYSTEM
from xmml_native.archives.writer import ArchiveWriter

import xmml

EVERY_TYPE = "b:bool i:int u:uint r:real s:str e:enum(x,y) t:time li:int[] lr:real[] by:bytes"


def written(folder: Path, objects: list[tuple[Any, dict[str, Any]]], attributes: str = "step:int") -> str:
    """Write objects into an archive; return its path."""
    path = str(folder / "objects.archive")
    with ArchiveWriter(path) as archive:
        archive.declare(attributes)
        for number, (data, own) in enumerate(objects):
            archive.append(
                data, own, {"sys.seq": number, "sys.instance": "w", "sys.t": number / 2, "sys.shape": [2, 3]}
            )
    return path


def test_attributes_of_every_type_come_back_as_they_were(tmp_path: Path) -> None:
    own = {
        "b": True,
        "i": -(2**63),
        "u": 2**64 - 1,
        "r": 0.1,
        "s": "ünder 'quotes'",
        "e": "y",
        "t": datetime(2026, 11, 27, 12, 30, tzinfo=UTC),
        "li": [1, -2],
        "lr": [0.5],
        "by": b"\0\xff",
    }
    with xmml.open_archive(written(tmp_path, [(None, own), (None, {})], EVERY_TYPE)) as archive:
        first, second = archive
        system = {"sys.t": 0.0, "sys.seq": 0, "sys.instance": "w", "sys.shape": [2, 3]}
        assert first.attributes == {**own, **system}
        assert [type(value) for value in first.attributes.values()] == [*map(type, own.values()), float, int, str, list]
        assert [name for name in second.attributes if not name.startswith("sys.")] == []
        assert archive.attributes == EVERY_TYPE


def test_attributes_may_be_values_of_numpy(tmp_path: Path) -> None:
    own = {
        "b": np.True_,
        "i": np.int16(-3),
        "u": np.uint64(2**64 - 1),
        "r": np.float32(0.5),
        "li": np.array([1, 2]),
        "lr": [np.float32(0.5), 1],
    }
    with xmml.open_archive(written(tmp_path, [(None, own)], EVERY_TYPE)) as archive:
        [found] = archive.select("i = -3 and r = 0.5 and u > 5 and b = true")
    assert {name: found[name] for name in own} == {
        "b": True,
        "i": -3,
        "u": 2**64 - 1,
        "r": 0.5,
        "li": [1, 2],
        "lr": [0.5, 1.0],
    }
    assert [type(found[name]) for name in ("b", "i", "u", "r")] == [bool, int, int, float]


@pytest.mark.parametrize(
    "data",
    [
        None,
        True,
        7,
        0.5,
        1 + 2j,
        "text",
        b"bytes",
        [1, "two", {"three": None}],
        np.arange(12, dtype="float32").reshape(3, 4),
        np.asfortranarray(np.arange(12).reshape(3, 4)),
        np.empty((0, 3)),
        {"a": [np.ones(3), 1], "b": np.zeros((2, 2), dtype=bool)},
    ],
)
def test_payloads_come_back_as_they_were(tmp_path: Path, data: Any) -> None:
    with xmml.open_archive(written(tmp_path, [(b"before", {}), (data, {})])) as archive:
        found = list(archive)[1].data
    np.testing.assert_equal(found, data)
    assert type(found) is type(data)
    if isinstance(data, np.ndarray):
        assert (found.dtype, found.flags.f_contiguous) == (data.dtype, data.flags.f_contiguous)


def test_arrays_lie_in_the_file_at_multiples_of_64_bytes_and_cannot_be_changed(tmp_path: Path) -> None:
    arrays = [np.full((number, 3), number, dtype="float32") for number in range(1, 9)]
    with Archive(written(tmp_path, [(array, {}) for array in arrays])) as archive:
        found = [each.data for each in archive]
    assert [array.ctypes.data % 64 for array in found] == [0] * 8
    assert not any(array.flags.writeable for array in found)
    np.testing.assert_equal(found, arrays)  # also when the archive is closed


def test_a_selector_finds_what_python_finds(tmp_path: Path) -> None:
    chance = random.Random(5)
    objects = [
        (number, {"step": chance.randrange(30), "param": chance.choice(["t", "u", None])}) for number in range(500)
    ]
    path = written(tmp_path, objects, "step:int[0..]! param:enum(t,u)")
    with Archive(path) as archive:
        chosen = [
            each.data
            for each in archive.select("step in 3..27 step 4 and (param = 't' or sys.t < $late)", {"late": 60})
        ]
        assert [each.number for each in archive.select()] == list(range(1, 501))
        assert len(archive) == 500
    expected = [
        number
        for number, own in objects
        if 3 <= own["step"] <= 27 and (own["step"] - 3) % 4 == 0 and (own["param"] == "t" or number / 2 < 60)
    ]
    assert chosen == expected
    assert 0 < len(expected) < 500


def test_a_selector_that_does_not_fit_says_where(tmp_path: Path) -> None:
    with Archive(written(tmp_path, [])) as archive, pytest.raises(ValueError, match="did you mean step") as raised:
        archive.select("stap > 3")
    assert raised.value.args[1:] == (0, 4)


def test_a_selector_that_does_not_fit_is_shown_with_the_place_that_is_wrong(tmp_path: Path) -> None:
    with Archive(written(tmp_path, [])) as archive, pytest.raises(ValueError, match="did you mean step") as raised:
        archive.select("step > 3 and stap < 5")
    problem, *shown = str(raised.value).splitlines()
    assert problem.startswith("there is no attribute 'stap'")
    assert shown == ["step > 3 and stap < 5", "             ^^^^"]


def test_an_archive_that_does_not_exist_is_told_with_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArchiveError) as raised:
        Archive("nothing.archive")
    assert str(raised.value) == f"there is no archive nothing.archive here ({tmp_path}/nothing.archive)"
    with pytest.raises(ArchiveError) as raised:
        Archive(f"{tmp_path}/nothing.archive")
    assert str(raised.value) == f"there is no archive {tmp_path}/nothing.archive"


def test_a_later_run_adds_objects_and_attributes(tmp_path: Path) -> None:
    path = written(tmp_path, [(1, {"step": 1})], "step:int[0..]! level:enum(low)")
    with ArchiveWriter(path) as archive:
        archive.declare("step:int level:enum(high) member:uint")
        archive.append(2, {"step": 2, "level": "high", "member": 5}, {})
    with Archive(path) as archive:
        assert archive.attributes == "step:int level:enum(low,high) member:uint"
        assert [(each.data, each.get("member")) for each in archive] == [(1, None), (2, 5)]
        assert [each.data for each in archive.select("level = 'high'")] == [2]


def test_an_attribute_of_another_type_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [(1, {"step": 1})])
    with (
        ArchiveWriter(path) as archive,
        pytest.raises(ArchiveError, match="holds objects whose step is int, and here it is str"),
    ):
        archive.declare("step:str")


def test_attributes_may_be_called_as_anything_that_sql_or_the_index_has(tmp_path: Path) -> None:
    names = ["Step", "step", "STEP", "id", "select", "first", "segment", "rowid", "oid", "table"]
    own = {name: number for number, name in enumerate(names)}
    path = written(tmp_path, [(None, own)], " ".join(f"{name}:int" for name in names))
    with Archive(path) as archive:
        [found] = archive.select("step = 1 and Step = 0 and rowid = 7")
        assert {name: found[name] for name in names} == own


def test_two_cannot_write_at_the_same_time(tmp_path: Path) -> None:
    path = written(tmp_path, [])
    with ArchiveWriter(path), pytest.raises(ArchiveError, match="is being written by another program"):
        ArchiveWriter(path)
    ArchiveWriter(path).close()


def test_what_was_not_committed_is_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, [(1, {"step": 1})])
    with contextlib.suppress(KeyError), ArchiveWriter(path) as archive:
        archive.append(2, {"step": 2}, {})
        raise KeyError
    with Archive(path) as archive:
        assert [each.data for each in archive] == [1]
        assert list(archive.verify()) == []


def test_who_reads_while_another_writes_sees_what_was_committed(tmp_path: Path) -> None:
    path = written(tmp_path, [(1, {"step": 1})])
    with ArchiveWriter(path) as archive, Archive(path) as reader:
        assert len(reader) == 1
        archive.append(2, {"step": 2}, {})
        assert archive.due_in() is not None
        assert len(reader) == 1
        archive.commit()
        assert archive.due_in() is None
        assert [each.data for each in reader] == [1, 2]


KILLED = """
import sys, numpy as np
from xmml_native.archives.writer import ArchiveWriter
archive = ArchiveWriter(sys.argv[1])
archive.declare("step:int first:int")
first = int(sys.argv[2])
for step in range(10**9):
    archive.append(np.full(500, step), {"step": step, "first": first}, {})
    if step % 7 == 6:
        archive.commit()
        print(step, flush=True)
"""


def test_a_writer_that_is_killed_leaves_whole_transactions_and_everything_that_it_committed(tmp_path: Path) -> None:
    path = str(tmp_path / "objects.archive")
    chance, promised = random.Random(3), {}
    for attempt in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, path, str(attempt)], stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdout is not None
            program.stdout.readline()
            time.sleep(chance.random() / 5)
            program.send_signal(signal.SIGKILL)
            told = program.stdout.read().split()
        promised[attempt] = int(told[-1]) if told else 6
        with Archive(path) as archive:
            assert list(archive.verify()) == []
            for earlier in range(attempt + 1):
                steps = [each["step"] for each in archive.select(f"first = {earlier}")]
                assert steps == list(range(len(steps)))
                assert len(steps) % 7 == 0
                assert len(steps) > promised[earlier]


FULL = """
import resource, sys
from xmml_native.errors import ArchiveError
from xmml_native.archives.writer import ArchiveWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
archive = ArchiveWriter(sys.argv[1])
archive.declare("step:int")
try:
    for step in range(100):
        archive.append(bytes(20_000), {"step": step}, {})
        archive.commit()
except ArchiveError as error:
    print(step, error)
"""


def test_a_full_disk_is_told_and_what_was_committed_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "objects.archive")
    told = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True).stdout
    steps, words = told.split(maxsplit=1)
    assert words.strip() == f"{path} cannot be written: File too large"
    with Archive(path) as archive:
        assert [each["step"] for each in archive] == list(range(int(steps)))
        assert list(archive.verify()) == []
    with ArchiveWriter(path) as archive:
        archive.append(1, {"step": 1000}, {})
    with Archive(path) as archive:
        assert [each.data for each in archive.select("step = 1000")] == [1]


def test_long_archives_have_several_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 10_000)
    path = str(tmp_path / "objects.archive")
    with ArchiveWriter(path) as archive:
        for number in range(20):
            archive.append(bytes([number]) * 3000, {}, {})
            archive.commit()
    assert len(list(Path(path).glob("segment-*"))) == 5
    with Archive(path) as archive:
        assert [each.data[0] for each in archive] == list(range(20))


def test_payloads_that_were_changed_are_found(tmp_path: Path) -> None:
    path = written(tmp_path, [(np.arange(100), {}), (np.arange(100), {})])
    segment = Path(path) / "segment-000001"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    with Archive(path) as archive:
        [problem] = archive.verify()
    assert problem.startswith("object 2: its payload was changed (segment-000001, byte ")


def test_a_segment_that_is_cut_off_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = written(tmp_path, [(np.arange(100), {}), (np.arange(100), {})])
    segment = Path(path) / "segment-000001"
    segment.write_bytes(segment.read_bytes()[:-8])
    with Archive(path) as archive:
        first, second = archive
        assert first.data.sum() == 4950
        with pytest.raises(ArchiveError, match="segment-000001 ends before the object at"):
            _ = second.data
        assert len(list(archive.verify())) == 1
        segment.unlink()
        with Archive(path) as again, pytest.raises(ArchiveError, match=r"segment-000001 cannot be read: No such file"):
            _ = next(iter(again)).data


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("segment", -1),
        ("segment", 2**40),
        ("first", -64),
        ("first", 2**62),
        ("bytes", 2**62),
        ("bytes", 3),
        ("bytes", -1),
    ],
)
def test_an_index_that_lies_is_an_error(tmp_path: Path, column: str, value: int) -> None:
    path = written(tmp_path, [([1, "x", np.arange(9)], {})])
    index = sqlite3.connect(os.path.join(path, "index.sqlite"))
    index.execute(f'UPDATE objects SET "at.{column}" = ?', (value,))
    index.commit()
    index.close()
    with Archive(path) as archive, pytest.raises(ArchiveError):
        _ = next(iter(archive)).data


def test_what_is_no_archive_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"is no archive: it has no index\.sqlite"):
        Archive(str(tmp_path))
    (tmp_path / "index.sqlite").write_text("nothing of the kind, but long enough to be looked at")
    with pytest.raises(ArchiveError, match="is no archive, or cannot be opened"):
        Archive(str(tmp_path))
    with pytest.raises(ArchiveError, match="is no archive, or cannot be opened"):
        ArchiveWriter(str(tmp_path))


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [])
    index = sqlite3.connect(os.path.join(path, "index.sqlite"))
    index.execute("UPDATE archive SET format = 2")
    index.commit()
    index.close()
    with pytest.raises(ArchiveError, match="has the format 2; this version knows 1"):
        Archive(path)


def test_who_reads_slowly_does_not_keep_the_writer_from_writing(tmp_path: Path) -> None:
    path = written(tmp_path, [(number, {"step": number}) for number in range(3)])
    with ArchiveWriter(path) as archive, Archive(path) as reader:
        archive._index.execute("PRAGMA busy_timeout = 200")  # who reads takes longer than the writer waits
        objects = iter(reader)
        assert next(objects)["step"] == 0
        archive.append(3, {"step": 3}, {})
        archive.commit()


def test_a_group_that_goes_on_in_another_segment_becomes_visible_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1000)
    with ArchiveWriter(str(tmp_path)) as archive:
        archive.declare("step:int")
        for follow in (3, 2, 1):
            archive.append(bytes(1000), {"step": 1}, {"sys.group": 0, "sys.follow": follow})
        with Archive(str(tmp_path)) as reader:
            assert len(reader) == 0
        archive.append(bytes(1000), {"step": 1}, {"sys.group": 0, "sys.follow": 0})
        archive.commit()
        with Archive(str(tmp_path)) as reader:
            assert len(reader) == 4


def test_payloads_and_the_name_of_their_segment_are_on_the_disk_before_the_objects_become_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "objects.archive")
    synced = []

    def sync(file: int) -> None:
        with Archive(path) as reader:
            synced.append((os.readlink(f"/proc/self/fd/{file}"), len(reader)))

    with ArchiveWriter(path) as archive:
        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(os, "fdatasync", sync)
        archive.append(1, {}, {})
        assert synced == []
        archive.commit()
        with Archive(path) as reader:
            assert len(reader) == 1
    assert sorted(synced) == [(path, 0), (f"{path}/segment-000001", 0)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at.first", "x"),
        ("at.bytes", b"x"),
        ("sys.shape", "["),
        ("sys.t", "x"),
        ("sys.index", -5),
        ("step", "x"),
        ("when", "x"),
        ("list", "{"),
        ("list", "{}"),
    ],
)
@pytest.mark.parametrize("selector", ["", "step != 2"])
def test_a_value_of_another_type_in_an_index_is_an_error_of_the_archive(
    tmp_path: Path, column: str, value: Any, selector: str
) -> None:
    path = written(tmp_path, [(1, {"step": 1})], "step:int when:time list:int[]")
    with contextlib.closing(sqlite3.connect(os.path.join(path, "index.sqlite"))) as index:
        index.execute(f'UPDATE objects SET "{column}" = ?', (value,))
        index.commit()
    with Archive(path) as archive, pytest.raises(ArchiveError):
        _ = [each.data for each in archive.select(selector)]


def test_a_damaged_index_is_an_error_of_the_archive(tmp_path: Path) -> None:
    path = written(tmp_path, [(number, {"step": number}) for number in range(500)])
    file = Path(path) / "index.sqlite"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"x" * 4096  # a page of rows behind the first
    file.write_bytes(content)
    with Archive(path) as archive, pytest.raises(ArchiveError):
        _ = [each.number for each in archive]


# --- writers that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "system", "problem"),
    [
        ({"stap": 1}, {}, "stap"),
        ({"step": "one"}, {}, "step"),
        ({"step": 1.5}, {}, "step"),
        ({"step": object()}, {}, "step"),
        ({"step": 1}, {"sys.nothing": 1}, "sys.nothing"),
        ({"step": 1}, {"sys.seq": -1}, "sys.seq"),
    ],
)
def test_an_attribute_that_an_object_cannot_have_is_refused_when_it_is_appended(
    tmp_path: Path, own: dict[str, Any], system: dict[str, Any], problem: str
) -> None:
    path = str(tmp_path / "objects.archive")
    with ArchiveWriter(path) as archive:
        archive.declare("step:int")
        with pytest.raises(ArchiveError, match=f"{problem}.*declared are step:int"):
            archive.append(1, own, system)
        archive.append(2, {"step": 2}, {"sys.seq": 0, "sys.index": None, "sys.redelivered": 1})
    with Archive(path) as archive:
        [found] = archive
        assert (found.data, found.attributes) == (2, {"step": 2, "sys.seq": 0, "sys.redelivered": 1})


def test_a_writer_that_failed_takes_nothing_more_and_leaves_no_part_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, [(1, {"step": 1})])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    archive = ArchiveWriter(path)
    archive.append(2, {"step": 2}, {"sys.group": 0, "sys.follow": 1})
    with monkeypatch.context() as patch:
        patch.setattr(module.SegmentAppender, "_room", full)
        with pytest.raises(ArchiveError, match="cannot be written: No space left on device"):
            archive.append(3, {"step": 3}, {"sys.group": 0, "sys.follow": 0})
    for use in (archive.commit, lambda: archive.append(4, {"step": 4}, {})):
        with pytest.raises(ArchiveError, match=r"takes no more objects: .*No space left on device"):
            use()
    assert archive.due_in() is None
    archive.close()
    with Archive(path) as reader:
        assert [each.data for each in reader] == [1]


def test_payloads_before_one_that_was_interrupted_are_synced_before_their_rows_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "objects.archive")
    synced = []
    sync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")) or sync(file))

    class Interrupted:
        """A file whose user presses Ctrl-C while a part is written."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def write(self, data: memoryview) -> int:
            self._file.write(data[:10])
            raise KeyboardInterrupt

    with ArchiveWriter(path) as archive:
        archive.append(1, {}, {})
        archive._segments._file = Interrupted(archive._segments._file)
        with pytest.raises(KeyboardInterrupt):
            archive.append(2, {}, {})
        assert synced == [f"{path}/segment-000001"]
        archive.append(3, {}, {})
    with Archive(path) as reader:
        assert [each.data for each in reader] == [1, 3]
        assert list(reader.verify()) == []


def test_payloads_that_cannot_be_synced_get_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "objects.archive")

    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    archive = ArchiveWriter(path)
    archive.append(1, {}, {})
    monkeypatch.setattr(os, "fdatasync", broken)
    archive._segments._leave_segment()
    with pytest.raises(ArchiveError, match="Input/output error"):
        archive.commit()
    archive.close()
    with Archive(path) as reader:
        assert len(reader) == 0


@contextlib.contextmanager
def kept_from_committing(path: str) -> Iterator[sqlite3.Connection]:
    """Hold the lock of a program that reads the index."""
    with contextlib.closing(sqlite3.connect(os.path.join(path, "index.sqlite"), check_same_thread=False)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM objects").fetchone()
        yield other


def test_a_commit_that_is_kept_waiting_warns_and_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path, [])
    with ArchiveWriter(path) as archive, kept_from_committing(path) as other:
        archive._index.execute("PRAGMA busy_timeout = 50")
        archive.append(1, {"step": 1}, {})
        timer = threading.Timer(0.2, other.rollback)
        timer.start()
        with pytest.warns(UserWarning, match=r"another program that holds a lock of index\.sqlite; the wait goes on"):
            archive.commit()
        timer.join()
    with Archive(path) as reader:
        assert [each.data for each in reader] == [1]


def test_a_commit_that_fails_is_rolled_back_and_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, [])
    monkeypatch.setattr("xmml_native.archives.index._LOCK_WAITS", 1)
    archive = ArchiveWriter(path)
    with kept_from_committing(path):
        archive._index.execute("PRAGMA busy_timeout = 1")
        archive.append(1, {"step": 1}, {})
        with pytest.raises(ArchiveError, match="cannot be written: database is locked"):
            archive.commit()
    with contextlib.closing(sqlite3.connect(os.path.join(path, "index.sqlite"), timeout=0)) as other:
        other.execute("BEGIN EXCLUSIVE")
    archive.close()
    with Archive(path) as reader:
        assert len(reader) == 0


# --- locks ------------------------------------------------------------------------------------------------------------


def test_files_are_locked_for_one_alone_only_where_they_are_open_for_writing_as_nfs_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = []

    def flock(file: int, operation: int) -> None:
        may_write = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        if operation & fcntl.LOCK_EX and not may_write:
            raise OSError(errno.EBADF, "Bad file descriptor")
        locked.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}")))

    monkeypatch.setattr(fcntl, "flock", flock)
    path = written(tmp_path, [(1, {"step": 1})])
    Path(path, "left-overs").touch()
    Path(path, "segment-000009").touch()
    ArchiveWriter(path).close()
    assert not os.path.exists(os.path.join(path, "segment-000009"))
    assert set(locked) == {"lock", "readers"}


def test_a_file_system_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(ArchiveError, match=r"file system has no locks \(No locks available\); write the archive to"):
        ArchiveWriter(str(tmp_path))


def test_what_a_killed_writer_left_keeps_nobody_from_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, [(1, {"step": 1})])
    Path(path, "left-overs").touch()
    Path(path, "segment-000009").touch()

    def refused(_: str, *, dir_fd: int) -> None:
        raise OSError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        with pytest.warns(UserWarning, match="segments in which no object lies stay for now: .*Permission denied"):
            archive = ArchiveWriter(path)
    with archive:
        archive.append(2, {"step": 2}, {})
    with Archive(path) as reader:
        assert [each.data for each in reader] == [1, 2]
    ArchiveWriter(path).close()
    assert not os.path.exists(os.path.join(path, "segment-000009"))


KILLED_WITHIN_A_TRANSACTION = """
import os, sqlite3, sys
index = sqlite3.connect(sys.argv[1], isolation_level=None)
index.execute("PRAGMA cache_size = 1")
index.execute("BEGIN IMMEDIATE")
index.execute("UPDATE objects SET step = step + 1000")
index.execute("CREATE TABLE other AS SELECT * FROM objects a, objects b")
os._exit(0)
"""


def test_half_a_transaction_in_a_folder_that_may_not_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, [(number, {"step": number}) for number in range(300)])
    index = os.path.join(path, "index.sqlite")
    subprocess.run([sys.executable, "-c", KILLED_WITHIN_A_TRANSACTION, index], check=True)
    assert os.path.getsize(f"{index}-journal") > 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        with pytest.raises(ArchiveError, match="left half a transaction in index"):
            Archive(path)
    with Archive(path) as archive:
        assert [each["step"] for each in archive] == list(range(300))


def test_a_reader_that_is_open_when_a_writer_is_killed_within_a_transaction_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path, [(number, {"step": number}) for number in range(300)])
    index = os.path.join(path, "index.sqlite")
    with Archive(path) as archive:
        for _ in range(2):
            subprocess.run([sys.executable, "-c", KILLED_WITHIN_A_TRANSACTION, index], check=True)
            assert os.path.getsize(f"{index}-journal") > 0
            assert [each["step"] for each in archive] == list(range(300))
        assert len(archive) == 300


def test_who_reads_an_index_does_not_write_it(tmp_path: Path) -> None:
    path = written(tmp_path, [(1, {"step": 1})])
    with Archive(path) as archive, pytest.raises(sqlite3.OperationalError, match="readonly"):
        archive._index.execute("DELETE FROM objects")


# --- many segments, and what is wrong with them -----------------------------------------------------------------------


def test_few_segments_stay_mapped_and_arrays_keep_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1)
    monkeypatch.setattr(module, "MOST_MAPPED", 4)
    path = str(tmp_path / "objects.archive")
    with ArchiveWriter(path) as archive:
        for number in range(10):
            archive.append(np.full(5000, number), {}, {})
            archive.commit()

    def mapped() -> int:
        return sum(f"{path}/segment-" in line for line in Path("/proc/self/maps").read_text().splitlines())

    with Archive(path) as archive:
        for each in archive:
            assert each.data[0] == each.number - 1
        assert mapped() == 4
        kept = [each.data for each in archive]
        assert mapped() == 10
        assert [array[-1] for array in kept] == list(range(10))


def test_the_check_of_payloads_goes_on_past_what_cannot_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, [(np.arange(100), {"step": step}) for step in range(5)], "step:int when:time")
    ArchiveWriter(path).close()
    with ArchiveWriter(path) as archive:
        archive.append(1, {"step": 9}, {})
    Path(path, "segment-000002").unlink()
    segment = Path(path) / "segment-000001"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    with contextlib.closing(sqlite3.connect(os.path.join(path, "index.sqlite"))) as index:
        index.execute("UPDATE objects SET \"when\" = 'never' WHERE step = 1")
        index.execute("UPDATE objects SET \"at.first\" = 'x' WHERE step = 2")
        index.commit()
    with Archive(path) as archive:
        found = {problem.number: problem for problem in archive.problems()}
        assert [*archive.verify()] == [problem.text for problem in found.values()]
    assert {number: problem.kind for number, problem in found.items()} == {
        2: "unreadable",
        3: "unreadable",
        5: "changed",
        6: "unreadable",
    }
    assert found[2].text.startswith("object 2 cannot be read: its row in index.sqlite: ")
    assert found[6].text.endswith("segment-000002 cannot be read: No such file or directory")


def test_the_check_of_payloads_goes_on_past_a_damaged_page_of_the_index(tmp_path: Path) -> None:
    path = written(tmp_path, [(number, {"step": number}) for number in range(500)])
    file = Path(path) / "index.sqlite"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"x" * 4096
    file.write_bytes(content)
    with Archive(path) as archive:
        problems = list(archive.problems())
    assert 0 < len(problems) < 500
    assert {problem.kind for problem in problems} == {"unreadable"}


def test_a_selector_of_any_number_of_parts_is_asked(tmp_path: Path) -> None:
    path = written(tmp_path, [(step, {"step": step}) for step in range(10)])
    many = " and ".join([f"step > {-bound}" for bound in range(3000)] + ["step != 4"])
    values = ", ".join(map(str, range(3, 9000)))
    with Archive(path) as archive:
        assert [each.data for each in archive.select(many)] == [1, 2, 3, 5, 6, 7, 8, 9]
        assert [each.data for each in archive.select(f"step in ({values})")] == list(range(3, 10))


# --- what the native library knows ------------------------------------------------------------------------------------


def test_attributes_of_every_object_are_those_of_the_native_library() -> None:
    source = Path(__file__).parents[3] / "native/pool/src/schema.rs"
    table = source.read_text().partition("pub const SYSTEM")[2].partition("];")[0]
    kinds = {"ANY_REAL": "real", "ANY_UINT": "uint", "Type::Text": "str", "Type::Ints(": "int[]"}
    found = {
        name: next(ours for theirs, ours in kinds.items() if kind.startswith(theirs))
        for name, kind in re.findall(r'\("(sys\.\w+)", \w+::\w+, ([\w:]+\(?)', table)
    }
    assert found == SYSTEM
    assert list(found) == list(SYSTEM)


def test_an_archive_of_an_earlier_version_without_an_attribute_of_every_object_is_read_and_written(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, [(1, {"step": 1})])
    with contextlib.closing(sqlite3.connect(os.path.join(path, "index.sqlite"))) as index:
        index.execute('ALTER TABLE objects DROP COLUMN "sys.redelivered"')
        index.execute("DROP TABLE highest")
    with Archive(path) as archive:
        assert [each.data for each in archive.select("step = 1 and sys.seq = 0")] == [1]
        assert list(archive.verify()) == []
    with ArchiveWriter(path) as archive:
        archive.append(2, {"step": 2}, {"sys.redelivered": 2})
    with Archive(path) as archive:
        assert [each.get("sys.redelivered") for each in archive] == [None, 2]
