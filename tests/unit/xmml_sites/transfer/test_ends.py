"""What a source and a target do together."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from copied_tree import content
from copy_ends import Copied, copied
from copy_messages import MOST_DATA_B, PART_SUFFIX, RANGE_B, FileMessage, read, written
from waiting import LIMIT_S
from xmml_sites.transfer.ends import give
from xmml_sites.transfer.message_stream import ConnectionBroken, PeerFailed
from xmml_sites.transfer.messages import Malformed
from xmml_sites.transfer.progress import NoProgress, Report

#: Copies to a disk that is too small, then again when it is larger.
FULL = """
import subprocess, sys
sys.path[:] = sys.argv[2:]
from pathlib import Path
from copy_ends import copied

folder = Path(sys.argv[1])
first = copied([folder / "file"], f"{folder}/disk/copy").source
print(type(first).__name__, first)
# With none of its present options: one names the owner, by a number that a namespace of one user does not know.
larger = ["mount", "--options-mode", "ignore", "-o", "remount,size=8m", "none", f"{folder}/disk"]
subprocess.run(larger, check=True)
second = copied([folder / "file"], f"{folder}/disk/copy")
print(second.sent_b, (folder / "disk/copy").read_bytes() == (folder / "file").read_bytes())
"""


class Shown(NoProgress):
    """What progress was told: what there is, then the sum of what stands."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.standing_b = 0
        self.has_compared = False

    def total(self, files: int, size_b: int) -> None:
        self.told = [(files, size_b), 0]

    def advanced(self, size_b: int) -> None:
        self.standing_b += size_b
        self.told[1] = self.standing_b

    def compared(self) -> None:
        self.has_compared = True


def clean(result: Copied) -> bool:
    return (
        isinstance(result.source, Report)
        and isinstance(result.target, Report)
        and not result.source.failed
        and not result.target.failed
    )


def test_content_modes_times_and_links_are_the_same_afterwards(tree: Path, tmp_path: Path) -> None:
    result = copied([tree], str(tmp_path / "copy"))
    assert clean(result)
    assert content(tmp_path / "copy") == content(tree)
    assert result.sent_b == result.source.size_b == result.target.size_b
    assert result.source.files == 304


