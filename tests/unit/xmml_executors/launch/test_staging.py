"""Which files of a model's folder are brought to a site."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from bounds import bounded_time
from copy_messages import RANGE_B
from waiting import LIMIT_S
from xmml_executors.launch.site.staging import MODEL, Wanted, hash_files_in_thread, matching_files
from xmml_executors.outcome import SiteError
from xmml_native import mto
from xmml_sites.program import command_at
from xmml_sites.ssh import RemoteFileError
from xmml_sites.ssh.channel import CommandChannel
from xmml_sites.ssh.conversation import Conversation
from xmml_sites.ssh.local import LocalTransport
from xmml_sites.transfer.site_files import MORE_CHANNELS, WIDE_B
from xmml_sites.transfer.staging import stage


def test_the_whole_folder_of_a_model_is_without_the_folders_of_runs_that_were_put_there(tmp_path: Path) -> None:
    for name in ("model.xmml", "mesh/plan.json", "out/plan.json", "out/events.jsonl", "out/instances/a/stdout"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = [str(path.relative_to(tmp_path)) for path in matching_files(tmp_path, [Wanted(".")])]
    assert found == ["model.xmml", "mesh/plan.json"]


def test_of_a_whole_folder_what_builds_have_made_is_not_staged_but_what_is_named_is(tmp_path: Path) -> None:
    for name in ("flow.c", "flow", "parts/flow.o"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    made = {"flow", "parts/flow.o"}
    assert [path.name for path in matching_files(tmp_path, [Wanted(".")], made)] == ["flow.c"]
    assert [path.name for path in matching_files(tmp_path, [Wanted("."), Wanted("flow")], made)] == ["flow.c", "flow"]
    assert [path.name for path in matching_files(tmp_path, [Wanted("."), Wanted("parts")], made)] == [
        "flow.c",
        "flow.o",
    ]


def names_below(folder: Path, *wanted: Wanted) -> list[str]:
    return [str(path.relative_to(folder)) for path in matching_files(folder, wanted)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("data/big.nc", "data/small.nc", "film.mp4", "flow.py", "raw/a.nc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def test_what_the_ignore_file_names_is_not_staged(data: Path) -> None:
    (data / ".xmmlignore").write_text("# films\n*.mp4\nraw/\n.xmmlignore\n")
    assert names_below(data, Wanted(".")) == ["flow.py", "data/big.nc", "data/small.nc"]


@pytest.mark.parametrize("where", [".xmmlignore", "run:stage-exclude"])
def test_a_pattern_with_many_stars_is_tried_at_once(tmp_path: Path, where: str) -> None:
    pattern, long = "a*" * 30 + "b", "a" * 200
    (tmp_path / long).touch()
    (tmp_path / f"{long}b").touch()
    if where == ".xmmlignore":
        (tmp_path / where).write_text(f"{pattern}\n.xmmlignore\n")
    exclude = (pattern,) if where == "run:stage-exclude" else ()
    with bounded_time():
        found = list(matching_files(tmp_path, [Wanted(".", exclude)]))
    assert [each.name for each in found] == [long]


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("a*b*c", ["abc", "a_b_c", "abcbc", "in/a-b-c"]),
        ("a*[bc]*d", ["acd", "a-b-d"]),
        ("*\\**\\[*", ["*[", "a*b[c"]),
        ("*.tar.*", ["x.tar.gz", "x.tar.tar.gz"]),
        ("in/*a*a/", ["in/aa/x", "in/_a_a/x"]),
        ("**/a*b*/c", ["ab/c", "in/a-b-/c"]),
        ("a?*b*c", ["axbc", "axxbxc"]),
    ],
)
def test_names_match_patterns_as_git_has_it(tmp_path: Path, pattern: str, named: list[str]) -> None:
    others = ["b", "in/ab", "ac", "x.tar", "aa", "in/a"]
    for each in (*named, *others):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    found = {str(each.relative_to(tmp_path)) for each in matching_files(tmp_path, [Wanted(".", (pattern,))])}
    assert found == set(others)


def test_a_pattern_with_too_many_folders_of_any_depth_is_refused(data: Path) -> None:
    (data / ".xmmlignore").write_text("**/a/" * 4 + "b\n")
    with pytest.raises(SiteError, match=r"has more than 3 \*\*"):
        list(matching_files(data, [Wanted(".")]))


def test_what_no_instance_needs_is_not_staged(data: Path) -> None:
    assert names_below(data, Wanted("data/*.nc", ("big.nc",))) == ["data/small.nc"]
    assert names_below(data, Wanted(".", ("data", "*.mp4"))) == ["flow.py", "raw/a.nc"]


def test_a_file_that_is_wanted_by_its_own_name_is_staged_all_the_same(data: Path) -> None:
    (data / ".xmmlignore").write_text("*.nc\n")
    assert names_below(data, Wanted("data/big.nc", ("big.nc",))) == ["data/big.nc"]


@pytest.mark.parametrize("content", [b"!", b"\xff\xfe"], ids=["no pattern", "not UTF-8"])
def test_an_ignore_file_that_cannot_be_read_is_named(data: Path, content: bytes) -> None:
    (data / ".xmmlignore").write_bytes(content)
    with pytest.raises(SiteError, match=r"\.xmmlignore"):
        names_below(data, Wanted("."))


@pytest.mark.parametrize("name", [".xmmlignore", "pipe"])
def test_nobody_waits_for_a_pipe_in_the_folder_of_a_model(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(SiteError, match=rf"{name} cannot be read: it is not a regular file"):
        asyncio.run(hash_files_in_thread(tmp_path, [Wanted("pipe" if name == "pipe" else ".")]))


def test_a_folder_of_a_model_may_have_a_name_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "model [1]").mkdir()
    (tmp_path / "model [1]/flow.py").touch()
    assert names_below(tmp_path / "model [1]", Wanted("."), Wanted("*.py")) == ["flow.py"]


class Site:
    """A site that is this machine, to which a model's folder is staged."""

    def __init__(self, folder: Path, transport: type[LocalTransport] = LocalTransport) -> None:
        self.model, self.run = folder / "model", folder / "work/runs/r"
        self.work = folder / "work"
        for each in (self.model, self.run):
            each.mkdir(parents=True)
        (self.run / "mto").symlink_to(mto.PROGRAM)
        self.transport = transport

    def stage(self) -> Mapping[str, Any]:
        async def work() -> Mapping[str, Any]:
            transport = self.transport("alpha")
            agent = command_at(str(self.run))
            try:
                files = await hash_files_in_thread(self.model, [Wanted(".")])
                return await stage(transport, str(self.work), agent, MODEL, files, lease_s=LIMIT_S)
            finally:
                await transport.close()

        return asyncio.run(work())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def changed(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("change", "most_ranges"),
    [
        (changed, 1),
        (lambda data: data + b"more", 1),
        (lambda data: data[: 5 * RANGE_B + 3], 1),
        (lambda data: b"x" + data[1 : 3 * RANGE_B] + b"y" + data[3 * RANGE_B + 1 :], 2),
    ],
    ids=["one byte", "appended", "cut off", "two places"],
)
def test_only_the_ranges_of_a_large_file_travel_that_have_changed(
    site: Site, change: Callable[[bytes], bytes], most_ranges: int
) -> None:
    mesh = site.model / "mesh.nc"
    mesh.write_bytes(random.Random(1).randbytes(8 * RANGE_B + 5))
    assert site.stage()["sent_bytes"] == mesh.stat().st_size
    mesh.write_bytes(change(mesh.read_bytes()))
    assert site.stage()["sent_bytes"] <= most_ranges * RANGE_B
    assert (site.run / "model/mesh.nc").read_bytes() == mesh.read_bytes()
    assert site.stage()["sent_bytes"] == 0


