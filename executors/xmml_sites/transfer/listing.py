"""What there is to copy: the entries of a tree, and which entries from the other end may be believed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from xmml.late_dataclass import dataclass

#: Longest path of an entry and longest target of a link [bytes]: what Linux takes.
LONGEST_PATH_B = 4096


class Kind(IntEnum):
    """What an entry is."""

    FILE = 0
    FOLDER = 1
    LINK = 2


@dataclass(frozen=True)
class Entry:
    """One file, folder or symbolic link.

    `path` begins with the name of what was asked for, parts are divided by slashes. `size` is in bytes, `modified_ns`
    since 1970. `link` is where a symbolic link leads.
    """

    path: str
    kind: Kind
    size: int
    mode: int
    modified_ns: int
    link: str = ""


@dataclass(frozen=True)
class LeftOut:
    """Something that cannot be copied, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Found:
    """An entry and where it is here."""

    entry: Entry
    where: Path


def listing(sources: Sequence[Path]) -> Iterator[Found | LeftOut]:
    """The entries of files and folders, each folder before what is in it, in the order of names.

    A source that is a symbolic link is followed; links in folders are copied as links. Sockets, pipes and devices are
    left out, as is what cannot be read.
    """
    for source in sources:
        name = source.name if source.name not in ("", "..") else source.resolve().name or "root"
        try:
            status = source.stat()
        except OSError as error:
            yield LeftOut(str(source), error.strerror or str(error))
            continue
        yield from _entries(source, name, status)


def _entries(where: Path, path: str, status: os.stat_result) -> Iterator[Found | LeftOut]:
    # A stack of one's own: folders may lie deeper in each other than Python's functions may.
    waiting: list[tuple[Path, str, os.stat_result]] = [(where, path, status)]
    while waiting:
        where, path, status = waiting.pop()
        mode, modified_ns = stat.S_IMODE(status.st_mode), status.st_mtime_ns
        try:
            if stat.S_ISREG(status.st_mode):
                yield Found(Entry(path, Kind.FILE, status.st_size, mode, modified_ns), where)
            elif stat.S_ISLNK(status.st_mode):
                yield Found(Entry(path, Kind.LINK, 0, mode, modified_ns, os.readlink(where)), where)
            elif stat.S_ISDIR(status.st_mode):
                names = sorted(os.listdir(where), reverse=True)
                yield Found(Entry(path, Kind.FOLDER, 0, mode, modified_ns), where)
                for name in names:
                    try:
                        waiting.append((where / name, f"{path}/{name}", os.lstat(where / name)))
                    except OSError as error:
                        yield LeftOut(str(where / name), error.strerror or str(error))
            else:
                yield LeftOut(str(where), "it is neither a file nor a folder nor a link")
        except OSError as error:
            yield LeftOut(str(where), error.strerror or str(error))


def entry_from(values: Any) -> Entry:
    """The entry that was sent.

    Raises:
        ValueError: it is malformed, or its path could lead out of the target.
    """
    match values:
        case [str(path), int(kind), int(size), int(mode), int(modified_ns), str(link)]:
            pass
        case _:
            raise ValueError("an entry of the listing is malformed")
    parts = path.split("/")
    if len(os.fsencode(path)) > LONGEST_PATH_B or len(os.fsencode(link)) > LONGEST_PATH_B:
        raise ValueError("an entry of the listing has too long a name")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path or "\0" in link:
        raise ValueError(f"the listing names {path!r}, which could lead out of the folder that is copied to")
    if kind not in list(Kind) or not 0 <= size < 1 << 63 or not 0 <= mode < 0o10000 or abs(modified_ns) >= 1 << 63:
        raise ValueError(f"the listing has impossible values for {path!r}")
    return Entry(path, Kind(kind), size, mode, modified_ns, link)


def values_of(entry: Entry) -> list[Any]:
    """The entry as it is sent."""
    return [entry.path, int(entry.kind), entry.size, entry.mode, entry.modified_ns, entry.link]
