"""What all transports have in common: everything is a command in a channel.

A transport proper opens channels and forwards ports; running, leases and files are built on that here, so that they
are the same over every one of them, and need nothing at the site but a shell and the core utilities.
"""

from __future__ import annotations

import abc
import asyncio
import codecs
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from xmml_sites.ssh import bulk_transfer
from xmml_sites.ssh.command_result import CommandResult
from xmml_sites.ssh.conversation import MOST_BANNER, Conversation
from xmml_sites.ssh.failure import ConnectionLost, NoAnswer, RemoteFileError, TooMuchOutput, TransportError
from xmml_sites.ssh.remote_shell import (
    BEGIN,
    bounded,
    kill_group,
    kill_program,
    leased,
    path_word,
    renewal,
    self_ending,
)
from xmml_sites.ssh.transport import Forwarding

#: More than this nobody wants from a command that is waited for [bytes].
MOST_OUTPUT = 16 * 2**20
#: How often a port is tried that a site has not closed yet [s].
REOPEN_EVERY_S = 1.0
#: So long closing waits until commands are ended for which nobody waits any more [s].
ENDING_WITHIN_S = 10.0
#: So long a program of ours may take to end when its input does [s]; it then ends itself.
PROGRAM_ENDS_WITHIN_S = 4.0
#: sshd allows 10 sessions in a connection by default.
CHANNELS = 8
#: Longer lines come in pieces of so many characters.
LONGEST_LINE = 2**16
READ = 2**18

