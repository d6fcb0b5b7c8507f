"""Compacted archives hold what is to stay, and are the old or the new ones whatever fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import written
from xmml_native.archives import segments as archive_segments
from xmml_native.archives.archive import Archive, ArchiveError
from xmml_native.archives.compaction import compact_archive
from xmml_native.archives.writer import ArchiveWriter


def steps(path: str) -> list[int]:
    """Return the steps of the objects, each of which has the payload that it was written with."""
    with Archive(path) as archive:
        assert list(archive.verify()) == []
        found = [(each["step"], each.data) for each in archive]
    assert all((data == step).all() for step, data in found)
    return [step for step, _ in found]


def segments(path: str) -> list[str]:
    return sorted(file.name for file in Path(path).glob("segment-*"))


def of_steps(folder: Path, several: range, size: int = 100, **more: Any) -> str:
    return written(
        folder, [(np.full(size, step), {"step": step, **more}) for step in several], "step:int part:str at:time"
    )


@pytest.mark.parametrize(
    ("chosen", "stay"),
    [
        ({"select": "step % 3 = 0"}, [0, 3, 6, 9]),
        ({"drop": "step % 3 = 0"}, [1, 2, 4, 5, 7, 8]),
        ({"drop": "step >= 0"}, []),
        ({"select": "step >= 0"}, list(range(10))),
        ({}, list(range(10))),
    ],
)
def test_what_is_dropped_is_gone_and_the_rest_stays_in_order(
    tmp_path: Path, chosen: dict[str, Any], stay: list[int]
) -> None:
    path = of_steps(tmp_path, range(10))
    done = compact_archive(path, **chosen)
    assert (done.kept, done.dropped, done.waiting) == (len(stay), 10 - len(stay), 0)
    assert steps(path) == stay
    size = sum(file.stat().st_size for file in Path(path).glob("segment-*"))
    assert size == done.bytes_after
    assert done.bytes_before / 10 * len(stay) * 0.9 <= size <= done.bytes_before / 10 * len(stay) * 1.1
    assert not os.path.exists(os.path.join(path, "left-overs"))


def test_objects_keep_their_numbers_and_arrays_their_alignment(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(10), 5)
    compact_archive(path, drop="step < 7")
    with Archive(path) as archive:
        assert [(each.number, each["step"]) for each in archive] == [(8, 7), (9, 8), (10, 9)]
        assert [each.data.ctypes.data % 64 for each in archive] == [0, 0, 0]


def test_of_objects_that_agree_the_last_stays(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(3), part="a")
    of_steps(tmp_path, range(1, 5), part="b")
    of_steps(tmp_path, range(9, 10))
    of_steps(tmp_path, range(9, 10))
    assert steps(path) == [0, 1, 2, 1, 2, 3, 4, 9, 9]
    compact_archive(path, last_of=["step", "part"])
    assert steps(path) == [0, 1, 2, 1, 2, 3, 4, 9]
    compact_archive(path, last_of=["step"])
    assert steps(path) == [0, 1, 2, 3, 4, 9]
    with Archive(path) as archive:
        assert [each.get("part") for each in archive] == ["a", "b", "b", "b", "b", None]
    with pytest.raises(ArchiveError, match="there is no attribute 'stap'"):
        compact_archive(path, last_of=["stap"])


def test_what_a_writer_had_begun_is_given_back(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(3))
    archive = ArchiveWriter(path)
    archive.append(np.zeros(10_000), {"step": 9}, {})
    archive._let_go()  # as if it were killed
    archive = ArchiveWriter(path)
    archive.append(np.full(9, 3), {"step": 3}, {})
    archive.commit()
    archive.append(np.zeros(10_000), {"step": 9}, {})
    archive._let_go()
    assert segments(path) == ["segment-000001", "segment-000002", "segment-000003"]
    compact_archive(path)
    assert steps(path) == [0, 1, 2, 3]
    assert segments(path) == ["segment-000001", "segment-000004"]


def test_segments_of_which_everything_stays_are_left_alone(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(3))
    of_steps(tmp_path, range(3, 6))
    first = Path(path, "segment-000001").stat()
    compact_archive(path, drop="step = 4")
    assert segments(path) == ["segment-000001", "segment-000003"]
    assert Path(path, "segment-000001").stat() == first


def test_long_segments_are_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_segments, "SEGMENT_BYTES", 2000)
    monkeypatch.setattr("xmml_native.archives.compaction.MOST_BYTES", 1000)
    path = of_steps(tmp_path, range(12))
    compact_archive(path, drop="step < 2")
    assert steps(path) == list(range(2, 12))
    assert segments(path) == ["segment-000002", "segment-000003", "segment-000004"]


def test_who_reads_goes_on_and_what_it_needs_is_removed_when_it_has_closed_the_archive(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(10))
    with Archive(path) as reader:
        objects = list(reader)
        going_on = iter(reader)
        next(going_on)
        done = compact_archive(path, drop="step < 5")
        assert done.waiting == 1
        assert segments(path) == ["segment-000001", "segment-000002"]
        assert [int(each.data[0]) for each in objects] == list(range(10))
        assert [int(each.data[0]) for each in going_on] == list(range(1, 10))
        assert [each["step"] for each in reader] == [5, 6, 7, 8, 9]
        ArchiveWriter(path).close()
        assert len(segments(path)) == 2
    ArchiveWriter(path).close()
    assert segments(path) == ["segment-000002"]
    assert steps(path) == [5, 6, 7, 8, 9]


def test_a_reader_of_another_process_goes_on(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(10))
    program = (
        "import sys; from xmml import Archive; archive = Archive(sys.argv[1]); found = list(archive);"
        "print(flush=True); input(); print([int(each.data[0]) for each in found])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        assert compact_archive(path, drop="step < 5").waiting == 1
        told, _ = reader.communicate("\n")
    assert told == f"{list(range(10))}\n"
    assert compact_archive(path).waiting == 0
    assert segments(path) == ["segment-000002"]


def test_an_archive_that_is_being_written_is_refused_by_name(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(3))
    with ArchiveWriter(path), pytest.raises(ArchiveError, match=f"{path} is being written by another program"):
        compact_archive(path)
    assert steps(path) == [0, 1, 2]


def test_what_is_no_archive_is_not_touched(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is no archive"):
        compact_archive(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_is_no_selector_changes_nothing(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(3))
    with pytest.raises(ValueError, match="did you mean step"):
        compact_archive(path, drop="stap = 1")
    assert steps(path) == [0, 1, 2]


def test_a_payload_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(3))
    segment = Path(path, "segment-000001")
    segment.write_bytes(segment.read_bytes()[:-8])
    with pytest.raises(ArchiveError, match="segment-000001 ends before the object"):
        compact_archive(path, drop="step = 0")
    assert segments(path) == ["segment-000001"]
    with Archive(path) as archive:
        assert len(archive) == 3
    compact_archive(path, drop="step = 2")
    assert steps(path) == [0, 1]


def test_payloads_that_were_changed_before_are_still_told(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(3))
    segment = Path(path, "segment-000001")
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    compact_archive(path, drop="step = 0")
    with Archive(path) as archive:
        assert [problem.partition(":")[0] for problem in archive.verify()] == ["object 3"]


KILLED = """
import os, shutil, signal, sys
from xmml_native.archives.archive import Archive
from xmml_native.archives.writer import ArchiveWriter
from xmml_native.archives.compaction import compact_archive

