"""The segments of an archive: files of payloads, which are only ever appended to, and who has them open."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import time
import zlib
from collections import OrderedDict
from typing import Any

from xmml_native.archives.connection import LOCK_WAIT_S
from xmml_native.archives.files import ArchiveFiles
from xmml_native.errors import ArchiveError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

#: Payloads begin where the elements of an array lie at a multiple of this [bytes].
ALIGNMENT = 64

#: A segment that is longer is followed by another [bytes].
SEGMENT_BYTES = 1 << 30

#: This many segments stay mapped. Each mapping takes one of the few ten thousand that a process may have.
MOST_MAPPED = 64

#: The file that whoever reads has locked.
_READERS = "readers"

#: A payload is compared with its checksum in pieces of this length [bytes].
_PIECE_BYTES = 1 << 20


def segment_name(number: int) -> str:
    """Return the name of a segment's file."""
    return f"segment-{number:06}"


def segments_of(files: ArchiveFiles) -> list[int]:
    """Return the numbers of the segments that are there, in order."""
    names = [name for name in files.names() if re.fullmatch(r"segment-\d{6,}", name)]
    return sorted(int(name.removeprefix("segment-")) for name in names)


def not_written(folder: str, error: Exception) -> ArchiveError:
    """Return the error of an archive that cannot be written."""
    return ArchiveError(f"{folder} cannot be written: {getattr(error, 'strerror', None) or error}")


class SegmentAppender:
    """Appends payloads to new segments.

    Args:
        files: of the archive.
        last: the highest number that a segment ever had.
    """

    def __init__(self, files: ArchiveFiles, last: int) -> None:
        self._files = files
        #: The number of the segment that was begun last.
        self.last = last
        self._file: Any = None
        self._at = 0
        self._is_new = False
        #: Why payloads of a segment that was closed may be lost with the power.
        self._not_synced: OSError | None = None

    def append(self, payload: memoryview) -> tuple[int, int]:
        """Write a payload as `serialize` gives it; return the number of its segment, and its first byte there.

        Raises:
            ArchiveError: there is no room.
        """
        try:
            file = self._room()
            head = 8 + int.from_bytes(payload[:8], "little")
            padding = -(self._at + head) % ALIGNMENT
            for rest in (memoryview(bytes(padding)), payload):
                while rest:  # a disk that is nearly full takes a part
                    rest = rest[file.write(rest) :]
        except BaseException as error:
            self._leave_segment()
            if isinstance(error, OSError):
                raise not_written(self._files.folder, error) from None
            raise
        first = self._at + padding
        self._at = first + len(payload)
        return self.last, first

    def _room(self) -> Any:
        """Return the file of the segment, which is made if there is none."""
        if self._file is None:
            self._at, self._is_new = 0, True
            name = segment_name(self.last + 1)
            descriptor = self._files.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            self._file = open(descriptor, "wb", buffering=0)  # noqa: SIM115 (it stays open for the next objects)
            self.last += 1
        return self._file

    def _leave_segment(self) -> None:
        """Sync and close the segment, whose end is unknown; the next payload goes to another one."""
        try:
            self.sync()  # the payloads before this one may still get their rows in the index
        except OSError as error:
            self._not_synced = error
        finally:
            self.close()

    def sync(self) -> None:
        """Have everything that was appended survive; the next payload goes to another segment if this one is long.

        Raises:
            OSError: it cannot be written.
        """
        if self._not_synced is not None:
            raise self._not_synced
        if self._file is None:
            return
        os.fdatasync(self._file.fileno())
        if self._is_new:
            self._files.sync()  # else the name of the segment could be lost with the power
            self._is_new = False
        if self._at >= SEGMENT_BYTES:
            self.close()

    def close(self) -> None:
        """Close the segment; the next payload goes to another one."""
        if self._file is not None:
            self._file.close()
            self._file = None


