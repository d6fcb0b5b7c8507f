"""The end that has the files: lists, reads, sends what the other end lacks."""

from __future__ import annotations

import os
import queue
import stat
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import field
from pathlib import Path

from xmml.late_dataclass import dataclass
from xmml_sites.transfer.listing import Entry, Kind, LeftOut, listing, values_of
from xmml_sites.transfer.message_stream import ConnectionBroken, MessageStream, PeerFailed
from xmml_sites.transfer.messages import (
    MOST_DATA_B,
    MOST_ENTRIES,
    MOST_PIECES,
    Malformed,
    MessageKind,
    chunk,
    number,
    pack,
    unpack,
)
from xmml_sites.transfer.progress import Progress, Report
from xmml_sites.transfer.ranges import DIGEST_B, Range, digest, ranges, stands


@dataclass
class _Chunk:
    """Pieces of files that travel together."""

    pieces: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    size_b: int = 0


class Source:
    """Gives files away over a channel."""

    def __init__(self, channel: MessageStream, sources: Sequence[Path], progress: Progress) -> None:
        self._channel, self._sources, self._progress = channel, sources, progress
        self._entries: list[tuple[Entry, Path]] = []
        self._listed = threading.Event()
        self._chunk = _Chunk()
        self._report = Report()
        self._unanswered: set[int] = set()
        self._ahead: tuple[int, Range, bytes, bytes] | None = None
        self._heard: queue.SimpleQueue[tuple[MessageKind, list[object]] | Exception] = queue.SimpleQueue()

    def run(self) -> Report:
        """Copies everything; returns what came of it.

        Raises:
            ConnectionBroken: the connection is gone; what stands at the target is kept there for the next attempt.
            PeerFailed: the target cannot go on.
            Malformed: the other end does not keep to the protocol.
        """
        listener = threading.Thread(target=self._listen, daemon=True)
        listener.start()
        self._list()
        self._read_ahead()
        considered = is_owed = False
        while True:
            kind, values = self._next()
            match kind, values:
                case MessageKind.HAVE, [which, bytes(digests)] if len(digests) % DIGEST_B == 0:
                    self._give(number(which, len(self._entries)), digests)
                case MessageKind.STANDS, [which]:
                    entry = self._entries[number(which, len(self._entries))][0]
                    self._report.untouched += 1
                    self._progress.advanced(entry.size)
                case MessageKind.AGAIN, [which, list(altered)]:
                    self._give_again(number(which, len(self._entries)), altered)
                    is_owed = True
                case MessageKind.STORED, [which]:
                    self._unanswered.discard(number(which, len(self._entries)))
                case MessageKind.FAILED, [which, str(reason)]:
                    self._unanswered.discard(number(which, len(self._entries)))
                    self._report.failed.append((self._entries[number(which, len(self._entries))][0].path, reason))
                case MessageKind.CONSIDERED, []:
                    considered = is_owed = True
                case MessageKind.DONE, [] if considered and not self._unanswered:
                    return self._report
                case MessageKind.STOPPED | MessageKind.REFUSED, [str(reason)]:
                    raise PeerFailed(reason)
                case _:
                    raise Malformed(f"{kind.name} was not expected by the end that reads")
            if self._heard.empty():
                self._flush()
                if considered and is_owed:
                    # Without waiting for what is stored: the target knows by itself what it still lacks.
                    self._channel.send(pack(MessageKind.FINISHED))
                    is_owed = False

    def _listen(self) -> None:
        """Takes in what the target says, at any time: it never has to wait for us before it can read on."""
        try:
            while True:
                kind, values = unpack(self._channel.receive())
                self._heard.put((kind, values))
                if kind in (MessageKind.DONE, MessageKind.STOPPED, MessageKind.REFUSED):
                    return
        except (ConnectionBroken, Malformed) as error:
            self._heard.put(error)

    def _next(self) -> tuple[MessageKind, list[object]]:
        heard = self._heard.get()
        if isinstance(heard, Exception):
            raise heard
        return heard

    def _list(self) -> None:
        batch: list[object] = []
        left_out: list[LeftOut] = []
        for found in listing(self._sources):
            if isinstance(found, LeftOut):
                left_out.append(found)
                continue
            self._entries.append((found.entry, found.where))
            batch.append(values_of(found.entry))
            if found.entry.kind == Kind.FILE:
                self._report.files += 1
                self._report.size_b += found.entry.size
            if len(batch) == MOST_ENTRIES:
                self._channel.send(pack(MessageKind.ENTRIES, len(self._entries) - len(batch), batch))
                batch = []
        if batch:
            self._channel.send(pack(MessageKind.ENTRIES, len(self._entries) - len(batch), batch))
        self._report.failed += [(each.path, each.reason) for each in left_out]
        told = [[each.path, each.reason] for each in left_out[:MOST_ENTRIES]]
        self._channel.send(pack(MessageKind.LISTED, self._report.files, self._report.size_b, told))
        self._progress.total(self._report.files, self._report.size_b)

    def _read_ahead(self) -> None:
        """Reads where the first file begins while the target still considers what it lacks: mostly all of it."""
        first = next((each for each, (entry, _) in enumerate(self._entries) if entry.kind == Kind.FILE), None)
        if first is None:
            return
        entry, where = self._entries[first]
        beginning = next(ranges(entry.size), None)
        if beginning is None:
            return
        with suppress(OSError, _Changed):  # then it is found out, and told, when the file is given
            descriptor = os.open(where, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with closing(os.fdopen(descriptor, "rb", buffering=0)):
                data = _read(descriptor, beginning)
                self._ahead = first, beginning, data, digest(data)

    def _read(self, which: int, descriptor: int, wanted: Range) -> tuple[bytes, bytes]:
        """A range of an open file, and its checksum."""
        ahead, self._ahead = self._ahead, None
        match ahead:
            case (of, beginning, data, checksum) if (of, beginning) == (which, wanted):
                return data, checksum
        data = _read(descriptor, wanted)
        return data, digest(data)

    def _give(self, which: int, digests: bytes) -> None:
        """Sends the ranges of a file that the other end lacks."""
        entry, where = self._entries[which]
        self._unanswered.add(which)
        try:
            descriptor = os.open(where, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with closing(os.fdopen(descriptor, "rb", buffering=0)) as file:
                self._still_as_listed(entry, os.fstat(descriptor))
                for place, each in enumerate(ranges(entry.size)):
                    data, checksum = self._read(which, file.fileno(), each)
                    if not stands(digests, place, checksum):
                        self._add(which, each, data, checksum)
                    self._progress.advanced(each.length)
                self._still_as_listed(entry, os.fstat(descriptor))
        except (OSError, _Changed) as error:
            self._spoilt(which, error)
            return
        self._end(which)

    def _give_again(self, which: int, altered: list[object]) -> None:
        entry, where = self._entries[which]
        try:
            with where.open("rb", buffering=0) as file:
                for each in altered:
                    match each:
                        case [int(offset), int(length)] if offset >= 0 and 0 < length <= min(
                            MOST_DATA_B, entry.size - offset
                        ):
                            data = _read(file.fileno(), Range(offset, length))
                        case _:
                            raise Malformed("a range that does not exist is asked for again")
                    self._add(which, Range(offset, length), data, digest(data))
        except (OSError, _Changed) as error:
            self._spoilt(which, error)
            return
        self._end(which)

    def _spoilt(self, which: int, error: Exception) -> None:
        """Tells that a file cannot be copied, behind what has been sent of it."""
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        self._flush()
        self._unanswered.discard(which)
        self._report.failed.append((self._entries[which][0].path, reason))
        self._channel.send(pack(MessageKind.SPOILT, which, reason))

    def _end(self, which: int) -> None:
        """Tells that a file is complete, with its last piece."""
        self._chunk.ends.append(which)
        if len(self._chunk.ends) == MOST_PIECES:
            self._flush()

    def _add(self, which: int, each: Range, data: bytes, checksum: bytes) -> None:
        if self._chunk.size_b + each.length > MOST_DATA_B:
            self._flush()
        self._chunk.pieces.append((which, each.offset, each.length, checksum))
        self._chunk.data.append(data)
        self._chunk.size_b += each.length
        if self._chunk.size_b == MOST_DATA_B or len(self._chunk.pieces) == MOST_PIECES:
            self._flush()

    def _flush(self) -> None:
        if self._chunk.pieces or self._chunk.ends:
            self._report.sent_b += self._chunk.size_b
            self._channel.send(chunk(self._chunk.pieces, self._chunk.data, self._chunk.ends))
            self._chunk = _Chunk()

    @staticmethod
    def _still_as_listed(entry: Entry, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode) or (status.st_size, status.st_mtime_ns) != (entry.size, entry.modified_ns):
            raise _Changed("it changed while it was copied; copy it again when nobody writes to it")


class _Changed(Exception):
    """A file is no longer what was listed."""


def _read(descriptor: int, wanted: Range) -> bytes:
    data = os.pread(descriptor, wanted.length, wanted.offset)
    while len(data) < wanted.length:
        more = os.pread(descriptor, wanted.length - len(data), wanted.offset + len(data))
        if not more:
            raise _Changed("it became shorter while it was copied; copy it again when nobody writes to it")
        data += more
    return data