Started = TypeVar("Started", bound="ChannelProcess")


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
    def stdin(self) -> Writer | None:
        """`None`: it reads a file of ours itself."""

    @property
    def stdout(self) -> Reader: ...
    @property
    def stderr(self) -> Reader: ...
    async def wait(self) -> int:
        """Its exit status, or 128 plus the signal's number; `ConnectionLost` if it cannot be known."""

    async def abandon(self) -> None:
        """Close it, whatever runs there."""


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
        """Whether the connection is ours alone; somebody else's may be used by others, so it is never ended."""
        return True

    @abc.abstractmethod
    async def open_channel(
        self, command: str, *, for_bulk: bool = False, part: bulk_transfer.Part | None = None
    ) -> CommandChannel:
        """Start a command; made again if need be, the connection stands then.

        Args:
            for_bulk: much is to pass it.
            part: what it is going to read; a channel that lets it read the file itself has no `stdin`.
        """

    @abc.abstractmethod
    async def forward_local(self, host: str, port: int) -> Forwarding: ...

    @abc.abstractmethod
    async def forward_remote(self, host: str, port: int) -> Forwarding: ...

    @abc.abstractmethod
    async def stop_forwarding(self, forwarding: Forwarding) -> None: ...

    @abc.abstractmethod
    async def open_again(self, forwarding: Forwarding) -> bool:
        """Open a port again that led through an earlier connection; return whether that is done, or no more wanted."""

    async def reopen(self, forwardings: Sequence[Forwarding]) -> None:
        """Open the ports again that led through the last connection. One that the site still takes for open, because it
        has not noticed yet that this connection broke, is tried again until it has."""
        self._stop_reopening()
        left = list(forwardings)
        try:
            for each in forwardings:
                if await self.open_again(each):
                    left.remove(each)
        finally:  # also if whoever has made the connection is cancelled: the ports are those of others, too
            if left:
                self._reopening = asyncio.ensure_future(self._keep_reopening(left))

    async def _keep_reopening(self, left: Sequence[Forwarding]) -> None:
        while left:
            await asyncio.sleep(REOPEN_EVERY_S)
            left = [each for each in left if not await self.open_again(each)]

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
        on_piece: Callable[[], None] | None = None,
    ) -> CommandResult:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        async with self._channels:
            status, out, err = await self.talk(command, data, timeout_s=timeout_s, on_piece=on_piece)
        return CommandResult(status, out.decode(errors="replace"), err.decode(errors="replace"))

    async def talk(
        self,
        command: str,
        stdin: bytes | bulk_transfer.Part | None = None,
        *,
        timeout_s: float,
        most: int = MOST_OUTPUT,
        for_bulk: bool = False,
        on_piece: Callable[[], None] | None = None,
    ) -> tuple[int, bytes, bytes]:
        """Run a command in one channel; whoever calls this has a place among the channels. `on_piece` is called for
        each piece of its output."""
        await self.connect()
        try:
            async with asyncio.timeout(timeout_s):
                part = stdin if isinstance(stdin, bulk_transfer.Part) else None
                channel = await self.open_channel(bounded(command, timeout_s), for_bulk=for_bulk, part=part)
                try:
                    out, err, _ = await _all(
                        _collect(self.site, channel.stdout, most, on_piece),
                        _collect(self.site, channel.stderr, most),
                        _feed(channel, stdin),
                    )
                    return await channel.wait(), out, err
                except BaseException:
                    await channel.abandon()
                    raise
        except TimeoutError:
            raise NoAnswer(self.site, command, timeout_s) from None

    async def checked(self, command: str, doing: str, stdin: bytes | str | None = None, timeout_s: float = 60.0) -> str:
        """Run a command that must succeed; its output."""
        answer = await self.run(command, stdin, timeout_s=timeout_s)
        if answer.status != 0:
            raise RemoteFileError(self.site, doing, answer.said)
        return answer.stdout

    @contextlib.asynccontextmanager
    async def converse(self, command: str, doing: str, *, timeout_s: float) -> AsyncIterator[Conversation]:
        try:
            async with self._channels, asyncio.timeout(timeout_s):
                await self.connect()
                channel = await self.open_channel(bounded(command, timeout_s), for_bulk=True)
                said = asyncio.ensure_future(_collect(self.site, channel.stderr, MOST_OUTPUT))
                conversation = Conversation(self.site, channel)
                try:
                    yield conversation
                    await conversation.finish()
                    status, errors = await channel.wait(), await said
                except BaseException:
                    said.cancel()
                    await conversation.stop()
                    await channel.abandon()
                    raise
        except TimeoutError:
            raise NoAnswer(self.site, command, timeout_s) from None
        if status != 0:
            raise RemoteFileError(self.site, doing, errors.decode(errors="replace").strip()[-300:])

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
        """A program of ours has ended, or is out of reach."""
        self._programs.discard(program)
        self._channels.release()

    async def put(self, local: Path, remote: str) -> None:
        await self.put_many([(local, remote)])

    async def put_many(self, files: Iterable[tuple[Path, str]]) -> None:
        await bulk_transfer.put(self, list(files))

    async def get(self, remote: str, local: Path) -> None:
        await self.get_many([(remote, local)])

    async def get_many(self, files: Iterable[tuple[str, Path]], *, on_piece: Callable[[], None] | None = None) -> None:
        await bulk_transfer.get(self, list(files), on_piece)

    async def put_text(self, remote: str, text: str, *, mode: int = 0o600) -> None:
        path = path_word(remote)
        await self.checked(
            f'umask 077; f={path}; mkdir -p "$(dirname "$f")" && cat > "$f.part" && chmod {mode:o} "$f.part" && '
            'mv -f "$f.part" "$f" || { s=$?; rm -f "$f.part"; exit $s; }',
            f"writing {remote}",
            text,
        )

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
        assert self._channel.stdin is not None
        try:
            self._channel.stdin.write(data)
            await self._channel.stdin.drain()
        except OSError as error:  # it has ended
            raise ConnectionLost(self.site, str(error)) from None

    async def close_stdin(self) -> None:
        assert self._channel.stdin is not None
        self._channel.stdin.write_eof()

    def lines(self) -> AsyncIterator[str]:
        return _lines(self.site, self._channel.stdout)

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
    """A program of ours, which ends with its input, and when it has heard nothing over that for its lease."""

    def __init__(self, transport: ChannelTransport, channel: CommandChannel, lease_s: float) -> None:
        super().__init__(transport.site, channel, lambda: transport.forget(self))
        self._transport = transport
        self._identity: list[str] = []
        self._tasks = [asyncio.ensure_future(self._live(lease_s)), asyncio.ensure_future(self._identify())]
        self._waiting.add_done_callback(lambda _: [task.cancel() for task in self._tasks])

    async def close_stdin(self) -> None:
        self._tasks[0].cancel()
        await super().close_stdin()

    async def _live(self, lease_s: float) -> None:
        """Give signs of life. An output that does not drain keeps none back."""
        assert self._channel.stdin is not None
        while True:
            await asyncio.sleep(lease_s / 3)
            with contextlib.suppress(OSError, TransportError):
                self._channel.stdin.write(b"\n")

    async def _identify(self) -> None:
        """Learn by which number and start it can be ended."""
        with contextlib.suppress(TransportError):
            self._identity = (await anext(_lines(self.site, self._channel.stderr), "")).split()
            await drained(self._channel.stderr)

    async def _end(self) -> None:
        with contextlib.suppress(OSError):
            await self.close_stdin()
        with contextlib.suppress(TransportError, TimeoutError):
            async with asyncio.timeout(PROGRAM_ENDS_WITHIN_S):
                await self.wait()
        if not self._waiting.done() and len(self._identity) == 2:  # else it ends as soon as it has begun
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
        """End a command. Cancelled, that goes on: what comes too late at the site would leave a folder."""
        if process.folder in self._running:
            await asyncio.shield(self._go_on(self._kill(process)))

    async def _kill(self, process: LeasedProcess) -> None:
        await self._transport.run(kill_group(process.folder))

    def _go_on(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something that closing waits for, and that nobody else need wait for."""
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
    """End a command that is being started and for which nobody waits any more."""
    try:
        with contextlib.suppress(TransportError, OSError):
            await (await asyncio.shield(starting)).kill()
    finally:
        starting.cancel()


async def _all(*work: Coroutine[Any, Any, bytes]) -> list[bytes]:
    """Do several things at once; if one fails, none goes on."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def drained(*readers: Reader) -> None:
    """Throw away what is still to be read: a subprocess is not over before its outputs are."""
    for reader in readers:
        with contextlib.suppress(OSError):
            while await reader.read(READ):
                pass


async def _feed(channel: CommandChannel, data: bytes | bulk_transfer.Part | None) -> bytes:
    """Give a command its input; one that does not want all of it is no failure."""
    stdin = channel.stdin
    if stdin is None:
        return b""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, ConnectionLost):
        if isinstance(data, bytes):
            for start in range(0, len(data), READ):
                stdin.write(data[start : start + READ])
                await stdin.drain()
        elif data is not None:
            async for piece in data.pieces():
                stdin.write(piece)
                await stdin.drain()
        stdin.write_eof()
    return b""