def test_a_file_that_has_changed_all_over_is_sent_whole(site: Site) -> None:
    mesh = site.model / "mesh.nc"
    for seed in (1, 2):
        mesh.write_bytes(random.Random(seed).randbytes(4 * RANGE_B))
        assert site.stage()["sent_bytes"] == mesh.stat().st_size
    assert (site.run / "model/mesh.nc").read_bytes() == mesh.read_bytes()


def test_an_earlier_version_that_was_damaged_does_no_harm(site: Site) -> None:
    mesh = site.model / "mesh.nc"
    mesh.write_bytes(random.Random(1).randbytes(4 * RANGE_B))
    site.stage()
    (stored,) = (each for each in (site.work / "staged").iterdir() if each.stat().st_size == mesh.stat().st_size)
    stored.write_bytes(stored.read_bytes()[:-1])
    mesh.write_bytes(changed(mesh.read_bytes()))
    site.stage()
    assert (site.run / "model/mesh.nc").read_bytes() == mesh.read_bytes()


def test_what_goes_wrong_at_the_site_with_a_file_that_has_changed_is_told(site: Site) -> None:
    mesh = site.model / "mesh.nc"
    mesh.write_bytes(random.Random(1).randbytes(4 * RANGE_B))
    site.stage()
    mesh.write_bytes(changed(mesh.read_bytes()))
    (site.run / "incoming").rmdir()
    (site.run / "incoming").write_text("no folder")
    with pytest.raises(RemoteFileError, match=r"site alpha: staging failed: .*incoming: File exists"):
        site.stage()


