"""Files to and from a site that has nothing but a shell, as fast as the way there allows.

Where our program is at the site, the files of a run travel by `xmml_sites.transfer.site_files`. This brings the program
there, wheels to install, and the files of a workflow's rules, both ways.

Small files travel together as one archive in one channel, larger ones in a channel each, the largest cut into parts
that several channels carry at the same time: a channel of ssh has a window of 2 MiB, so over 20 ms one alone moves
65 MB/s, whatever the cipher. A transport that can lets `ssh` itself read a file, which takes two thirds of the
processor time of reading and encrypting it here.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import os
import tarfile
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from xmml.late_dataclass import dataclass
from xmml_sites.ssh.failure import MOST_SHOWN, RemoteFileError
from xmml_sites.ssh.remote_shell import path_word

if TYPE_CHECKING:
    from xmml_sites.ssh.channel_transport import ChannelTransport

#: Files up to this size travel together [bytes].
SMALL = 2**20
#: An archive of small files is not much larger than this [bytes].
ARCHIVE = 16 * 2**20
#: A file is cut into parts that are not smaller [bytes], and not more.
PART = 32 * 2**20
MOST_PARTS = 4
#: What is fetched of a large file at a time: it is held in memory [bytes].
FETCHED = 16 * 2**20
PIECE = 2**18
#: The size of a file has no more digits.
LONGEST_SIZE = 18
#: So many files, or parts, travel at the same time.
SIDE_BY_SIDE = 6
#: The slowest rate that is waited for [bytes/s], and the time that anything may take [s].
SLOWEST = 20_000
LEAST_TIME_S = 120.0

A = TypeVar("A")
B = TypeVar("B")

#: Shell text that tells the cause of what tar has said, which is in $e: the first of the lines that do not only say how
#: far it came, or that it failed.
CAUSE_SAID_BY_TAR = (
    "{ printf '%s\\n' \"$e\" | grep -v -e 'Wrote only' -e 'Exiting with' || printf '%s\\n' \"$e\"; } | head -n 1 >&2"
)

_FOLDER_OF = 'mkdir -p "$(dirname "$f")"'
_EXACTLY = "iflag=fullblock,count_bytes status=none"


@dataclass(frozen=True)
class Part:
    """A range of a local file, for the standard input of a command at a site. A transport may pass the descriptor of
    the file, so the command must stop reading after `size` bytes."""

    local: Path
    start: int
    size: int

    @contextlib.contextmanager
    def open(self) -> Iterator[int]:
        """A descriptor of the file, at the beginning of the part."""
        file = os.open(self.local, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.lseek(file, self.start, os.SEEK_SET)
            yield file
        finally:
            os.close(file)

    def check(self) -> None:
        """Raise an error if the file does not hold the part any more, so that what came of it is not whole."""
        if self.local.stat().st_size < self.start + self.size:
            raise OSError(f"{self.local} has become shorter while it was copied")

    async def pieces(self) -> AsyncIterator[bytes]:
        """The part, for who cannot read the file itself."""
        size = self.size
        with self.open() as file:
            while size:
                piece = os.read(file, min(PIECE, size))
                if not piece:
                    return
                size -= len(piece)
                yield piece


async def put(transport: ChannelTransport, files: Sequence[tuple[Path, str]]) -> None:
    """Copy files there."""
    small: list[tuple[Path, str, int]] = []
    large: list[tuple[Path, str, int]] = []
    for local, remote in files:
        size = local.stat().st_size
        (small if size <= SMALL else large).append((local, remote, size))
    together = (_put_archive(transport, group) for group in _groups(small))
    alone = (_put_whole(transport, *each) for each in large if each[2] < 2 * PART)
    await _side_by_side(itertools.chain(together, alone))
    for each in large:
        if each[2] >= 2 * PART:
            await _put_in_parts(transport, *each)


async def get(transport: ChannelTransport, files: Sequence[tuple[str, Path]]) -> None:
    """Copy files here."""
    if not files:
        return
    sizes = await _sizes(transport, [remote for remote, _ in files])
    small = [(remote, local, size) for (remote, local), size in zip(files, sizes, strict=True) if size <= SMALL]
    await _side_by_side(_get_archive(transport, group) for group in _groups(small))
    for (remote, local), size in zip(files, sizes, strict=True):
        if size > SMALL:
            await _get_large(transport, remote, local, size)


def _groups(files: Sequence[tuple[A, B, int]]) -> list[list[tuple[A, B, int]]]:
    groups: list[list[tuple[A, B, int]]] = []
    room = 0
    for file in files:
        if room <= 0:
            groups.append([])
            room = ARCHIVE
        groups[-1].append(file)
        room -= file[2] + 1024
    return groups


async def _side_by_side(work: Iterable[Coroutine[object, object, None]]) -> None:
    """Do so many things at a time, and make none before its turn: of a file whose size a site has told, there may be
    any number of parts."""
    waiting = iter(work)

    async def one_after_the_other() -> None:
        for item in waiting:
            await item

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(SIDE_BY_SIDE):
                group.create_task(one_after_the_other())
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


async def _put_archive(transport: ChannelTransport, files: Sequence[tuple[Path, str, int]]) -> None:
    home = await transport.home()
    archive = await asyncio.to_thread(_archive, home, files)
    await transport.checked(
        "umask 077; e=$(tar --extract --absolute-names --no-same-owner --preserve-permissions --file - 2>&1) || "
        f"{{ s=$?; {CAUSE_SAID_BY_TAR}; exit $s; }}",
        f"writing {files[0][1]}" + (f" and {len(files) - 1} more files" if len(files) > 1 else ""),
        archive,
        timeout_s=_limit(len(archive)),
    )


def _archive(home: str, files: Sequence[tuple[Path, str, int]]) -> bytes:
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for local, remote, _ in files:
            data = local.read_bytes()
            facts = tarfile.TarInfo(_absolute(home, remote))
            facts.size = len(data)
            facts.mode = local.stat().st_mode & 0o777
            facts.mtime = int(local.stat().st_mtime)
            archive.addfile(facts, io.BytesIO(data))
    return text.getvalue()


async def _get_archive(transport: ChannelTransport, files: Sequence[tuple[str, Path, int]]) -> None:
    home = await transport.home()
    names = {_absolute(home, remote): local for remote, local, _ in files}
    most = sum(size for _, _, size in files) * 2 + 8192 * len(files) + 2**20
    async with transport._channels:
        status, data, errors = await transport.talk(
            "tar --create --absolute-names --dereference --null --files-from - --file - --format gnu",
            ("\0".join(names) + "\0").encode(),
            timeout_s=_limit(most),
            most=most,
        )
    if status != 0:
        raise RemoteFileError(transport.site, f"reading {files[0][0]}", errors.decode(errors="replace").strip()[-300:])
    try:
        await asyncio.to_thread(_unpack, data, names)
    except tarfile.TarError as error:
        raise RemoteFileError(transport.site, f"reading {files[0][0]}", f"no archive has come: {error}") from None


def _unpack(data: bytes, names: dict[str, Path]) -> None:
    """Write what was asked for, and nothing else, wherever the archive says it goes. Of a file with holes, which our
    command makes none of, a few bytes would fill the memory."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for facts in archive:
            local = names.get(facts.name) or names.get("/" + facts.name)
            is_plain = facts.isreg() and not facts.issparse()
            stream = archive.extractfile(facts) if local is not None and is_plain else None
            if local is None or stream is None:
                continue
            _write_whole(local, stream.read(), facts.mode)