async def _collect(site: str, reader: Reader, most: int, on_piece: Callable[[], None] | None = None) -> bytes:
    """All of an output, without what login scripts have printed before."""
    pieces: list[bytes] = []
    size = 0
    begun = False
    while piece := await reader.read(READ):
        if on_piece is not None:
            on_piece()
        if not begun:
            piece = b"".join([*pieces, piece])
            head, mark, rest = piece.partition(BEGIN)
            begun = bool(mark)
            pieces, piece = ([], rest) if begun else ([], head)
            if not begun and len(piece) > MOST_BANNER:
                raise TooMuchOutput(site, "its login scripts print without end; make ~/.bashrc silent for commands")
            size = 0
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise TooMuchOutput(site, f"a command wrote more than {most} bytes")
    return b"".join(pieces)


async def _lines(site: str, reader: Reader) -> AsyncIterator[str]:
    """The lines of an output, without what login scripts have printed before; long ones in pieces."""
    banner = b""
    rest = ""
    begun = False
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while piece := await reader.read(READ):
        if not begun:
            banner += piece
            _, mark, piece = banner.partition(BEGIN)
            if not mark:
                if len(banner) > MOST_BANNER:
                    raise TooMuchOutput(site, "its login scripts print without end; make ~/.bashrc silent for commands")
                continue
            begun = True
        rest += decoder.decode(piece)
        *whole, rest = rest.split("\n")
        for line in whole:
            yield line
        while len(rest) > LONGEST_LINE:
            yield rest[:LONGEST_LINE]
            rest = rest[LONGEST_LINE:]
    if rest := rest + decoder.decode(b"" if begun else banner, final=True):
        yield rest


def _words(remotes: Iterable[str]) -> str:
    return " ".join(map(path_word, remotes))