class MappedSegments:
    """The payloads of an archive, mapped for reading. The segments that were used last stay mapped."""

    def __init__(self, files: ArchiveFiles) -> None:
        self.folder = files.folder
        self._files = files
        self._maps: OrderedDict[int, mmap.mmap] = OrderedDict()

    def payload(self, segment: int, first: int, length: int) -> memoryview:
        """Return the bytes of a payload.

        Raises:
            ArchiveError: the segment is missing, or shorter than the index says.
        """
        mapped = self._maps.get(segment)
        if mapped is None or first + length > len(mapped):
            name = segment_name(segment)
            try:
                with open(self._files.open(name, os.O_RDONLY), "rb") as file:
                    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise _not_read(self._files.path(name), error) from None
            self._maps[segment] = mapped
        self._maps.move_to_end(segment)
        if len(self._maps) > MOST_MAPPED:
            self._maps.popitem(last=False)  # arrays that lie in it keep it
        if first < 0 or length < 0 or first + length > len(mapped):
            raise ArchiveError(f"{self.folder}: {segment_name(segment)} ends before the object at {first}")
        return memoryview(mapped)[first : first + length]

    def is_as_written(self, segment: int, first: int, length: int, checksum: int) -> bool:
        """Return whether a payload is what was written.

        The payload is read, and not mapped: a disk that fails is an error then, and not the end of the process.

        Raises:
            ArchiveError: it cannot be read, or the segment ends before it.
        """
        name = segment_name(segment)
        found, at, end = 0, first, first + length
        try:
            if first < 0 or length < 0:
                raise ValueError("the index says of an object that it lies nowhere")
            descriptor = self._files.open(name, os.O_RDONLY)
            try:
                while at < end:
                    piece = os.pread(descriptor, min(_PIECE_BYTES, end - at), at)
                    if not piece:
                        raise ArchiveError(f"{self.folder}: {segment_name(segment)} ends before the object at {first}")
                    found, at = zlib.crc32(piece, found), at + len(piece)
            finally:
                os.close(descriptor)
        except (OSError, ValueError, OverflowError) as error:
            raise _not_read(self._files.path(name), error) from None
        return found == checksum


def _not_read(path: str, error: Exception) -> ArchiveError:
    return ArchiveError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")


# --- who has an archive open ------------------------------------------------------------------------------------------


def lock_for_writing(files: ArchiveFiles) -> int:
    """Return a descriptor that keeps other writers away until it is closed.

    Raises:
        ArchiveError: another program writes the archive, or a file for locks is no regular file.
    """
    folder, descriptor = files.folder, -1
    try:
        descriptor = files.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(files.open(_READERS, os.O_RDONLY | os.O_CREAT))
    except (ArchiveError, OSError) as error:
        if descriptor >= 0:
            os.close(descriptor)
        if isinstance(error, ArchiveError):
            raise
        if isinstance(error, BlockingIOError):
            raise ArchiveError(f"{folder} is being written by another program") from None
        if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise ArchiveError(
                f"{folder} cannot be written: its file system has no locks ({error.strerror}); write the archive to a "
                "local disk, or have the file system mounted with locks (Lustre: flock; NFS: without nolock)"
            ) from None
        raise not_written(folder, error) from None
    return descriptor


def lock_for_reading(files: ArchiveFiles) -> int | None:
    """Return a descriptor that keeps segments from being removed until it is closed.

    `None`: this user cannot have one, of an archive that an earlier version has written.

    Raises:
        ArchiveError: the file for locks is no regular file, or another program keeps it locked.
    """
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_CREAT):
        try:
            descriptor = files.open(_READERS, flags)
        except OSError:
            continue
        try:
            _lock_patiently(files, descriptor)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                return None
            raise
        return descriptor
    return None


def _lock_patiently(files: ArchiveFiles, descriptor: int) -> None:
    end = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            # Who removes segments has it for as long as that takes.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise ArchiveError(
                    f"{files.path(_READERS)} was locked by another program for {LOCK_WAIT_S:g} s: nobody can read the "
                    "archive meanwhile"
                ) from None
        time.sleep(0.01)


def remove_segments(files: ArchiveFiles, used: Container[int]) -> int:
    """Remove the segments that are not used, unless somebody reads the archive; return how many stay for readers.

    Raises:
        ArchiveError: one cannot be removed.
    """
    unused = [number for number in segments_of(files) if number not in used]
    if not unused:
        return 0
    descriptor = -1
    try:
        # NFS locks a file for one alone only if it is open for writing.
        descriptor = files.open(_READERS, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for number in unused:
            files.remove(segment_name(number))
    except BlockingIOError:
        return len(unused)
    except OSError as error:
        raise not_written(files.folder, error) from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return 0
