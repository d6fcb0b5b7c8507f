"""What is found to be copied, and what is believed of a listing."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from xmml_sites.transfer.listing import Entry, Found, Kind, LeftOut, entry_from, listing, values_of


def paths(*sources: Path) -> list[str]:
    return [found.entry.path for found in listing(sources) if isinstance(found, Found)]


def test_folders_come_before_what_is_in_them_and_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("f/b", "f/a/2", "f/a/1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert paths(tmp_path / "f") == ["f", "f/a", "f/a/1", "f/a/2", "f/b"]


def test_a_link_is_copied_as_a_link_but_followed_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "link").symlink_to("nowhere")
    (tmp_path / "latest").symlink_to("f")
    entries = [found.entry for found in listing([tmp_path / "latest"]) if isinstance(found, Found)]
    assert [(entry.path, entry.kind, entry.link) for entry in entries] == [
        ("latest", Kind.FOLDER, ""),
        ("latest/link", Kind.LINK, "nowhere"),
    ]


def test_what_cannot_be_copied_is_left_out_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "f" / "socket"))
        found = list(listing([tmp_path / "f", tmp_path / "missing"]))
    reasons = {each.path: each.reason for each in found if isinstance(each, LeftOut)}
    assert reasons == {
        str(tmp_path / "f" / "socket"): "it is neither a file nor a folder nor a link",
        str(tmp_path / "missing"): "No such file or directory",
    }


def test_names_need_not_be_text(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / os.fsdecode(b"\xff\n")).touch()
    assert paths(tmp_path / "f") == ["f", "f/" + os.fsdecode(b"\xff\n")]


def test_folders_may_lie_very_deep_in_each_other(tmp_path: Path) -> None:
    top, depth = str(tmp_path / "f"), 1100
    folders = [top + "/d" * level for level in range(depth + 1)]
    for folder in folders:
        os.mkdir(folder)
    assert len(paths(Path(top))) == depth + 1
    for folder in reversed(folders):  # shutil.rmtree, which pytest uses, cannot
        os.rmdir(folder)


def test_an_entry_survives_its_journey() -> None:
    entry = Entry("a/b", Kind.LINK, 0, 0o777, 12345, "../c")
    assert entry_from(values_of(entry)) == entry


@pytest.mark.parametrize("path", ["", "/etc/passwd", "a/../../b", "..", "a//b", "a/.", "a\0b", "x" * 5000])
def test_a_path_that_could_lead_out_of_the_target_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="listing"):
        entry_from([path, 0, 1, 0o644, 0, ""])


@pytest.mark.parametrize(
    "values",
    [None, [], ["a", 0, 1, 0, 0], ["a", 7, 1, 0, 0, ""], ["a", 0, -1, 0, 0, ""], ["a", 0, 1, 0o70000, 0, ""]],
)
def test_impossible_values_are_refused(values: object) -> None:
    with pytest.raises(ValueError, match="listing"):
        entry_from(values)