class Counting(LocalTransport):
    """On whose way somebody counts the channels that carry messages beside the first one."""

    channels: int

    async def open_channel(self, command: str, **settings: Any) -> CommandChannel:
        Counting.channels += " channel --channels " in command
        return await super().open_channel(command, **settings)


def test_large_files_travel_by_several_channels(tmp_path: Path) -> None:
    site, Counting.channels = Site(tmp_path, Counting), 0
    (site.model / "small").write_text("small")
    site.stage()
    assert Counting.channels == 0
    data = random.Random(1).randbytes(2 * WIDE_B)
    (site.model / "large").write_bytes(data)
    site.stage()
    assert Counting.channels == MORE_CHANNELS
    assert (site.run / "model/large").read_bytes() == data


class OneChannel(LocalTransport):
    """On whose way no channel but the first one gets to the command."""

    async def open_channel(self, command: str, **settings: Any) -> CommandChannel:
        return await super().open_channel(command.replace(" channel --channels ", " no-such-command "), **settings)


def test_a_channel_that_does_not_get_to_the_command_is_done_without(tmp_path: Path) -> None:
    site = Site(tmp_path, OneChannel)
    (site.model / "large").write_bytes(data := random.Random(1).randbytes(8 * WIDE_B))
    site.stage()
    assert (site.run / "model/large").read_bytes() == data


def test_staging_that_is_interrupted_leaves_no_word_and_nothing_that_goes_on(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.model / "large").write_bytes(random.Random(1).randbytes(4 * WIDE_B))
    create, started = asyncio.create_subprocess_exec, []

    async def create_and_note(*arguments: Any, **settings: Any) -> asyncio.subprocess.Process:
        process = await create(*arguments, **settings)
        started.append(process)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create_and_note)

    async def work() -> None:
        transport = LocalTransport("alpha")
        staging = asyncio.ensure_future(
            stage(
                transport,
                str(site.work),
                command_at(str(site.run)),
                MODEL,
                await hash_files_in_thread(site.model, [Wanted(".")]),
                lease_s=LIMIT_S,
            )
        )
        while not list(site.run.glob("incoming/.*.xmml-part")):
            await asyncio.sleep(0.001)
        staging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await staging
        await transport.close()

    asyncio.run(work())
    assert started
    assert all(process.returncode is not None for process in started)
    gc.collect()  # what failed unheard is told when it goes
    # A process of a test before this one may end only now, which is told here, too.
    words = [each.getMessage() for each in caplog.records if each.msg != "Loop %r that handles pid %r is closed"]
    assert not words


class WhileItIsWritten(LocalTransport):
    """On whose way a file grows: between the moment at which it is looked at and that at which it is sent."""

    log: Path

    def converse(self, *arguments: Any, **settings: Any) -> AbstractAsyncContextManager[Conversation]:
        with self.log.open("a") as file:
            file.write("more\n")
        return super().converse(*arguments, **settings)


def test_files_keep_their_times_and_one_that_grows_meanwhile_arrives_as_it_was_at_some_moment(tmp_path: Path) -> None:
    site = Site(tmp_path, WhileItIsWritten)
    WhileItIsWritten.log = site.model / "run.log"
    WhileItIsWritten.log.write_text("begun\n")
    (site.model / "program").write_text("print(1)\n")
    os.utime(site.model / "program", ns=(1, 1_234_567_890_123_456_789))
    staged = site.stage()
    assert staged["files"] == 2
    assert staged["sha256"] == {
        name: hashlib.sha256((site.run / "model" / name).read_bytes()).hexdigest() for name in ("run.log", "program")
    }
    assert (site.run / "model/program").read_text() == "print(1)\n"
    assert (site.run / "model/program").stat().st_mtime_ns == 1_234_567_890_123_456_789
    assert (site.run / "model/run.log").read_text().startswith("begun\nmore\n")
