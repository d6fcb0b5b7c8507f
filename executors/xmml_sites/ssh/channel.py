"""A running command, and what is said to it and by it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Protocol

from xmml_sites.ssh.failure import ConnectionLost, TooMuchOutput
from xmml_sites.ssh.remote_shell import BEGIN

#: What login scripts may print before the command begins [bytes].
MOST_BANNER = 2**18
#: Longer lines come in pieces of so many characters.
LONGEST_LINE = 2**16
#: How much is read and written at a time [bytes].
PIECE = 2**18


class Writer(Protocol):
    """The input of a command."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def write_eof(self) -> None: ...


class Reader(Protocol):
    """An output of a command."""

    async def read(self, n: int = -1) -> bytes: ...


class CommandChannel(Protocol):
    """A running command."""

    @property
    def stdin(self) -> Writer: ...
    @property
    def stdout(self) -> Reader: ...
    @property
    def stderr(self) -> Reader: ...
    async def wait(self) -> int:
        """Its exit status, or 128 plus the signal's number; `ConnectionLost` if it cannot be known."""

    async def abandon(self) -> None:
        """Close it, whatever runs there."""


class CommandOutput:
    """An output of a command, without what login scripts have printed before it.

    Attributes:
        has_begun: the command has begun. If it never does, what the login scripts have printed is all that is read:
            it may say why.
    """

    def __init__(self, site: str, reader: Reader) -> None:
        self.has_begun = False
        self._site = site
        self._reader = reader
        self._banner = b""

    async def read(self) -> bytes:
        """Return what comes next; empty: nothing more comes.

        Raises:
            TooMuchOutput: login scripts print without end.
            ConnectionLost: nobody knows what would have come.
        """
        while not self.has_begun:
            piece = await self._reader.read(PIECE)
            if not piece:
                banner, self._banner = self._banner, b""
                return banner
            before, mark, after = (self._banner + piece).partition(BEGIN)
            self._banner, self.has_begun = (b"", True) if mark else (before, False)
            if after:
                return after
            if len(self._banner) > MOST_BANNER:
                raise TooMuchOutput(
                    self._site, "its login scripts print without end; make ~/.bashrc silent for commands"
                )
        return await self._reader.read(PIECE)


async def collect(site: str, reader: Reader, most: int) -> bytes:
    """Return all that a command writes to an output.

    Args:
        most: more than this is an error [bytes].

    Raises:
        TooMuchOutput: it writes more.
        ConnectionLost: nobody knows what would have come.
    """
    output, pieces, size = CommandOutput(site, reader), list[bytes](), 0
    while piece := await output.read():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise TooMuchOutput(site, f"a command wrote more than {most} bytes")
    return b"".join(pieces)


async def lines(site: str, reader: Reader) -> AsyncIterator[str]:
    """Yield the lines that a command writes to an output; long ones in pieces.

    Raises:
        TooMuchOutput: login scripts print without end.
        ConnectionLost: nobody knows what would have come.
    """
    output, rest = CommandOutput(site, reader), ""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while piece := await output.read():
        rest += decoder.decode(piece)
        *whole, rest = rest.split("\n")
        for line in whole:
            yield line
        while len(rest) > LONGEST_LINE:
            yield rest[:LONGEST_LINE]
            rest = rest[LONGEST_LINE:]
    if rest := rest + decoder.decode(b"", final=True):
        yield rest


async def feed(stdin: Writer, data: bytes) -> bytes:
    """Give a command its input; one that does not want all of it is no failure."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, ConnectionLost):
        for start in range(0, len(data), PIECE):
            stdin.write(data[start : start + PIECE])
            await stdin.drain()
        stdin.write_eof()
    return b""


async def discard_output(*readers: Reader) -> None:
    """Throw away what is still to be read: a subprocess is not over before its outputs are."""
    for reader in readers:
        with contextlib.suppress(OSError):
            while await reader.read(PIECE):
                pass


def send_signal(process: asyncio.subprocess.Process, number: int) -> None:
    """Send a signal to a process, unless it has ended.

    The method of the same name looks first whether the process has ended. Then asyncio, which waits for that, does not
    get the exit status: it complains on the terminal and reports 255.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


async def wait_until_ended(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process that was killed, and throw away what it still writes."""
    await discard_output(*filter(None, (process.stdout, process.stderr)))
    await process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # Python before 3.11.3 prints what nobody hears of a broken pipe
            await process.stdin.wait_closed()