path, copy = sys.argv[1:3]
moments = {"write", "fsync", "fdatasync", "execute", "executemany", "open", "unlink", "close"}

def killed_at(moment):
    "Compact a copy in a process that is killed before its system call or statement of that number; return its status."
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    process = os.fork()
    if process == 0:
        passed = 0
        def count(_, event, function):
            nonlocal passed
            if event == "c_call" and getattr(function, "__name__", "") in moments:
                if passed == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
                passed += 1
        sys.setprofile(count)
        compact_archive(copy, drop="step < 3")
        sys.setprofile(None)
        os._exit(0)
    return os.waitpid(process, 0)[1]

moment, status = 0, signal.SIGKILL
while status:
    status = killed_at(moment)
    assert status in (0, signal.SIGKILL), status
    with Archive(copy) as archive:
        problems = list(archive.verify())
        steps = [each["step"] for each in archive if (each.data == each["step"]).all()]
    ArchiveWriter(copy).close()
    with Archive(copy) as archive:
        again = [each["step"] for each in archive if (each.data == each["step"]).all()]
        used = sorted(row[0] for row in archive._query('SELECT DISTINCT "at.segment" FROM objects'))
    segments = sorted(int(name[8:]) for name in os.listdir(copy) if name.startswith("segment-"))
    print(moment, problems, steps == again, segments == used, steps, sep=";")
    moment += 1
