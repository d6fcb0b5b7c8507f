"""The ranges of a file and their checksums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

from blake3 import blake3

from xmml.late_dataclass import dataclass

#: What is hashed and checked as one [bytes]: of a file in which a byte has changed, so much is sent.
RANGE_B = 512 << 10
DIGEST_B = 32
#: Not more digests of a file are exchanged [bytes]: those of the first TiB. What lies behind is sent.
MOST_DIGESTS_B = 64 << 20


@dataclass(frozen=True)
class Range:
    """Bytes of a file."""

    offset: int
    length: int


def ranges(size: int) -> Iterator[Range]:
    """A file of this size [bytes], cut into ranges."""
    for offset in range(0, size, RANGE_B):
        yield Range(offset, min(RANGE_B, size - offset))


def digest(data: bytes | memoryview) -> bytes:
    """The BLAKE3 checksum of some bytes."""
    return blake3(data).digest()


def digests(file: BinaryIO, size: int) -> bytes:
    """The checksums of all whole ranges that `file` has of a file of `size` bytes, one after the other.

    They end where the file ends: the rest is not there.
    """
    found = bytearray()
    for each in islice(ranges(size), MOST_DIGESTS_B // DIGEST_B):
        data = file.read(each.length)
        if len(data) < each.length:
            break
        found += digest(data)
    return bytes(found)


def stands(digests: bytes, number: int, wanted: bytes) -> bool:
    """Whether range `number` is there already, by the digests that the other end has sent."""
    return digests[number * DIGEST_B : (number + 1) * DIGEST_B] == wanted
