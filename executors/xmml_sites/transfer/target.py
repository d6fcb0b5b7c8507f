"""The end that gets the files: compares with what is there, writes, checks every range."""

from __future__ import annotations

import errno
import os
import queue
import stat
import threading
from contextlib import closing
from dataclasses import field

from xmml.late_dataclass import dataclass
from xmml_sites.transfer.listing import Entry, Kind, entry_from
from xmml_sites.transfer.message_stream import ConnectionBroken, MessageStream, PeerFailed
from xmml_sites.transfer.messages import MOST_DATA_B, MOST_PIECES, Malformed, MessageKind, number, pack, unpack
from xmml_sites.transfer.progress import Progress, Report
from xmml_sites.transfer.ranges import DIGEST_B, Range, digest, digests
from xmml_sites.transfer.tree import Layout, Tree

#: A range that has come altered so often is given up: the source's disk or memory is broken.
MOST_ATTEMPTS = 3
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class NoRoom(Exception):
    """Nothing more can be written here; the text says why."""


@dataclass
class _PartialFile:
    """A file that is being written."""

    descriptor: int
    altered: set[Range] = field(default_factory=set)
    attempts: int = 0
    received_b: int = 0


class Target:
    """Takes files over a channel, below a folder."""

    def __init__(self, channel: MessageStream, layout: Layout, progress: Progress, compare: bool = False) -> None:
        """`compare`: files of the same size and time are compared by their checksums, too."""
        self._channel, self._progress, self._compare = channel, progress, compare
        self._tree, self._considering_tree = Tree(layout), Tree(layout)
        self._entries: list[Entry] = []
        self._paths: set[str] = set()
        self._waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._based_on_file: dict[int, bool] = {}
        self._arriving: dict[int, _PartialFile] = {}
        self._report = Report()

    def run(self) -> Report:
        """Takes everything; returns what came of it.

        Raises:
            ConnectionBroken: the connection is gone; what has come is kept for the next attempt.
            NoRoom: the disk is full; the same holds.
            PeerFailed: the source cannot go on.
            Malformed: the other end does not keep to the protocol.
        """
        considering = threading.Thread(target=self._consider_all, daemon=True)
        considering.start()
        try:
            while self._heard(*unpack(self._channel.receive())):
                pass
            return self._report
        except (NoRoom, Malformed) as error:
            self._channel.send(pack(MessageKind.STOPPED, str(error)))
            raise
        finally:
            self._waiting.put(None)
            considering.join()
            for arriving in self._arriving.values():
                os.close(arriving.descriptor)
            self._tree.close()
            self._considering_tree.close()

    def _heard(self, kind: MessageKind, values: list[object]) -> bool:
        """Acts on a message; False after the last one."""
        match kind, values:
            case MessageKind.ENTRIES, [int(first), list(entries)] if first == len(self._entries):
                self._listed(entries)
            case MessageKind.LISTED, [int(files), int(size_b), list(left_out)]:
                self._report.files, self._report.size_b = files, size_b
                self._report.failed += [(str(path), str(reason)) for path, reason in _pairs(left_out)]
                self._progress.total(files, size_b)
                self._waiting.put(None)
            case MessageKind.CHUNK, [list(pieces), bytes(data), list(ends)]:
                self._store(pieces, memoryview(data))
                for which in ends:
                    self._end(number(which, len(self._entries)))
            case MessageKind.SPOILT, [which, str(reason)]:
                which = number(which, len(self._entries))
                self._drop(which)
                self._report.failed.append((self._entries[which].path, reason))
            case MessageKind.REFUSED, [str(reason)]:
                raise PeerFailed(reason)
            case MessageKind.FINISHED, []:
                if self._arriving:
                    return True  # ranges that came altered were asked for again meanwhile
                self._finish_folders()
                self._channel.send(pack(MessageKind.DONE))
                return False
            case _:
                raise Malformed(f"{kind.name} was not expected by the end that writes")
        return True

    def _listed(self, entries: list[object]) -> None:
        for values in entries:
            try:
                entry = entry_from(values)
            except ValueError as error:
                raise Malformed(str(error)) from error
            if entry.path in self._paths:
                raise Malformed(f"the listing names {entry.path!r} twice")
            self._paths.add(entry.path)
            self._entries.append(entry)
            self._waiting.put(len(self._entries) - 1)

    def _consider_all(self) -> None:
        """Looks at what is there already, ahead of what comes."""
        try:
            while (which := self._waiting.get()) is not None:
                try:
                    self._consider(which, self._entries[which])
                except OSError as error:
                    self._failed(which, error.strerror or str(error))
            self._channel.send(pack(MessageKind.CONSIDERED))
        except ConnectionBroken:
            return  # the other thread learns of it as well

    def _consider(self, which: int, entry: Entry) -> None:
        tree = self._considering_tree
        if entry.kind == Kind.FOLDER:
            tree.make_folder(entry)
        elif entry.kind == Kind.LINK:
            if tree.link_target(entry) != entry.link:
                tree.make_link(entry)
        else:
            status = tree.status(entry)
            alike = status is not None and stat.S_ISREG(status.st_mode) and _alike(status, entry)
            if alike and not self._compare:
                tree.dress(entry)
                tree.remove_part(entry)
                self._report.untouched += 1
                self._progress.advanced(entry.size)
                self._channel.send(pack(MessageKind.STANDS, which))
                return
            self._channel.send(pack(MessageKind.HAVE, which, self._digests(which, entry)))

    def _digests(self, which: int, entry: Entry) -> bytes:
        """The checksums of what an interrupted copy, or an older version of the file, has of the content."""
        tree = self._considering_tree
        part = tree.open_part(entry)
        file = part or tree.open_file(entry)
        if file is None:
            return b""
        with closing(file):
            self._based_on_file[which] = part is None
            return digests(file, entry.size)

    def _store(self, pieces: list[object], data: memoryview) -> None:
        at = 0
        for piece in pieces:
            match piece:
                case [which, int(offset), int(length), bytes(checksum)] if 0 < length <= MOST_DATA_B:
                    which = number(which, len(self._entries))
                case _:
                    raise Malformed("a piece of a file is malformed")
            entry = self._entries[which]
            if entry.kind != Kind.FILE or not 0 <= offset <= entry.size - length or len(checksum) != DIGEST_B:
                raise Malformed(f"a piece of {entry.path!r} lies outside of it")
            content = data[at : at + length]
            at += length
            if len(content) < length:
                raise Malformed("a piece of a file has not come whole")
            self._write(which, Range(offset, length), content, checksum)
        if at != len(data):
            raise Malformed("there are bytes behind the pieces of files")

    def _write(self, which: int, where: Range, content: memoryview, checksum: bytes) -> None:
        try:
            arriving = self._begun(which)
            if digest(content) != checksum:
                arriving.altered.add(where)
                return
            arriving.altered.discard(where)
            at = 0
            while at < where.length:
                at += os.pwrite(arriving.descriptor, content[at:], where.offset + at)
            arriving.received_b += where.length
            self._report.sent_b += where.length
            self._progress.advanced(where.length)
        except OSError as error:
            self._trouble(which, error)

    def _begun(self, which: int) -> _PartialFile:
        """The file, open for writing."""
        if which not in self._arriving:
            entry = self._entries[which]
            old = self._tree.open_file(entry) if self._based_on_file.get(which) else None
            try:
                self._arriving[which] = _PartialFile(self._tree.begin_part(entry, old))
            finally:
                if old is not None:
                    old.close()
        return self._arriving[which]

    def _end(self, which: int) -> None:
        """All of a file has come, or stood already."""
        entry = self._entries[which]
        try:
            if which not in self._arriving and self._based_on_file.get(which):
                status = self._tree.status(entry)
                if status is not None and status.st_size == entry.size:
                    self._tree.dress(entry)
                    self._progress.advanced(entry.size)
                    self._channel.send(pack(MessageKind.STORED, which))
                    return
            arriving = self._begun(which)
            if arriving.altered:
                arriving.attempts += 1
                if arriving.attempts == MOST_ATTEMPTS:
                    self._drop(which)
                    self._failed(which, f"it came altered {MOST_ATTEMPTS} times; is a memory or disk broken?")
                    return
                ranges = [[each.offset, each.length] for each in arriving.altered]
                self._channel.send(pack(MessageKind.AGAIN, which, ranges[:MOST_PIECES]))
                return
            self._tree.finish_part(entry, arriving.descriptor)
        except OSError as error:
            self._trouble(which, error)
            return
        self._progress.advanced(entry.size - arriving.received_b)
        self._drop(which)
        self._channel.send(pack(MessageKind.STORED, which))

    def _drop(self, which: int) -> None:
        """Closes a file; what has come of it stays."""
        arriving = self._arriving.pop(which, None)
        if arriving is not None:
            os.close(arriving.descriptor)

    def _trouble(self, which: int, error: OSError) -> None:
        """A file cannot be written: it alone, or none any more."""
        reason = error.strerror or str(error)
        if error.errno in _NO_ROOM:
            path = self._entries[which].path
            raise NoRoom(f"{path}: {reason}; make room and copy again: what has come is kept") from error
        self._drop(which)
        self._failed(which, reason)

    def _failed(self, which: int, reason: str) -> None:
        self._report.failed.append((self._entries[which].path, reason))
        self._channel.send(pack(MessageKind.FAILED, which, reason))

    def _finish_folders(self) -> None:
        """Modes and times of folders come last, the innermost first: writing into a folder changes its time."""
        for which in reversed(range(len(self._entries))):
            entry = self._entries[which]
            if entry.kind == Kind.FOLDER:
                try:
                    self._tree.finish_folder(entry)
                except OSError as error:
                    self._failed(which, error.strerror or str(error))


def _alike(status: os.stat_result, entry: Entry) -> bool:
    """Whether a file has the size and the time of the entry; some file systems know whole seconds only."""
    times = {entry.modified_ns, entry.modified_ns - entry.modified_ns % 1_000_000_000}
    return status.st_size == entry.size and status.st_mtime_ns in times


def _pairs(values: list[object]) -> list[tuple[object, object]]:
    pairs = []
    for each in values:
        match each:
            case [path, reason]:
                pairs.append((path, reason))
            case _:
                raise Malformed("what was left out is malformed")
    return pairs
