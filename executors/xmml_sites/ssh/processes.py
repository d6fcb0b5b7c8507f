"""Commands that run at a site for longer, and how they are stopped when their lease expires or they are cancelled."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from xmml_sites.ssh.channel import CommandChannel, lines
from xmml_sites.ssh.failure import ConnectionLost, TransportError
from xmml_sites.ssh.remote_shell import kill_group, kill_program, leased, path_word, renewal

if TYPE_CHECKING:
    from xmml_sites.ssh.channel_transport import ChannelTransport

#: So long closing waits until commands are ended for which nobody waits any more [s].
ENDING_WITHIN_S = 10.0
#: So long the errors of a program of ours that has ended are waited for [s]: others may have them open, too.
SAYS_WITHIN_S = 1.0
#: So long a program of ours may take to end when its input does [s]: a second more than it gives itself
#: (`native/site/src/input_lease.rs`).
PROGRAM_ENDS_WITHIN_S = 4.0

Started = TypeVar("Started", bound="ChannelProcess")


class ChannelProcess(abc.ABC):
    """A command that runs for longer (`transport.RemoteProcess` says what the methods do)."""

    def __init__(self, site: str, channel: CommandChannel, forget: Callable[[], None]) -> None:
        """
        Args:
            forget: is called when it has ended, or is out of reach.
        """
        self.site = site
        self._channel = channel
        self._forget = forget
        self._waiting: asyncio.Task[int] = asyncio.ensure_future(self._wait())
        # Nobody need wait for its end; that its connection was lost is then no matter.
        self._waiting.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _wait(self) -> int:
        try:
            return await self._channel.wait()
        finally:
            self._forget()

    async def write(self, data: bytes) -> None:
        try:
            self._channel.stdin.write(data)
            await self._channel.stdin.drain()
        except OSError as error:  # it has ended
            raise ConnectionLost(self.site, str(error)) from None

    async def close_stdin(self) -> None:
        self._channel.stdin.write_eof()

    def lines(self) -> AsyncIterator[str]:
        return lines(self.site, self._channel.stdout)

    async def wait(self) -> int:
        return await asyncio.shield(self._waiting)

    async def kill(self) -> None:
        await self._end()
        with contextlib.suppress(TransportError):
            await self.wait()

    @abc.abstractmethod
    async def _end(self) -> None:
        """Have it end."""


class LeasedProcess(ChannelProcess):
    """A command with a lease that the shell keeps for it.

    Attributes:
        folder: at the site, of its lease.
    """

    def __init__(self, leases: Leases, folder: str, channel: CommandChannel) -> None:
        super().__init__(leases.site, channel, lambda: leases.forget(self))
        self.folder = folder
        self._leases = leases

    async def _end(self) -> None:
        await self._leases.kill(self)


class OwnProgram(ChannelProcess):
    """A program of ours, which ends with its input, and when it has heard nothing over that for its lease.

    To kill it is to close its input, and to kill the process, without a group, if that does not end it.
    """

    def __init__(self, transport: ChannelTransport, channel: CommandChannel, lease_s: float) -> None:
        super().__init__(transport.site, channel, lambda: transport.forget(self))
        self._transport = transport
        self._identity: list[str] = []
        self._last_error = ""
        self._living = asyncio.ensure_future(self._live(lease_s))
        self._reading = asyncio.ensure_future(self._read_errors())
        self._waiting.add_done_callback(self._stop)

    def _stop(self, _: object) -> None:
        self._living.cancel()
        asyncio.get_running_loop().call_later(SAYS_WITHIN_S, self._reading.cancel)

    async def close_stdin(self) -> None:
        self._living.cancel()
        await super().close_stdin()

    async def how_ended(self) -> str:
        status = await self.wait()
        await asyncio.wait([self._reading])
        return f"status {status}" + (f": {self._last_error}" if self._last_error else "")

    async def _live(self, lease_s: float) -> None:
        """Write an empty line three times in a lease. `write` waits while the channel is full; this does not wait, so
        that the lease is renewed even then."""
        while True:
            await asyncio.sleep(lease_s / 3)
            with contextlib.suppress(OSError, TransportError):
                self._channel.stdin.write(b"\n")

    async def _read_errors(self) -> None:
        """Read its process id and start, by which it can be killed without meeting another one; then keep the last
        line, which may say why it ends."""
        with contextlib.suppress(TransportError, OSError):
            async for line in lines(self.site, self._channel.stderr):
                words = line.split()
                if not self._identity and len(words) == 2 and all(map(str.isdigit, words)):
                    self._identity = words
                elif words:
                    self._last_error = line.strip()

    async def _end(self) -> None:
        with contextlib.suppress(OSError):
            await self.close_stdin()
        with contextlib.suppress(TransportError, TimeoutError):
            async with asyncio.timeout(PROGRAM_ENDS_WITHIN_S):
                await self.wait()
        if not self._waiting.done() and self._identity:  # else it ends as soon as it has begun
            await self._transport.run(kill_program(*self._identity))


class Leases:
    """The commands that a transport has started, each with a folder of its own for its lease at the site."""

    def __init__(self, transport: ChannelTransport) -> None:
        self._transport = transport
        self.site = transport.site
        self._name: str | None = None
        self._naming = asyncio.Lock()
        self._running: dict[str, tuple[LeasedProcess, float]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._stamp = 0
        self._renewing: asyncio.Task[None] | None = None

    async def start(self, command: str, lease_s: float) -> LeasedProcess:
        """Start a command."""
        return await self.ended_if_cancelled(self._start(command, lease_s))

    async def ended_if_cancelled(self, start: Coroutine[Any, Any, Started]) -> Started:
        """Start something. Cancelled, it is ended at once if the site began it all the same."""
        starting = asyncio.ensure_future(start)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._go_on(_end_unwanted(starting))
            raise

    async def _start(self, command: str, lease_s: float) -> LeasedProcess:
        async with self._naming:
            if self._name is None:
                # What all folders are called, and whether one can be made there. The commands make them: one that
                # was made before would stay if we were killed in between.
                named = await self._transport.checked(
                    'umask 077; name="${TMPDIR:-/tmp}/xmml-lease.XXXXXXXXXX"; '
                    'made=$(mktemp -d "$name") && rmdir "$made" && mktemp -u "$name"',
                    "making a folder for leases",
                )
                self._name = named.strip()
        folder = f"{self._name}.{os.urandom(4).hex()}"
        await self._transport._channels.acquire()
        try:
            ends_connection = self._transport.is_own
            channel = await self._transport.open_channel(
                leased(command, folder=folder, lease_s=lease_s, ends_connection=ends_connection)
            )
        except BaseException:
            self._transport._channels.release()
            raise
        process = LeasedProcess(self, folder, channel)
        self._running[folder] = process, lease_s
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())
        return process

    def forget(self, process: LeasedProcess) -> None:
        """A command has ended, or is out of reach."""
        if self._running.pop(process.folder, None):
            self._transport._channels.release()
        if not self._running and self._renewing is not None:
            self._renewing.cancel()

    async def kill(self, process: LeasedProcess) -> None:
        """End a command. If the caller is cancelled, this goes on: what ends a command after its end would leave a
        folder."""
        if process.folder in self._running:
            await asyncio.shield(self._go_on(self._kill(process)))

    async def _kill(self, process: LeasedProcess) -> None:
        await self._transport.run(kill_group(process.folder))

    def _go_on(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do work in the background that `close` waits for."""
        task = asyncio.ensure_future(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _renew(self) -> None:
        while self._running:
            await asyncio.sleep(min(lease_s for _, lease_s in self._running.values()) / 3)
            self._stamp += 1
            with contextlib.suppress(TransportError):  # the next time, or the lease runs out, as it should
                await self._transport.run(renewal(self._running, self._stamp), timeout_s=20)

    async def close(self) -> None:
        """End everything that still runs."""
        if ending := list(self._ending):
            # A site that answers has done it by then; with one that does not, leases run out.
            try:
                await asyncio.wait(ending, timeout=ENDING_WITHIN_S)
            finally:
                for task in ending:
                    task.cancel()
                await asyncio.gather(*ending, return_exceptions=True)
        if self._name is None:
            return
        processes = [process for process, _ in self._running.values()]
        with contextlib.suppress(TransportError):  # then the leases run out
            await asyncio.gather(*(process.kill() for process in processes))
            # A command that ended by itself while it was being ended has left its folder.
            await self._transport.run(f"rm -rf -- {path_word(self._name)}.*")
        self._name = None
        if self._renewing is not None:
            self._renewing.cancel()
        for process in processes:
            with contextlib.suppress(TransportError, asyncio.CancelledError):
                await asyncio.wait_for(process.wait(), 1)


async def _end_unwanted(starting: asyncio.Task[Started]) -> None:
    """Stop a command whose start was cancelled."""
    try:
        with contextlib.suppress(TransportError, OSError):
            await (await asyncio.shield(starting)).kill()
    finally:
        starting.cancel()
