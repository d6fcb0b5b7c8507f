"""A command at a site that speaks in messages with us, over one channel."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator

from xmml_sites.ssh.channel import CommandChannel, CommandOutput
from xmml_sites.ssh.failure import ConnectionLost, TooMuchOutput

#: Longest message that is believed [bytes].
LONGEST_MESSAGE_B = 128 << 20
_LENGTH = struct.Struct("<I")


class Conversation:
    """Messages to a command and from it, each with its length in front."""

    def __init__(self, site: str, channel: CommandChannel) -> None:
        self._site, self._channel = site, channel
        self._unread = bytearray()
        self._output = CommandOutput(site, channel.stdout)
        self._sending, self._receiving = asyncio.Lock(), asyncio.Lock()
        self._waiting: set[asyncio.Task[object] | None] = set()

    async def send(self, message: bytes) -> None:
        """Send a message; wait while the channel is full.

        Raises:
            ConnectionLost: nobody takes it.
        """
        assert self._channel.stdin is not None
        try:
            async with self._awaited(), self._sending:
                self._channel.stdin.write(_LENGTH.pack(len(message)))
                self._channel.stdin.write(message)
                await self._channel.stdin.drain()
        except Exception as error:  # each kind of channel has its own
            raise ConnectionLost(self._site, str(error)) from None

    async def receive(self) -> bytes:
        """Wait for a message.

        Raises:
            ConnectionLost: none will come.
            TooMuchOutput: it is too long.
        """
        async with self._awaited(), self._receiving:
            (length,) = _LENGTH.unpack(await self._exactly(_LENGTH.size))
            if length > LONGEST_MESSAGE_B:
                raise TooMuchOutput(self._site, f"a message of {length} bytes")
            return await self._exactly(length)

    @contextlib.asynccontextmanager
    async def _awaited(self) -> AsyncIterator[None]:
        task = asyncio.current_task()
        self._waiting.add(task)
        try:
            yield
        finally:
            self._waiting.discard(task)

    async def stop(self) -> None:
        """End what other tasks wait for."""
        waiting = [task for task in self._waiting if task is not None]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def finish(self) -> None:
        """Send no more, and throw away what still comes, until the command has ended."""
        assert self._channel.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._channel.stdin.write_eof()
        async with self._receiving:
            while await self._output.read():
                pass

    async def _exactly(self, length: int) -> bytes:
        while len(self._unread) < length:
            piece = await self._output.read()
            if not piece or not self._output.has_begun:
                raise ConnectionLost(self._site, "the command there has ended")
            self._unread += piece
        taken = bytes(memoryview(self._unread)[:length])
        del self._unread[:length]
        return taken
