"""What the ends of a copy say of files, for tests that look at it or change it."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgpack

#: Of a file in which a byte has changed, so much is sent [bytes]; and so much of files travels in one message.
RANGE_B = 512 << 10
MOST_DATA_B = 8 * RANGE_B
#: Ends the provisional name of a file.
PART_SUFFIX = ".xmml-part"


class FileMessage(IntEnum):
    """The kinds of messages about files."""

    ENTRIES = 20
    LISTED = 21
    CHUNK = 22
    SPOILT = 23
    FINISHED = 24
    HAVE = 40
    STANDS = 41
    AGAIN = 42
    STORED = 43
    FAILED = 44
    CONSIDERED = 45
    DONE = 46
    STOPPED = 47


def read(message: bytes | memoryview) -> tuple[int, list[Any]]:
    """The kind and the values of a message."""
    kind, *values = msgpack.unpackb(message, unicode_errors="surrogateescape")
    return int(kind), values


def written(kind: int, *values: Any) -> bytes:
    """A message as bytes."""
    packed: bytes = msgpack.packb([kind, *values], unicode_errors="surrogateescape")
    return packed
