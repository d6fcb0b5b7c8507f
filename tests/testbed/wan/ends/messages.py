"""What both ends know: the messages, and how progress is told to the test."""

from __future__ import annotations

import mmap
import os
import struct

import numpy as np
from numpy.typing import NDArray

#: Words of the messages in turn: nothing, little, a page, what fills buffers; every hundredth is larger than any credit
#: at first.
WORDS = (0, 8, 8, 512, 8, 8192, 8, 32768)
LARGE_WORDS = 1 << 18
#: Where this is in the environment of both ends, every message is a large one.
ALL_LARGE = "COUNTED_ALL_LARGE"


def content(number: int) -> NDArray[np.uint64]:
    """The message of this number: its length and every word depend on the number, the words on their place, too."""
    return words(number, LARGE_WORDS if ALL_LARGE in os.environ or number % 100 == 99 else WORDS[number % len(WORDS)])


def words(number: int, count: int) -> NDArray[np.uint64]:
    """So many words, each of which depends on the number and on its place."""
    return (np.arange(count, dtype=np.uint64) ^ np.uint64(number << 24)) * np.uint64(0x9E3779B97F4A7C15)


class Progress:
    """Two numbers in a file that the test sees as well, as they are."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._numbers = mmap.mmap(file.fileno(), 16)

    @property
    def count(self) -> int:
        """Messages so far."""
        return int(struct.unpack_from("=Q", self._numbers)[0])

    @count.setter
    def count(self, count: int) -> None:
        struct.pack_into("=Q", self._numbers, 0, count)

    @property
    def is_over(self) -> bool:
        """Whether the sender is to stop."""
        return bool(self._numbers[8])

    def stop(self) -> None:
        self._numbers[8] = 1