def test_what_was_asked_for_comes_and_nothing_beside_it(tree: Path, tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("echo owned\n")
    (tmp_path / "there").mkdir()
    both = copied([tree, tmp_path / ".profile"], str(tmp_path / "there"), asked=[f"somewhere/{tree.name}/"])
    assert isinstance(both.target, Malformed)
    assert "nobody has asked for" in str(both.target)
    assert not (tmp_path / "there/.profile").exists()
    assert clean(copied([tree], str(tmp_path / "there"), asked=[f"somewhere/{tree.name}/"]))
    assert content(tmp_path / "there" / tree.name) == content(tree)


def test_a_folder_whose_name_the_host_alone_knows_comes_under_one_name_that_is_not_hidden(
    tree: Path, tmp_path: Path
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "there").mkdir()
    assert clean(copied([tree], str(tmp_path / "there"), asked=["."]))
    assert isinstance(copied([tree, tree / "a"], str(tmp_path / "there"), asked=["~"]).target, Malformed)
    assert isinstance(copied([tmp_path / ".ssh"], str(tmp_path / "there"), asked=["~/.."]).target, Malformed)
    assert sorted(os.listdir(tmp_path / "there")) == [tree.name]


def test_small_files_travel_together(tree: Path, tmp_path: Path) -> None:
    result = copied([tree], str(tmp_path / "copy"))
    assert sum(kind == FileMessage.CHUNK for kind, _ in result.said) < 100


def test_a_folder_that_exists_is_copied_into_and_what_stands_there_is_not_sent_again(
    tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    copied([tree], str(tmp_path / "there"))
    second = copied([tree], str(tmp_path / "there"))
    assert second.sent_b == 0
    assert second.source.untouched == second.source.files
    assert content(tmp_path / "there" / "tree") == content(tree)


def test_several_sources_go_into_a_folder_that_is_made(tree: Path, tmp_path: Path) -> None:
    assert clean(copied([tree / "a", tree / "b"], str(tmp_path / "new" / "folder")))
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["a", "b"]


def test_of_a_changed_file_only_the_ranges_that_differ_travel(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(5 * RANGE_B + 10))
    copied([tmp_path / "file"], str(tmp_path / "copy"))
    with (tmp_path / "file").open("r+b") as file:
        file.seek(2 * RANGE_B + 7)
        file.write(b"changed")
    result = copied([tmp_path / "file"], str(tmp_path / "copy"))
    assert result.sent_b == RANGE_B
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()


def test_a_file_whose_name_a_folder_has_at_the_target_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / "there/a").mkdir(parents=True)
    result = copied([tmp_path / "a", tmp_path / "b"], str(tmp_path / "there"))
    assert isinstance(result.source, Report)
    assert result.source.failed == [("a", "a folder has this name at the target")]
    assert result.sent_b == len(b"content")
    assert (tmp_path / "there/b").read_bytes() == b"content"


def test_a_file_that_has_become_shorter_is_shorter_at_the_target(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(3 * RANGE_B))
    copied([tmp_path / "file"], str(tmp_path / "copy"))
    (tmp_path / "file").write_bytes(bytes(RANGE_B))
    assert clean(copied([tmp_path / "file"], str(tmp_path / "copy")))
    assert (tmp_path / "copy").read_bytes() == bytes(RANGE_B)


def test_compare_finds_what_size_and_time_do_not_show(tmp_path: Path) -> None:
    for name, data in (("file", b"right"), ("copy", b"wrong")):
        (tmp_path / name).write_bytes(data)
        os.utime(tmp_path / name, ns=(1, 1))
    assert copied([tmp_path / "file"], str(tmp_path / "copy")).sent_b == 0
    assert copied([tmp_path / "file"], str(tmp_path / "copy"), compare=True).sent_b == 5
    assert (tmp_path / "copy").read_bytes() == b"right"


def test_an_interrupted_copy_goes_on_where_it_stopped(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(6 * MOST_DATA_B))
    count = 0

    def cut(message: bytes) -> bytes:
        nonlocal count
        count += read(message)[0] == FileMessage.CHUNK
        if count == 4:
            raise ConnectionBroken("cut by the test")
        return message

    first = copied([tmp_path / "file"], str(tmp_path / "copy"), change=cut)
    assert isinstance(first.source, ConnectionBroken)
    assert isinstance(first.target, ConnectionBroken)
    assert not (tmp_path / "copy").exists()
    assert (tmp_path / f".copy{PART_SUFFIX}").exists()
    second = copied([tmp_path / "file"], str(tmp_path / "copy"))
    assert clean(second)
    assert second.sent_b == 3 * MOST_DATA_B
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()
    assert not (tmp_path / f".copy{PART_SUFFIX}").exists()


def altering(times: int) -> Callable[[bytes], bytes]:
    """Turns a bit of the files' bytes in the first messages that have any."""

    def change(message: bytes) -> bytes:
        nonlocal times
        kind, values = read(message)
        if kind != FileMessage.CHUNK or not values[1] or times == 0:
            return message
        times -= 1
        data = bytearray(values[1])
        data[len(data) // 2] ^= 1
        return written(kind, values[0], bytes(data), values[2])

    return change


def test_bytes_that_come_altered_are_asked_for_again(tree: Path, tmp_path: Path) -> None:
    assert clean(copied([tree / "below" / "d"], str(tmp_path / "copy"), change=altering(2)))
    assert (tmp_path / "copy").read_bytes() == (tree / "below" / "d").read_bytes()


@pytest.mark.parametrize(("held", "altered"), [(FileMessage.STORED, 0), (FileMessage.AGAIN, 2)])
def test_the_source_says_that_it_has_finished_without_waiting_for_answers(
    tree: Path, tmp_path: Path, held: FileMessage, altered: int
) -> None:
    finished, had_finished, alter = threading.Event(), list[bool](), altering(altered)

    def watch(message: bytes) -> bytes:
        if read(message)[0] == FileMessage.FINISHED:
            finished.set()
        return alter(message)

    def hold(message: bytes) -> bytes:
        if read(message)[0] == held:
            had_finished.append(finished.wait(LIMIT_S))
        return message

    result = copied([tree / "below" / "d"], str(tmp_path / "copy"), change=watch, change_answers=hold)
    assert clean(result)
    assert had_finished
    assert all(had_finished)
    assert (tmp_path / "copy").read_bytes() == (tree / "below" / "d").read_bytes()
    assert sum(kind == FileMessage.FINISHED for kind, _ in result.said) == (2 if altered else 1)


def test_a_file_that_comes_altered_every_time_fails_and_the_rest_does_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    result = copied([tmp_path / "file"], str(tmp_path / "copy"), change=altering(-1))
    assert "altered 3 times" in result.source.failed[0][1]
    assert result.target.failed == result.source.failed
    assert not (tmp_path / "copy").exists()


def test_a_file_that_changes_meanwhile_is_told_and_does_not_replace_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(3 * MOST_DATA_B))
    (tmp_path / "copy").write_bytes(b"old")

    def touch(message: bytes) -> bytes:
        if read(message)[0] == FileMessage.CHUNK:
            os.utime(tmp_path / "file", ns=(5, 5))
        return message

    result = copied([tmp_path / "file"], str(tmp_path / "copy"), change=touch)
    assert [(path, "changed" in reason) for path, reason in result.source.failed] == [("file", True)]
    assert result.target.failed == result.source.failed
    assert (tmp_path / "copy").read_bytes() == b"old"


def test_a_folder_is_not_replaced_by_a_file_nor_a_file_by_a_folder(tmp_path: Path) -> None:
    for folder in ("from/x", "from/z", "to/from/y"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("from/y", "from/z/in", "to/from/x"):
        (tmp_path / file).write_text(file)
    result = copied([tmp_path / "from"], str(tmp_path / "to"))
    assert {path for path, _ in result.source.failed} == {"from/x", "from/y"}
    assert (tmp_path / "to" / "from" / "z" / "in").read_text() == "from/z/in"
    assert (tmp_path / "to" / "from" / "x").read_text() == "to/from/x"


def test_links_at_the_target_are_never_followed(tmp_path: Path) -> None:
    (tmp_path / "from" / "below").mkdir(parents=True)
    (tmp_path / "from" / "below" / "file").write_text("new")
    (tmp_path / "outside").mkdir()
    (tmp_path / "to" / "from").mkdir(parents=True)
    (tmp_path / "to" / "from" / "below").symlink_to(tmp_path / "outside")
    result = copied([tmp_path / "from"], str(tmp_path / "to"))
    assert "from/below/file" in {path for path, _ in result.source.failed}
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_link_that_is_named_is_followed_at_both_sides(tree: Path, tmp_path: Path, slash: str) -> None:
    (tmp_path / "latest").symlink_to(tree)
    (tmp_path / "outside").mkdir()
    (tmp_path / "to").symlink_to("outside")
    assert clean(copied([tmp_path / "latest"], f"{tmp_path}/to{slash}", asked=["latest"]))
    assert content(tmp_path / "outside/latest") == content(tree)
    assert (tmp_path / "to").is_symlink()


@pytest.mark.parametrize("name", ["new", "folder"])
def test_what_was_asked_for_is_never_made_a_link(tmp_path: Path, name: str) -> None:
    """The next copy to the same place would follow it."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "to/folder").mkdir(parents=True)

    def give_a_link(message: bytes) -> bytes:
        kind, values = read(message)
        if kind == FileMessage.ENTRIES:
            values[1] = [["lib", 2, 0, 0o777, 0, str(tmp_path)]]
        return written(kind, *values)

    result = copied([tmp_path / "lib"], f"{tmp_path}/to/{name}", change=give_a_link, asked=["lib"])
    assert isinstance(result.target, Malformed)
    assert "symbolic link" in str(result.target)
    assert [str(path.relative_to(tmp_path)) for path in (tmp_path / "to").rglob("*")] == ["to/folder"]


def test_a_listing_that_leads_out_of_the_target_stops_the_copy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("evil")
    (tmp_path / "to").mkdir()

    def lead_out(message: bytes) -> bytes:
        kind, values = read(message)
        if kind == FileMessage.ENTRIES:
            values[1][0][0] = "../evil"
        return written(kind, *values)

    result = copied([tmp_path / "file"], str(tmp_path / "to"), change=lead_out)
    assert isinstance(result.source, PeerFailed)
    assert "lead out" in str(result.source)
    assert not (tmp_path / "evil").exists()


class LeftTarget:
    """The connection to a target that has said why it stops and has closed it; the word arrives after a send failed."""

    def __init__(self, words: list[bytes]) -> None:
        self._words, self._has_failed = words, threading.Event()

    def send(self, message: bytes) -> None:
        self._has_failed.set()
        raise ConnectionBroken("Broken pipe")

    def receive(self) -> bytes:
        self._has_failed.wait(LIMIT_S)
        if self._words:
            return self._words.pop(0)
        raise ConnectionBroken("the end")

    def close(self) -> None: ...

    def leave(self) -> None: ...


def test_why_the_target_stopped_is_told_although_nothing_could_be_sent_to_it_any_more(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    left = LeftTarget([written(FileMessage.STOPPED, "the disk is full")])
    with pytest.raises(PeerFailed, match="the disk is full"):
        give(left, [tmp_path / "file"], NoProgress())


def test_a_target_that_leaves_without_a_word_is_a_broken_connection(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    with pytest.raises(ConnectionBroken):
        give(LeftTarget([]), [tmp_path / "file"], NoProgress())


def test_a_full_disk_stops_the_copy_with_words_and_keeps_what_came(tmp_path: Path) -> None:
    """In a mount namespace of its own, with a disk that is made larger for the second attempt."""
    (tmp_path / "file").write_bytes(os.urandom(3 * RANGE_B))
    (tmp_path / "disk").mkdir()
    begin = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size={5 * RANGE_B // 2} none '{tmp_path}/disk' && exec \"$@\""
    if subprocess.run([*begin, mount, "sh", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mount namespaces are not permitted here")
    program = [sys.executable, "-c", FULL, str(tmp_path), *sys.path]
    done = subprocess.run([*begin, mount, "sh", *program], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stdout.splitlines() == [
        "PeerFailed file: No space left on device; make room and copy again: what has come is kept",
        f"{RANGE_B} True",
    ], done.stderr


def test_long_names_have_a_provisional_name_as_well(tmp_path: Path) -> None:
    name = "n" * 255
    (tmp_path / "to").mkdir()
    (tmp_path / name).write_text("x")
    assert clean(copied([tmp_path / name], str(tmp_path / "to")))
    assert os.listdir(tmp_path / "to") == [name]


def test_a_file_that_stands_has_no_second_copy_of_an_interrupted_attempt_beside_it(tmp_path: Path) -> None:
    for name in ("file", "copy"):
        (tmp_path / name).write_bytes(b"data")
        os.utime(tmp_path / name, ns=(1, 1))
    part = tmp_path / f".copy{PART_SUFFIX}"
    part.write_bytes(b"da")
    result = copied([tmp_path / "file"], str(tmp_path / "copy"))
    assert clean(result)
    assert (result.source.untouched, part.exists()) == (1, False)


def test_a_link_takes_the_place_of_what_an_interrupted_attempt_has_left(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "link").symlink_to("elsewhere")
    (tmp_path / "to" / "from").mkdir(parents=True)
    (tmp_path / "to" / "from" / f".link{PART_SUFFIX}").symlink_to("older")
    assert clean(copied([tmp_path / "from"], str(tmp_path / "to")))
    assert content(tmp_path / "to" / "from") == content(tmp_path / "from")


def test_a_file_that_has_only_another_mode_gets_the_mode_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    copied([tmp_path / "file"], str(tmp_path / "copy"))
    (tmp_path / "file").chmod(0o640)
    result = copied([tmp_path / "file"], str(tmp_path / "copy"))
    assert (result.sent_b, (tmp_path / "copy").stat().st_mode & 0o777) == (0, 0o640)


def test_a_file_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(3 * MOST_DATA_B))
    (tmp_path / f".copy{PART_SUFFIX}").mkdir()
    result = copied([tmp_path / "file"], str(tmp_path / "copy"))
    assert isinstance(result.source, Report)
    assert result.source.failed == [("file", "at the target: Is a directory")]


def test_two_copies_of_a_file_at_once_do_not_take_from_each_other(tmp_path: Path) -> None:
    """Both begin with the older version of the file, before either has written anything."""
    data = os.urandom(3 * MOST_DATA_B)
    (tmp_path / "file").write_bytes(data)
    (tmp_path / "copy").write_bytes(data[:MOST_DATA_B] + os.urandom(2 * MOST_DATA_B))
    both = threading.Barrier(2)

    def wait_for_the_other(message: bytes) -> bytes:
        if read(message)[0] == FileMessage.HAVE:
            both.wait(LIMIT_S)
        return message

    results: list[Copied] = []

    def copy() -> None:
        results.append(copied([tmp_path / "file"], str(tmp_path / "copy"), change_answers=wait_for_the_other))

    copying = [threading.Thread(target=copy) for _ in range(2)]
    for each in copying:
        each.start()
    for each in copying:
        each.join(LIMIT_S)
    assert [clean(result) for result in results] == [True, True], results
    assert (tmp_path / "copy").read_bytes() == data
    assert not (tmp_path / f".copy{PART_SUFFIX}").exists()


def test_progress_is_told_in_the_end_of_all_that_stands(tree: Path, tmp_path: Path) -> None:
    shown = Shown()
    result = copied([tree], str(tmp_path / "copy"), progress=shown)
    assert isinstance(result.target, Report)
    assert shown.told == [(result.target.files, result.target.size_b), result.target.size_b]


def test_progress_is_told_that_what_stands_is_compared(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10_000))
    told = []
    for earlier in (None, bytes(10_000)):
        if earlier is not None:
            (tmp_path / "copy").write_bytes(earlier)
        copied([tmp_path / "file"], str(tmp_path / "copy"), compare=True, progress=(shown := Shown()))
        told.append(shown.has_compared)
    assert told == [False, True]
