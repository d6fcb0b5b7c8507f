"""A folder that was opened once, whatever is put in its place later."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xmml_executors.open_folder import OpenFolder


@pytest.fixture
def folder(tmp_path: Path) -> OpenFolder:
    """An open folder, `run`; beside it `precious`, with files of the same names."""
    for name in ("run", "precious"):
        (tmp_path / name / "logs").mkdir(parents=True)
        for file in ("notes", "logs/a"):
            (tmp_path / name / file).write_text(f"of {name}")
    return OpenFolder(tmp_path / "run")


def opened_below(path: Path) -> list[str]:
    """Return what this process has open of a folder and what is in it; other descriptors are none of our business."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sorted(each for each in found if each.startswith(str(path)))


def content(path: Path) -> dict[str, str]:
    """Return the text of every file below a folder."""
    return {str(file.relative_to(path)): file.read_text() for file in sorted(path.rglob("*")) if file.is_file()}


#: What reads and writes, by what it is called with.
USES: dict[str, Callable[[OpenFolder, str], Any]] = {
    "open": lambda folder, name: folder.open(name, os.O_WRONLY | os.O_APPEND),
    "read": lambda folder, name: folder.read(name),
    "write": lambda folder, name: folder.write(name, b"changed"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(("name", "link"), [("notes", "notes"), ("logs/a", "logs/a"), ("logs/a", "logs")])
def test_a_link_is_not_followed_and_named(
    folder: OpenFolder, use: Callable[[OpenFolder, str], Any], name: str, link: str
) -> None:
    precious = folder.path.parent / "precious"
    before = content(precious)
    (folder.path / link).rename(folder.path / "away")
    (folder.path / link).symlink_to(precious / link)
    with pytest.raises(OSError, match="it is a symbolic link, and xMML follows none in the folder of a run") as raised:
        use(folder, name)
    assert raised.value.filename == str(folder.path / link)
    assert content(precious) == before


def test_a_link_that_is_removed_goes_alone(folder: OpenFolder) -> None:
    (folder.path / "link").symlink_to(folder.path.parent / "precious/notes")
    folder.remove("link")
    folder.remove("link")
    assert content(folder.path.parent / "precious")["notes"] == "of precious"
    assert sorted(folder.names()) == ["logs", "notes"]


@pytest.mark.parametrize("has_reader", [False, True])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(folder: OpenFolder, *, has_reader: bool) -> None:
    os.mkfifo(folder.path / "report.html")
    reader = os.open(folder.path / "report.html", os.O_RDONLY | os.O_NONBLOCK) if has_reader else None
    with pytest.raises(OSError, match=r"report\.html"):
        folder.write("report.html", b"content")
    with pytest.raises(OSError, match=r"report\.html"):
        folder.read("report.html")
    if reader is not None:
        os.close(reader)


@pytest.mark.parametrize("name", ["../precious/notes", "logs/../../precious/notes", "/etc/passwd", "logs//a", "."])
def test_a_name_that_leads_elsewhere_is_refused(folder: OpenFolder, name: str) -> None:
    with pytest.raises(OSError, match="it is not a name below the folder of a run"):
        folder.read(name)


def test_files_are_those_of_the_folder_also_after_another_was_put_in_its_place(folder: OpenFolder) -> None:
    moved, precious = folder.path.with_name("moved"), folder.path.parent / "precious"
    folder.path.rename(moved)
    precious.rename(folder.path)
    before = content(folder.path)
    assert folder.read("logs/a") == b"of run"
    folder.write("notes", b"new")
    folder.make_folder("deep/er")
    (folder.lasting_path / "deep/er/file").write_text("written")
    with folder.below("logs") as logs:
        logs.write("b", b"another")
    folder.remove("logs/a")
    assert content(moved) == {"deep/er/file": "written", "logs/b": "another", "notes": "new"}
    assert content(folder.path) == before


def test_a_folder_that_was_moved_is_not_replaced_until_something_else_has_its_path(folder: OpenFolder) -> None:
    assert (folder.is_in_place(), folder.is_replaced()) == (True, False)
    moved = folder.path.rename(folder.path.with_name("moved"))
    assert (folder.is_in_place(), folder.is_replaced()) == (False, False)
    folder.path.symlink_to(moved)
    assert (folder.is_in_place(), folder.is_replaced()) == (True, False)
    folder.path.unlink()
    folder.path.mkdir()
    assert (folder.is_in_place(), folder.is_replaced()) == (False, True)


def test_what_is_made_is_writable_for_the_owner_alone_whatever_the_umask(folder: OpenFolder) -> None:
    before = os.umask(0)
    try:
        folder.make_folder("made/folder")
        folder.write("made/file", b"")
    finally:
        os.umask(before)
    modes = {name: folder.status(name) for name in ("made", "made/folder", "made/file")}
    assert {name: oct(stat.S_IMODE(found.st_mode)) for name, found in modes.items() if found} == {
        "made": "0o755",
        "made/folder": "0o755",
        "made/file": "0o644",
    }


def test_a_file_behind_a_lasting_path_is_named_by_its_path(folder: OpenFolder) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        (folder.lasting_path / "nothing").read_text()
    assert folder.told(raised.value).filename == str(folder.path / "nothing")


def test_a_closed_folder_keeps_no_descriptor(folder: OpenFolder) -> None:
    before = opened_below(folder.path)
    with folder.below("logs") as logs:
        logs.read("a")
        logs.status("nothing")
    with pytest.raises(FileNotFoundError):
        folder.read("nothing/at/all")
    with pytest.raises(OSError, match="not a regular file"):
        folder.read("logs")
    assert opened_below(folder.path) == before
