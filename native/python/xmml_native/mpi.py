"""Ranks of an MPI program in Python, through a communicator of mpi4py."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: MPI counts in int: longer data travel in pieces.
PIECE_BYTES = 1 << 30
_TAG = 1


class Ranks:
    """What the runtime needs of a communicator. It has one of its own, apart from the messages of the program."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm.Dup()
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()

    def give(self, data: memoryview) -> None:
        """Rank 0: bytes for all others, which take them."""
        self.take(data)

    def take(self, data: memoryview) -> None:
        """The others: take the bytes that rank 0 gives."""
        for piece in _pieces(data):
            self._comm.Bcast(piece, root=0)

    def deliver(self, data: memoryview) -> None:
        """The others: bytes for rank 0, which collects them."""
        for piece in _pieces(data):
            self._comm.Send(piece, dest=0, tag=_TAG)

    def collect(self, rank: int, data: memoryview) -> None:
        """Rank 0: take the bytes that a rank delivers."""
        for piece in _pieces(data):
            self._comm.Recv(piece, source=rank, tag=_TAG)

    def abort(self) -> None:
        """End all ranks at once: one that has failed must not leave the others waiting for it."""
        self._comm.Abort(1)


def print_whole_lines() -> None:
    """Let each line of this rank go out in one piece, its end included.

    Programs of a run write unbuffered, every argument of a ``print`` by itself; mpirun would mix them with those of
    other ranks.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def _pieces(data: memoryview) -> list[list[Any]]:
    from mpi4py import MPI

    starts = range(0, len(data), PIECE_BYTES)
    return [[data[start : start + PIECE_BYTES], MPI.BYTE] for start in starts]


@dataclass(frozen=True)
class Block:
    """The part of an array that one rank holds.

    Attributes:
        shape: extents of the whole array.
        start: first index of the part in each dimension.
        extent: its extents.
    """

    shape: tuple[int, ...]
    start: tuple[int, ...]
    extent: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        """What selects the part from the whole array."""
        return tuple(slice(start, start + extent) for start, extent in zip(self.start, self.extent, strict=True))