def _write_whole(local: Path, data: bytes, mode: int) -> None:
    local.parent.mkdir(parents=True, exist_ok=True)
    part = local.with_name(local.name + ".part")
    try:
        part.write_bytes(data)
        part.chmod(mode & 0o777)
        part.replace(local)
    finally:
        part.unlink(missing_ok=True)


async def _sizes(transport: ChannelTransport, remotes: Sequence[str]) -> list[int]:
    home = await transport.home()
    answer = await transport.run(
        "xargs -0 -r -n 1 stat -L -c %s -- 2>&1; true",
        "\0".join(_absolute(home, remote) for remote in remotes) + "\0",
        timeout_s=LEAST_TIME_S,
    )
    rows = answer.stdout.splitlines()
    for remote, row in zip(remotes, rows, strict=False):
        if not (row.isascii() and row.isdigit() and len(row) <= LONGEST_SIZE):
            raise RemoteFileError(transport.site, f"reading {remote}", row[:MOST_SHOWN])
    if len(rows) != len(remotes):
        raise RemoteFileError(transport.site, f"reading {remotes[0]}", answer.said)
    return [int(row) for row in rows]


async def _put_whole(transport: ChannelTransport, local: Path, remote: str, size: int) -> None:
    mode = local.stat().st_mode & 0o777
    # Another command may still write the same file there: that of a launcher that was killed, and is gone on with.
    command = (
        f'umask 077; f={path_word(remote)}; p="$f.$$.part"; {_FOLDER_OF} && '
        f'dd of="$p" bs=262144 count={size} {_EXACTLY} && [ "$(stat -c %s "$p")" -eq {size} ] && '
        f'chmod {mode:o} "$p" && mv -f "$p" "$f" || {{ s=$?; rm -f "$p"; exit $s; }}'
    )
    await _put_part(transport, command, remote, Part(local, 0, size))