"""


def test_killed_at_any_moment_there_is_the_old_archive_or_the_new_one(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(6), 50)
    program = [sys.executable, "-c", KILLED, path, str(tmp_path / "copy")]
    told = subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()
    found = []
    for line in told:
        moment, problems, stays, is_tidy, steps_there = line.split(";")
        assert (problems, stays, is_tidy) == ("[]", "True", "True"), f"killed at moment {moment}"
        found.append(steps_there)
    old, new = "[0, 1, 2, 3, 4, 5]", "[3, 4, 5]"
    assert set(found) == {old, new}
    assert found == sorted(found)  # once it is the new one, it stays so
    assert found.count(old) > 10
    assert found.count(new) > 3


FULL = """
import resource, sys
from xmml_native.archives.archive import ArchiveError
from xmml_native.archives.compaction import compact_archive
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    compact_archive(sys.argv[1], drop="step = 0")
except ArchiveError as error:
    print(error)
"""


def test_a_full_disk_is_told_and_leaves_the_archive_as_it_was(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(30), 1000)
    told = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True).stdout
    assert told.strip() == f"{path} cannot be written: File too large"
    assert steps(path) == list(range(30))
    assert segments(path) == ["segment-000001"]
    compact_archive(path, drop="step = 0")
    assert steps(path) == list(range(1, 30))


@pytest.mark.parametrize("chosen", [{"drop": ""}, {"drop": " \n"}, {"select": ""}, {"select": " "}])
def test_a_selector_that_is_empty_is_refused_and_drops_nothing(tmp_path: Path, chosen: dict[str, Any]) -> None:
    path = of_steps(tmp_path, range(3))
    with pytest.raises(ArchiveError, match=r"is empty, and would choose every object of .*, or leave the selector out"):
        compact_archive(path, **chosen)
    assert steps(path) == [0, 1, 2]


def test_numbers_of_objects_and_segments_that_were_dropped_are_not_used_again(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(3))
    compact_archive(path, drop="step = 2")
    of_steps(tmp_path, range(5, 6))
    with Archive(path) as archive:
        assert [(each.number, each["step"]) for each in archive] == [(1, 0), (2, 1), (4, 5)]
    compact_archive(path, drop="step >= 0")
    assert segments(path) == []
    of_steps(tmp_path, range(7, 8))
    with Archive(path) as archive:
        assert [(each.number, each["step"]) for each in archive] == [(5, 7)]
    assert segments(path) == ["segment-000004"]


def test_an_archive_is_compacted_although_segments_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of_steps(tmp_path, range(3))

    def refused(_: str, *, dir_fd: int) -> None:
        raise OSError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        with pytest.warns(UserWarning, match="stay for now: .*Permission denied"):
            done = compact_archive(path, drop="step = 0")
    assert (done.kept, done.dropped, done.waiting) == (2, 1, 1)
    assert steps(path) == [1, 2]
    ArchiveWriter(path).close()
    assert segments(path) == ["segment-000002"]


def test_the_index_gives_back_the_room_of_rows_that_were_dropped(tmp_path: Path) -> None:
    path = of_steps(tmp_path, range(2000), 1)
    before = os.path.getsize(os.path.join(path, "index.sqlite"))
    compact_archive(path, drop="step > 20")
    assert os.path.getsize(os.path.join(path, "index.sqlite")) < before / 3
