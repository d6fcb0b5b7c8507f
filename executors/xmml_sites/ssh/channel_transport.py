"""What all transports have in common: everything is a command in a channel.

A transport proper opens channels and forwards ports; running, leases and files are built on that here, so that they
are the same over every one of them, and need nothing at the site but a shell and the core utilities.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from xmml_sites.ssh.channel import CommandChannel, collect, feed
from xmml_sites.ssh.command_result import CommandResult
from xmml_sites.ssh.conversation import Conversation
from xmml_sites.ssh.failure import MOST_SHOWN, NoAnswer, RemoteFileError, TooMuchOutput, TransportError
from xmml_sites.ssh.processes import LeasedProcess, Leases, OwnProgram
from xmml_sites.ssh.remote_shell import bounded, path_word, self_ending, written_whole
from xmml_sites.ssh.transport import Forwarding

#: More than this nobody wants from a command that is waited for [bytes].
MOST_OUTPUT = 16 * 2**20
#: The slowest rate at which a file is sent [bytes/s], and the time that it may take in any case [s].
PUT_SLOWEST, PUT_LEAST_S = 20_000, 120.0
#: How often a port is tried that a site has not closed yet [s].
REOPEN_EVERY_S = 1.0
#: sshd allows 10 sessions in a connection by default.
CHANNELS = 8


class ChannelTransport(abc.ABC):
    """Everything but the way to open a channel (`transport.Transport` says what the methods do)."""

    def __init__(self, site: str) -> None:
        self.site = site
        self._channels = asyncio.Semaphore(CHANNELS)
        self._connecting = asyncio.Lock()
        self._home: str | None = None
        self._leases = Leases(self)
        self._programs: set[OwnProgram] = set()
        self._reopening: asyncio.Task[None] | None = None

    @abc.abstractmethod
    async def connect(self) -> None: ...

    @property
    def is_own(self) -> bool:
        """Whether this transport has opened the connection; one that others may use is never closed."""
        return True

    @abc.abstractmethod
    async def open_channel(self, command: str, *, for_bulk: bool = False) -> CommandChannel:
        """Start a command. The connection is made again before if it was lost.

        Args:
            for_bulk: much will be written to it, or read from it.
        """

    @abc.abstractmethod
    async def forward_local(self, host: str, port: int) -> Forwarding: ...

    @abc.abstractmethod
    async def forward_remote(self, host: str, port: int) -> Forwarding: ...

    @abc.abstractmethod
    async def stop_forwarding(self, forwarding: Forwarding) -> None: ...

    @abc.abstractmethod
    async def reconnect(self, forwarding: Forwarding) -> bool:
        """Open a port again that led through an earlier connection; return whether that is done, or no more wanted."""

    async def reopen(self, forwardings: Sequence[Forwarding]) -> None:
        """Open the ports again that led through the last connection. One that the site still takes for open, because it
        has not noticed yet that this connection broke, is tried again until it has."""
        self._stop_reopening()
        left = list(forwardings)
        try:
            for each in forwardings:
                if await self.reconnect(each):
                    left.remove(each)
        finally:  # also if whoever has made the connection is cancelled: the ports are those of others, too
            if left:
                self._reopening = asyncio.ensure_future(self._keep_reopening(left))

    async def _keep_reopening(self, left: Sequence[Forwarding]) -> None:
        while left:
            await asyncio.sleep(REOPEN_EVERY_S)
            left = [each for each in left if not await self.reconnect(each)]

    def _stop_reopening(self) -> None:
        if self._reopening is not None:
            self._reopening.cancel()
            self._reopening = None

    @abc.abstractmethod
    async def disconnect(self) -> None:
        """Close the connection."""

    async def close(self) -> None:
        self._stop_reopening()
        try:
            with contextlib.suppress(TransportError):  # then their leases run out
                await asyncio.gather(*(program.kill() for program in list(self._programs)))
            await self._leases.close()
        finally:
            await self.disconnect()

    async def home(self) -> str:
        if self._home is None:
            self._home = (await self.checked('printf %s "$HOME"', "asking for the home directory")).strip()
        return self._home

    async def run(
        self,
        command: str,
        stdin: bytes | str | None = None,
        *,
        timeout_s: float = 60.0,
    ) -> CommandResult:
        return await self._run(command, stdin, timeout_s=timeout_s, for_bulk=False)

    async def _run(self, command: str, stdin: bytes | str | None, *, timeout_s: float, for_bulk: bool) -> CommandResult:
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        async with self._channels:
            await self.connect()
            try:
                async with asyncio.timeout(timeout_s):
                    channel = await self.open_channel(bounded(command, timeout_s), for_bulk=for_bulk)
                    try:
                        out, err, _ = await _all(
                            collect(self.site, channel.stdout, MOST_OUTPUT),
                            collect(self.site, channel.stderr, MOST_OUTPUT),
                            feed(channel.stdin, data),
                        )
                        status = await channel.wait()
                    except BaseException:
                        await channel.abandon()
                        raise
            except TimeoutError:
                raise NoAnswer(self.site, command, timeout_s) from None
        return CommandResult(status, out.decode(errors="replace"), err.decode(errors="replace"))

    async def checked(self, command: str, doing: str, stdin: bytes | str | None = None, timeout_s: float = 60.0) -> str:
        """Run a command that must succeed; its output."""
        answer = await self.run(command, stdin, timeout_s=timeout_s)
        if answer.status != 0:
            raise RemoteFileError(self.site, doing, answer.said)
        return answer.stdout

    @contextlib.asynccontextmanager
    async def converse(
        self,
        command: str,
        doing: str,
        *,
        timeout_s: float,
        further_channel: str = "",
        on_piece: Callable[[], None] | None = None,
        lease_s: float | None = None,
    ) -> AsyncIterator[Conversation]:
        further: list[asyncio.Future[None]] = []

        def open_channel(conversation: Conversation) -> None:
            further.append(asyncio.ensure_future(self._add_channel(conversation, bounded(further_channel, timeout_s))))

        try:
            async with self._channels, asyncio.timeout(timeout_s):
                await self.connect()
                channel = await self.open_channel(bounded(command, timeout_s), for_bulk=True)
                said = asyncio.ensure_future(collect(self.site, channel.stderr, MOST_OUTPUT))
                conversation = Conversation(self.site, channel, open_channel, on_piece, lease_s)
                try:
                    yield conversation
                    await conversation.finish()
                    status, errors = await channel.wait(), await said
                except BaseException:
                    said.cancel()
                    await conversation.stop()
                    await channel.abandon()
                    raise
                finally:
                    for each in further:
                        each.cancel()
                    await asyncio.gather(*further, return_exceptions=True)
        except TimeoutError:
            raise NoAnswer(self.site, command, timeout_s) from None
        if status != 0:
            why = errors.decode(errors="replace").strip()[-MOST_SHOWN:] or conversation.banner
            raise RemoteFileError(self.site, doing, why or f"the command at the site exited with status {status}")

    async def _add_channel(self, conversation: Conversation, command: str) -> None:
        """Carry messages of a conversation by one more channel, if there is a place for it."""
        if self._channels.locked():
            return
        async with self._channels:
            channel = await self.open_channel(command, for_bulk=True)
            said = asyncio.ensure_future(collect(self.site, channel.stderr, MOST_OUTPUT))
            has_carried = False
            try:
                has_carried = await conversation.add_channel(channel) and await channel.wait() >= 0
            finally:
                said.cancel()
                await asyncio.gather(said, return_exceptions=True)
                if not has_carried:
                    abandoning = asyncio.ensure_future(channel.abandon())
                    try:
                        await asyncio.shield(abandoning)
                    except asyncio.CancelledError:  # the whole conversation is cancelled meanwhile
                        await abandoning
                        raise

    async def start(self, command: str, *, lease_s: float = 30.0) -> LeasedProcess:
        return await self._leases.start(command, lease_s)

    async def start_program(self, command: str, *, lease_s: float = 30.0) -> OwnProgram:
        return await self._leases.ended_if_cancelled(self._start_program(command, lease_s))

    async def _start_program(self, command: str, lease_s: float) -> OwnProgram:
        await self._channels.acquire()
        try:
            await self.connect()  # by then it is known whose the connection is
            channel = await self.open_channel(self_ending(command, lease_s=lease_s, ends_connection=self.is_own))
        except BaseException:
            self._channels.release()
            raise
        program = OwnProgram(self, channel, lease_s)
        self._programs.add(program)
        return program

    def forget(self, program: OwnProgram) -> None:
        """Drop a program of ours that has exited, or is out of reach."""
        self._programs.discard(program)
        self._channels.release()

    async def put(self, local: Path, remote: str) -> None:
        data = await asyncio.to_thread(local.read_bytes)
        command = written_whole(remote, len(data), local.stat().st_mode & 0o777)
        limit_s = PUT_LEAST_S + len(data) / PUT_SLOWEST
        answer = await self._run(command, data, timeout_s=limit_s, for_bulk=True)
        if answer.status != 0:
            raise RemoteFileError(self.site, f"writing {remote}", answer.said)

    async def put_text(self, remote: str, text: str, *, mode: int = 0o600) -> None:
        data = text.encode()
        await self.checked(written_whole(remote, len(data), mode), f"writing {remote}", data)

    async def get_text(self, remote: str, *, limit: int = 2**20) -> str | None:
        path = path_word(remote)
        answer = await self.run(f"[ -e {path} ] || exit 44; head -c {limit + 1} {path}")
        if answer.status == 44:
            return None
        if answer.status != 0:
            raise RemoteFileError(self.site, f"reading {remote}", answer.said)
        if len(answer.stdout.encode()) > limit:
            raise TooMuchOutput(self.site, f"{remote} is longer than {limit} bytes")
        return answer.stdout

    async def remove(self, *remotes: str) -> None:
        if remotes:
            await self.checked(f"rm -rf -- {_words(remotes)}", f"removing {remotes[0]}", timeout_s=300)

    async def mkdir(self, *remotes: str) -> None:
        if remotes:
            await self.checked(f"umask 077; mkdir -p -- {_words(remotes)}", f"making the folder {remotes[0]}")

    async def exists(self, remote: str) -> bool:
        answer = await self.run(f"if [ -e {path_word(remote)} ]; then echo yes; else echo no; fi")
        return answer.stdout.strip() == "yes"

    async def hash_files(self, remotes: Sequence[str]) -> dict[str, str]:
        if not remotes:
            return {}
        home = await self.home() if any(remote.startswith("~/") for remote in remotes) else ""
        absolute = {home + remote[1:] if remote.startswith("~/") else remote: remote for remote in remotes}
        answer = await self.run(
            "xargs -0 -r sha256sum -b -z -- 2>/dev/null; true", "\0".join(absolute) + "\0", timeout_s=3600
        )
        found = {}
        for row in answer.stdout.split("\0"):
            digest, _, path = row.partition(" *")
            if path in absolute and len(digest) == 64:
                found[absolute[path]] = digest
        return found


async def _all(*work: Coroutine[Any, Any, bytes]) -> list[bytes]:
    """Do several things at once; if one fails, none goes on."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _words(remotes: Iterable[str]) -> str:
    return " ".join(map(path_word, remotes))
