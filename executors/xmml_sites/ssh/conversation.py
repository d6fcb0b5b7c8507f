"""A command at a site that speaks in messages with us, over one channel or several.

The other end is `native/transfer/src/multichannel_connection.rs`. A message goes by whichever channel is free, with its
number and its length in front, and arrives in the order in which it was sent.
"""

from __future__ import annotations

import asyncio
import functools
import struct
from collections import deque
from collections.abc import Callable

from xmml_sites.ssh.channel import CommandChannel, CommandOutput
from xmml_sites.ssh.failure import MOST_SHOWN, CommandExited, ConnectionLost, TooMuchOutput, TransportError

#: Longest message that is believed [bytes].
LONGEST_MESSAGE_B = 128 << 20
#: Number and length of a message.
_HEAD = struct.Struct("<QI")
#: In place of a number. `_HELLO`: the channel is open; sent first, and as a heartbeat. `_END`: it carries no more
#: messages.
_HELLO, _END = 2**64 - 2, 2**64 - 1
#: So many messages, and bytes of them, are kept until their turn comes; the channels of later ones are not read
#: meanwhile.
_MOST_AHEAD = 32
_MOST_KEPT_B = 32 << 20
#: Messages that wait for a channel.
_MOST_WAITING = 4
#: How many signs of life a channel that has nothing else to carry carries while a lease lasts.
_SIGNS_IN_A_LEASE = 6


