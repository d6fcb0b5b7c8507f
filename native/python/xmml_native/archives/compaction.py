"""Compacts archives: drops objects, and gives back the room of what lies in segments and belongs to no object.

Payloads that stay move to new segments, of which nobody knows until a transaction of SQLite says so and drops the
others. So there is the old archive or the new one, whenever a program or machine fails. The next that writes removes
what it leaves behind.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from xmml_native.archives.archive import Archive
from xmml_native.archives.files import ArchiveFiles
from xmml_native.archives.index import (
    LEFT_OVERS,
    NUMBER,
    PLACE,
    highest,
    keep_highest,
    last_number,
    open_index,
    remove_left_overs,
    tidy,
    transaction,
)
from xmml_native.archives.segments import (
    ALIGNMENT,
    MappedSegments,
    SegmentAppender,
    lock_for_writing,
    not_written,
    segment_name,
    segments_of,
)
from xmml_native.archives.writer import MOST_BYTES
from xmml_native.errors import ArchiveError


@dataclass(frozen=True)
class Compacted:
    """What has become of an archive.

    Attributes:
        kept, dropped: numbers of objects.
        bytes_before, bytes_after: of its segments.
        waiting: how many segments stay until nobody reads the archive any more.
    """

    kept: int
    dropped: int
    bytes_before: int
    bytes_after: int
    waiting: int


def compact_archive(
    folder: str, *, select: str | None = None, drop: str | None = None, last_of: Sequence[str] = ()
) -> Compacted:
    """Drop objects of an archive, and give back the room of what belongs to none.

    Who reads the archive at the time goes on reading; segments that it may need stay until it closes the archive.

    Args:
        folder: the archive.
        select: a selector; what it does not choose is dropped.
        drop: a selector; what it chooses is dropped.
        last_of: attributes; of objects that agree in all of them, or lack the same ones, only the last stays.

    Raises:
        ArchiveError: a selector is empty, there is no archive, another program writes it, there is no room for the
            payloads that move, or one of them cannot be read; then the archive is what it was.
        ValueError: a text is no selector of these attributes.
    """
    for word, selector in (("keep", select), ("drop", drop)):
        if selector is not None and not selector.strip():
            # Elsewhere an empty selector chooses every object: a variable of a shell that is not set would drop all.
            raise ArchiveError(
                f"the selector of the objects to {word} is empty, and would choose every object of {folder}. Write a "
                "condition, or leave the selector out; to drop every object, remove the folder"
            )
    Archive(folder).close()  # else a folder that is none would get a lock
    with contextlib.closing(_opened(folder)) as files:
        lock = lock_for_writing(files)
        try:
            with Archive(folder) as archive:
                dropped = _dropped(archive, select, drop, last_of)
                kept = len(archive) - len(dropped)
            index, _, _ = open_index(files, may_be_new=True)
            with contextlib.closing(index):
                before = _bytes(files)
                waiting = _compact(files, index, dropped)
                return Compacted(kept, len(dropped), before, _bytes(files), waiting)
        finally:
            os.close(lock)


def _opened(folder: str) -> ArchiveFiles:
    try:
        return ArchiveFiles(folder)
    except OSError as error:
        raise not_written(folder, error) from None


def _dropped(archive: Archive, select: str | None, drop: str | None, last_of: Sequence[str]) -> array[int]:
    """Return the numbers of the objects that are dropped."""
    unknown = [name for name in last_of if name not in archive.types]
    if unknown:
        raise ArchiveError(f"there is no attribute '{unknown[0]}'; there are {', '.join(archive.types)}")
    dropped: set[int] = set()
    if drop is not None:
        dropped.update(each.number for each in archive.select(drop))
    if select is not None:
        stay = {each.number for each in archive.select(select)}
        dropped.update(each.number for each in archive if each.number not in stay)
    if last_of:
        last: dict[str, int] = {}
        for each in archive:
            if each.number not in dropped:
                earlier = last.get(key := repr([each.get(name) for name in last_of]))
                dropped.update(() if earlier is None else (earlier,))
                last[key] = each.number
    return array("q", sorted(dropped))


def _bytes(files: ArchiveFiles) -> int:
    return sum(files.size(segment_name(number)) for number in segments_of(files))


def _compact(files: ArchiveFiles, index: sqlite3.Connection, dropped: Sequence[int]) -> int:
    """Compact an archive that nobody else writes; return how many segments stay for those who read it."""
    try:
        # From here on there may be segments that belong to nobody. A file that is there keeps what it has.
        os.close(files.open(LEFT_OVERS, os.O_WRONLY | os.O_CREAT))
    except OSError as error:
        raise not_written(files.folder, error) from None
    try:
        last_object, last_segment = last_number(index), highest(index, "segment")
        numbers, places = _moved(files, index, frozenset(dropped))
        with transaction(files.folder, index):
            keep_highest(index, "object", last_object)
            keep_highest(index, "segment", max([last_segment, *segments_of(files)]))
            index.executemany(f'DELETE FROM objects WHERE "{NUMBER}" = ?', ((number,) for number in dropped))
            change = f'UPDATE objects SET "{PLACE[0]}" = ?, "{PLACE[1]}" = ? WHERE "{NUMBER}" = ?'
            index.executemany(change, zip(places[::2], places[1::2], numbers, strict=True))
    except BaseException as error:
        with contextlib.suppress(ArchiveError):
            remove_left_overs(files, index)
        if isinstance(error, OSError | sqlite3.Error):
            raise not_written(files.folder, error) from None
        raise
    if dropped:
        # It gives back the room of the rows. Where it cannot be, new rows fill that room.
        with contextlib.suppress(sqlite3.Error):
            index.execute("VACUUM")
    return tidy(files, index)


def _moved(files: ArchiveFiles, index: sqlite3.Connection, dropped: frozenset[int]) -> tuple[array[int], array[int]]:
    """Copy what stays out of each segment that holds something else, too.

    Returns:
        The numbers of the objects that have moved; the segment and the first byte of each.
    """
    numbers, places = array("q"), array("q")
    mapped = MappedSegments(files)
    last = max([*segments_of(files), highest(index, "segment")])
    with contextlib.closing(SegmentAppender(files, last)) as segments:
        pending = 0
        for segment, rows in _by_segment(index):
            staying = [row for row in rows if row[0] not in dropped]
            if len(staying) == len(rows) and _is_full(files, segment, rows):
                continue
            for number, first, length in staying:
                places.extend(segments.append(mapped.payload(segment, first, length)))
                numbers.append(number)
                pending += length
                if pending >= MOST_BYTES:
                    segments.sync()
                    pending = 0
        segments.sync()
    return numbers, places


def _by_segment(index: sqlite3.Connection) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """Yield the segments, each with number, first byte and length of its objects, in the order in which they lie."""
    segment, first, length, _ = PLACE
    rows = index.execute(
        f'SELECT "{segment}", "{NUMBER}", "{first}", "{length}" FROM objects ORDER BY "{segment}", "{first}"'
    )
    for number, some in groupby(rows, key=lambda row: row[0]):
        places = [row[1:] for row in some]
        if not all(isinstance(value, int) for place in ((number,), *places) for value in place):
            raise ArchiveError(f"the index says of an object in segment {number} that it lies nowhere")
        yield number, places


def _is_full(files: ArchiveFiles, segment: int, rows: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether objects fill a segment from end to end."""
    end = 0
    for _, first, length in rows:
        if first - end >= ALIGNMENT:
            return False
        end = first + length
    return files.size(segment_name(segment)) == end
