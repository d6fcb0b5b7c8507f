"""What two ends say to each other.

A message is a MessagePack array, its kind first. File names travel as their bytes decoded with surrogateescape, so
that any name survives. Everything that comes from the other end is checked for its shape before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgpack

from xmml_sites.transfer.ranges import MOST_DIGESTS_B, RANGE_B

#: Of these messages, and of how both ends cut files into ranges.
VERSION = 4

#: The first line of the remote end; what was printed before it is a greeting of the remote shell.
MAGIC = b"xmml-copy 1\n"

#: Longest message [bytes]: the digests of a file, with what stands around them.
LONGEST_MESSAGE_B = 2 * MOST_DIGESTS_B
#: Pieces of small files that travel in one message.
MOST_PIECES = 1024
#: Entries of the listing in one message.
MOST_ENTRIES = 1024
#: Bytes of files in one message.
MOST_DATA_B = 8 * RANGE_B

#: Bytes of a message that travel in one piece through ssh while a better way may be found.
PART_B = 64 << 10

#: The head of bytes of any length in MessagePack (bin 32).
_BINARY = struct.Struct(">BI")


class MessageKind(IntEnum):
    """The kinds of messages."""

    # While the way is agreed upon, over ssh; LISTEN to GO also while files travel there.
    HELLO = 0
    """version, the wish, a secret for this copy, the fingerprint of our certificate"""
    READY = 1
    """version, fingerprint of the remote end's certificate, its address and ours as ssh sees them (empty: unknown)"""
    REFUSED = 2
    """why"""
    LISTEN = 3
    """first port, last port (0, 0: any)"""
    LISTENING = 4
    """port"""
    DIAL = 5
    """addresses, port, streams (nil: automatic)"""
    JOINED = 6
    """-"""
    NOT_JOINED = 7
    """why"""
    GO = 8
    """way: the copying begins over it; said again, and answered, while it goes on through ssh: everything that this end
    says from here on comes over that way"""

    # Either way, while a copy may go over to another way.
    PART = 10
    """bytes of a message, of which more follow"""
    LAST = 11
    """the last bytes of a message that has come in parts"""

    # Source to target.
    ENTRIES = 20
    """number of the first, entries"""
    LISTED = 21
    """files, bytes in them, what was left out with reasons"""
    CHUNK = 22
    """pieces (number of the file, offset, length, digest), their bytes, numbers of the files that end with it"""
    SPOILT = 23
    """number of the file, why it cannot be copied"""
    FINISHED = 24
    """-: everything that was asked for has been sent; said again when more was asked for since"""

    # Target to source.
    HAVE = 40
    """number of the file, digests of the ranges that are there"""
    STANDS = 41
    """number of the file: it need not be copied"""
    AGAIN = 42
    """number of the file, ranges (offset, length) that came altered"""
    STORED = 43
    """number of the file"""
    FAILED = 44
    """number of the entry, why"""
    CONSIDERED = 45
    """-: there is no entry left to ask for"""
    DONE = 46
    """-: every file has been stored or has failed"""
    STOPPED = 47
    """why this end cannot go on"""


class Malformed(Exception):
    """The other end sent something that cannot be; the text says what."""


def pack(kind: MessageKind, *values: Any) -> bytes:
    """A message as bytes."""
    packed: bytes = msgpack.packb([int(kind), *values], unicode_errors="surrogateescape")
    return packed


def chunk(pieces: Sequence[tuple[int, int, int, bytes]], data: Sequence[bytes], ends: Sequence[int]) -> bytes:
    """A CHUNK as bytes; what is in it is copied once, while `pack` would do so three times."""
    packer = msgpack.Packer(autoreset=False)
    packer.pack_array_header(4)
    packer.pack(int(MessageKind.CHUNK))
    packer.pack(pieces)
    size_b = sum(map(len, data))
    return b"".join([packer.bytes(), _BINARY.pack(0xC6, size_b), *data, msgpack.packb(ends)])


def part(kind: MessageKind, data: memoryview) -> bytes:
    """A PART or LAST as bytes."""
    return b"".join([bytes([0x92, kind]), _BINARY.pack(0xC6, len(data)), data])


def unpack(data: bytes | memoryview) -> tuple[MessageKind, list[Any]]:
    """The kind and the values of a message.

    Raises:
        Malformed: it is none.
    """
    try:
        values = msgpack.unpackb(
            data,
            unicode_errors="surrogateescape",
            max_array_len=max(MOST_ENTRIES, MOST_PIECES) * 2,
            max_map_len=64,
            max_ext_len=0,
            strict_map_key=True,
        )
        kind = MessageKind(values[0])
    except (ValueError, TypeError, IndexError, KeyError, msgpack.UnpackException) as error:
        raise Malformed(f"a message of {len(data)} bytes cannot be read") from error
    return kind, values[1:]


def number(value: Any, below: int) -> int:
    """A number of an entry that was sent.

    Raises:
        Malformed: there is no entry of that number.
    """
    if not isinstance(value, int) or not 0 <= value < below:
        raise Malformed(f"there is no entry {value!r}")
    return value