async def _put_in_parts(transport: ChannelTransport, local: Path, remote: str, size: int) -> None:
    # Another run may bring the same file at the same time.
    f, p = path_word(remote), path_word(f"{remote}.{os.urandom(4).hex()}.part")
    doing = f"writing {remote}"
    await transport.checked(f"umask 077; f={f}; {_FOLDER_OF} && : > {p} && truncate -s {size} {p}", doing)
    each = -(-size // min(MOST_PARTS, size // PART))
    parts = [Part(local, start, min(each, size - start)) for start in range(0, size, each)]
    try:
        await _side_by_side(
            _put_part(
                transport,
                f"exec dd of={p} bs=262144 count={part.size} {_EXACTLY} oflag=seek_bytes seek={part.start} "
                "conv=notrunc",
                remote,
                part,
            )
            for part in parts
        )
        mode = local.stat().st_mode & 0o777
        await transport.checked(f"chmod {mode:o} {p} && mv -f {p} {f}", doing)
    except BaseException:
        with contextlib.suppress(Exception):
            await transport.run(f"rm -f -- {p}", timeout_s=10)
        raise


async def _put_part(transport: ChannelTransport, command: str, remote: str, part: Part) -> None:
    async with transport._channels:
        status, _, errors = await transport.talk(command, part, timeout_s=_limit(part.size), for_bulk=True)
    part.check()
    if status != 0:
        raise RemoteFileError(transport.site, f"writing {remote}", errors.decode(errors="replace").strip()[-300:])


async def _get_large(transport: ChannelTransport, remote: str, local: Path, size: int) -> None:
    local.parent.mkdir(parents=True, exist_ok=True)
    part = local.with_name(local.name + ".part")
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.ftruncate(file, size)
        await _side_by_side(
            _get_part(transport, remote, file, start, min(FETCHED, size - start)) for start in range(0, size, FETCHED)
        )
        mode = await transport.checked(f"stat -L -c %a -- {path_word(remote)}", f"reading {remote}")
        os.fchmod(file, int(mode, 8) & 0o777)
        part.replace(local)
    finally:
        os.close(file)
        part.unlink(missing_ok=True)


async def _get_part(transport: ChannelTransport, remote: str, file: int, start: int, size: int) -> None:
    command = (
        f"exec dd if={path_word(remote)} bs=262144 iflag=skip_bytes,count_bytes,fullblock skip={start} count={size} "
        "status=none"
    )
    async with transport._channels:
        status, data, errors = await transport.talk(command, timeout_s=_limit(size), most=size + PIECE, for_bulk=True)
    if status != 0 or len(data) != size:
        why = errors.decode(errors="replace").strip()[-300:] or "it has become shorter while it was copied"
        raise RemoteFileError(transport.site, f"reading {remote}", why)
    await asyncio.to_thread(os.pwrite, file, data, start)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _absolute(home: str, remote: str) -> str:
    return home + remote[1:] if remote.startswith("~/") else remote


def _limit(size: int) -> float:
    return LEAST_TIME_S + size / SLOWEST