class Conversation:
    """Messages to a command and from it."""

    def __init__(
        self,
        site: str,
        channel: CommandChannel,
        open_channel: Callable[[Conversation], None],
        on_piece: Callable[[], None] | None = None,
        lease_s: float | None = None,
    ) -> None:
        """
        Args:
            open_channel: opens a further channel for the conversation, and gives it to `add_channel`.
            on_piece: is called whenever something comes.
            lease_s: the command ends when it has heard nothing over a channel for so long; `None`: it does not.
        """
        self._site, self._open_channel, self._on_piece = site, open_channel, on_piece
        self._sign_every_s = lease_s and lease_s / _SIGNS_IN_A_LEASE
        self._changed = asyncio.Condition()
        self._outgoing: deque[tuple[int, bytes]] = deque()
        self._sent = self._received = 0
        self._arrived: dict[int, bytes] = {}
        self._kept_b = 0
        self._open_channels = 1
        self._is_closed = False
        #: What the login scripts have printed in place of a command that never began.
        self.banner = ""
        self._failure: Exception | None = None
        frames = _Frames(site, CommandOutput(site, channel.stdout), on_piece)
        self._carrying: list[asyncio.Future[None]] = [asyncio.ensure_future(self._run_channel(channel, frames))]

    def open_more_channels(self, count: int) -> None:
        """Let further channels carry messages, too, as soon as they have come about."""
        for _ in range(count):
            self._open_channel(self)

    async def send(self, message: bytes) -> None:
        """Send a message; wait while the channels are full.

        Raises:
            TransportError: nobody takes it.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._outgoing) < _MOST_WAITING or self._failure)
            if self._failure is not None:
                raise self._as_transport_error(self._failure)
            self._outgoing.append((self._sent, message))
            self._sent += 1
            self._changed.notify_all()

    async def receive(self) -> bytes:
        """Wait for a message.

        Raises:
            CommandExited: none will come, because the command has ended.
            TooMuchOutput: it is too long.
            TransportError: none will come.
        """
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._received in self._arrived or self._failure or not self._open_channels
            )
            message = self._arrived.pop(self._received, None)
            if message is None:
                raise self._as_transport_error(self._failure or CommandExited(self._site))
            self._received += 1
            self._kept_b -= len(message)
            self._changed.notify_all()
            return message

    async def finish(self) -> None:
        """Send what waits and no more, and throw away what still comes, until the command has ended."""
        async with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        await asyncio.gather(*self._carrying)

    async def stop(self) -> None:
        """End what anybody waits for."""
        await self._fail(TransportError(self._site, "the copy was cancelled"))
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def add_channel(self, channel: CommandChannel) -> bool:
        """Carry messages by a further channel, until there are no more; return whether that was possible: the other end
        must say that it is there."""
        output = CommandOutput(self._site, channel.stdout)
        frames = _Frames(self._site, output, self._on_piece)
        try:
            number, _ = await frames.next()
        except (TransportError, OSError):
            return False
        if number != _HELLO or self._is_closed:
            return False
        self._open_channels += 1
        carrying = asyncio.ensure_future(self._run_channel(channel, frames))
        self._carrying.append(carrying)
        await carrying
        return True

    async def _run_channel(self, channel: CommandChannel, frames: _Frames) -> None:
        writing = asyncio.ensure_future(self._write(channel))
        try:
            try:
                await self._read(frames)
            except (TransportError, OSError) as error:
                await self._fail(error)
            await frames.discard()  # a command has not ended before its output is read
            await writing
        except (TransportError, OSError) as error:
            await self._fail(error)
        finally:
            writing.cancel()

    async def _read(self, frames: _Frames) -> None:
        while True:
            number, message = await frames.next()
            if number == _HELLO:
                continue
            async with self._changed:
                if number == _END:
                    self._open_channels -= 1
                    self._changed.notify_all()
                    return
                await self._changed.wait_for(functools.partial(self._is_near_or_over, number, len(message)))
                if self._is_closed or self._failure is not None:
                    continue  # nobody takes it
                if number < self._received or number in self._arrived:
                    raise TransportError(self._site, f"the command at the site sent message {number} twice")
                self._arrived[number] = message
                self._kept_b += len(message)
                self._changed.notify_all()

    def _as_transport_error(self, failure: Exception) -> TransportError:
        return failure if isinstance(failure, TransportError) else ConnectionLost(self._site, str(failure))

    def _is_near_or_over(self, number: int, size_b: int) -> bool:
        """Whether there is room for a message, or no need of any; for the next one there is always."""
        ahead = number - self._received
        is_near = ahead <= _MOST_AHEAD and self._kept_b + size_b <= _MOST_KEPT_B
        return ahead <= 0 or is_near or self._is_closed or self._failure is not None

    async def _write(self, channel: CommandChannel) -> None:
        stdin = channel.stdin
        try:
            stdin.write(_HEAD.pack(_HELLO, 0))
            number = _HELLO
            while number != _END and (following := await self._next()) is not None:
                number, message = following
                stdin.write(_HEAD.pack(number, len(message)))
                stdin.write(message)
                await stdin.drain()
            stdin.write_eof()
        except Exception as error:  # each kind of channel has its own
            await self._fail(error)

    async def _next(self) -> tuple[int, bytes] | None:
        """Return what a channel carries next: a sign of life if that has been nothing for some time.

        The end of a channel says that nothing was lost. So it carries nothing more, not even its end, after a failure.
        """
        async with self._changed:
            try:
                async with asyncio.timeout(self._sign_every_s):
                    await self._changed.wait_for(lambda: self._outgoing or self._is_closed or self._failure)
            except TimeoutError:
                return _HELLO, b""
            if self._failure is not None:
                return None
            if not self._outgoing:
                return _END, b""
            self._changed.notify_all()
            return self._outgoing.popleft()

    async def _fail(self, error: Exception) -> None:
        async with self._changed:
            self._failure = self._failure or error
            if isinstance(error, CommandExited):
                self.banner = self.banner or error.said
            self._changed.notify_all()


class _Frames:
    """The messages that a channel brings, with their numbers."""

    def __init__(self, site: str, output: CommandOutput, on_piece: Callable[[], None] | None) -> None:
        self._site, self._output, self._on_piece = site, output, on_piece
        self._unread = bytearray()

    async def next(self) -> tuple[int, bytes]:
        """Wait for a message.

        Raises:
            CommandExited: the command has ended, or has never begun.
            TooMuchOutput: the message is too long.
        """
        number, length = _HEAD.unpack(await self._exactly(_HEAD.size))
        if number in (_HELLO, _END):
            return number, b""
        if length > LONGEST_MESSAGE_B:
            raise TooMuchOutput(
                self._site,
                f"the command at the site announced a message of {length:,} bytes; the limit is {LONGEST_MESSAGE_B:,}",
            )
        return number, await self._exactly(length)

    async def discard(self) -> None:
        """Throw away what still comes."""
        while await self._output.read():
            pass

    async def _exactly(self, length: int) -> bytes:
        while len(self._unread) < length:
            piece = await self._output.read()
            if not piece or not self._output.has_begun:
                raise CommandExited(self._site, piece.decode(errors="replace").strip()[-MOST_SHOWN:])
            if self._on_piece is not None:
                self._on_piece()
            self._unread += piece
        taken = bytes(memoryview(self._unread)[:length])
        del self._unread[:length]
        return taken
