"""What two ends say to each other to agree on a way.

A message is a MessagePack array, its kind first. What they say of files is `native/transfer/src/message.rs`. File names
travel as their bytes decoded with surrogateescape, so that any name survives. Everything that comes from the other end
is checked for its shape before it is used.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import msgpack

#: The first line of the remote end; what was printed before it is a greeting of the remote shell.
MAGIC = b"xmml-copy 1\n"

#: Longest message [bytes]: the digests of a file, which are 64 MiB at most, with what stands around them.
LONGEST_MESSAGE_B = 128 << 20

#: Bytes of a message that travel in one piece through ssh while a better way may be found.
PART_B = 64 << 10

#: The head of bytes of any length in MessagePack (bin 32).
_BINARY = struct.Struct(">BI")


class MessageKind(IntEnum):
    """The kinds of messages; those from 20 on are about files."""

    # While the way is agreed upon, over ssh; LISTEN to GO also while files travel there.
    HELLO = 0
    """version, the request, a secret for this copy, the fingerprint of our certificate"""
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


class Malformed(Exception):
    """The other end sent something that cannot be; the text says what."""


def pack(kind: MessageKind, *values: Any) -> bytes:
    """A message as bytes."""
    packed: bytes = msgpack.packb([int(kind), *values], unicode_errors="surrogateescape")
    return packed


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
            max_array_len=1 << 16,
            max_map_len=64,
            max_ext_len=0,
            strict_map_key=True,
        )
        kind = MessageKind(values[0])
    except (ValueError, TypeError, IndexError, KeyError, msgpack.UnpackException) as error:
        raise Malformed(f"a message of {len(data)} bytes cannot be read") from error
    return kind, values[1:]
