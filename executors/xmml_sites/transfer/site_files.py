"""Files to and from a site that has our program `mto`: orders, their answers and copies in one conversation."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from xmml_sites.ssh import CommandExited, ConnectionLost, RemoteFileError, Transport, TransportError
from xmml_sites.ssh.conversation import Conversation
from xmml_sites.transfer.conversation_stream import ConversationStream
from xmml_sites.transfer.ends import NoRoom, give, take
from xmml_sites.transfer.layout import Layout
from xmml_sites.transfer.message_stream import ConnectionBroken, PeerFailed
from xmml_sites.transfer.messages import Malformed
from xmml_sites.transfer.progress import NoProgress, Report

#: Copies of more than this travel by several channels: one of ssh carries 2 MiB per round trip [bytes].
WIDE_B = 8 * 2**20
#: So many more.
MORE_CHANNELS = 3

#: Fetching files may take as long as it takes; it ends when nothing has arrived for so long [s].
SILENT_S = 60.0
#: How long it may take in any case [s].
LONGEST_S = 7 * 86_400.0
#: How often it is tried: again when the connection was lost after something had come over it.
ATTEMPTS = 5

#: Begin what `xmml cp` says to do when a disk is full, or may not be written (`NO_ROOM` in native/transfer). A run says
#: something else.
_ADVICE = ("; make room and copy again", "; copy to another place")

A = TypeVar("A")


class _CopyProgress(NoProgress):
    """Passes on, to the thread of the event loop, how a copy goes on."""

    def __init__(self, on_life: Callable[[], None] | None, on_bytes: Callable[[int], None] | None) -> None:
        """
        Args:
            on_life: is called when this end compares what it has, although nothing comes meanwhile.
            on_bytes: is called with the number of bytes that are new at the target.
        """
        self._on_life, self._on_bytes, self._loop = on_life, on_bytes, asyncio.get_running_loop()

    def advanced(self, size_b: int) -> None:
        if self._on_bytes is not None:
            self._loop.call_soon_threadsafe(self._on_bytes, size_b)

    def compared(self) -> None:
        if self._on_life is not None:
            self._loop.call_soon_threadsafe(self._on_life)


class FileCommand:
    """A running `mto site stage` or `mto site results`, with which this process exchanges orders, answers and
    copies."""

    def __init__(self, conversation: Conversation, on_life: Callable[[], None] | None) -> None:
        """
        Args:
            on_life: is called whenever a copy gets on although nothing comes.
        """
        self._conversation = conversation
        self._on_life = on_life
        self._is_wide = False

    async def order(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Give an order; return the answer.

        Raises:
            TransportError: there is none.
            Malformed: it is none.
        """
        await self._conversation.send(json.dumps(order).encode())
        try:
            answer = json.loads(await self._conversation.receive())
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise Malformed("the answer to an order is no JSON object")
        return answer

    async def give(self, files: Sequence[Path], names: Sequence[str], size_b: int) -> Report:
        """Give files away; return what came of it.

        Args:
            names: of the copies.
            size_b: of all files together, or so.
        """
        progress = _CopyProgress(self._on_life, None)
        return await self._copy(size_b, lambda stream: give(stream, files, progress, names))

    async def take(
        self, base: Path, only: Sequence[str], size_b: int, on_bytes: Callable[[int], None] | None = None
    ) -> Report:
        """Take files below a folder; return what came of it.

        Args:
            only: the paths of these files; whoever gives anything else is not believed.
            size_b: of all files together, or so.
            on_bytes: is called with the number of bytes that are new here, as the copy goes on.
        """
        layout, progress = Layout(base, None), _CopyProgress(self._on_life, on_bytes)
        return await self._copy(size_b, lambda stream: take(stream, layout, progress, only=only))

    async def _copy(self, size_b: int, copy: Callable[[ConversationStream], A]) -> A:
        if size_b > WIDE_B and not self._is_wide:
            self._is_wide = True
            self._conversation.open_more_channels(MORE_CHANNELS)
        # A thread of its own: the loop has few, and others wait for one to look a name up.
        thread = ThreadPoolExecutor(1)
        stream = ConversationStream(self._conversation)
        copying = asyncio.get_running_loop().run_in_executor(thread, copy, stream)
        try:
            return await asyncio.shield(copying)
        except asyncio.CancelledError:
            await self._conversation.stop()
            await asyncio.wait([copying])  # it writes nothing any more
            copying.exception()  # which is that nothing came any more
            raise
        finally:
            thread.shutdown(wait=False)


@contextlib.asynccontextmanager
async def site_files(
    transport: Transport,
    command: str,
    word: str,
    doing: str,
    *,
    timeout_s: float,
    lease_s: float,
    on_piece: Callable[[], None] | None = None,
) -> AsyncIterator[FileCommand]:
    """Have a command at a site that carries out orders on files, for as long as the context.

    Args:
        command: that serves a run there (`mto site`).
        word: what it shall do.
        doing: the same, for messages.
        timeout_s: how long it may take.
        lease_s: it ends when it has not heard of us for so long.
        on_piece: is called whenever something comes, or is compared here with what would come.

    Raises:
        TransportError: the site cannot be reached, or something came out wrong there.
    """
    options = f"--channels xmml-channels-{os.urandom(8).hex()} --lease {lease_s:g}"
    lost: Exception | None = None
    try:
        async with transport.converse(
            f"{command} {word} {options}",
            doing,
            timeout_s=timeout_s,
            further_channel=f"{command} channel {options}",
            on_piece=on_piece,
            lease_s=lease_s,
        ) as conversation:
            try:
                yield FileCommand(conversation, on_piece)
            except (ConnectionBroken, ConnectionLost, CommandExited) as error:
                lost = error  # if the command has failed, it has said why
    except (PeerFailed, Malformed) as error:
        raise RemoteFileError(transport.site, doing, without_advice(str(error))) from None
    except NoRoom as error:
        raise TransportError(transport.site, f"{doing} failed here: {without_advice(str(error))}") from None
    if isinstance(lost, ConnectionBroken):
        cause = lost.__cause__
        lost = cause if isinstance(cause, TransportError) else ConnectionLost(transport.site, str(lost))
    if lost is not None:
        raise lost


async def fetched_patiently(
    fetch: Callable[[Callable[[], None]], Awaitable[A]],
    on_life: Callable[[], None] | None = None,
    *,
    begins_within_s: float | None = SILENT_S,
) -> A:
    """Fetch files as long as something arrives: again when the connection was lost after that.

    Args:
        fetch: fetches them, and calls its argument whenever something comes or is compared; what has come of it before
            is kept.
        on_life: is called then, too.
        begins_within_s: how long it may take until something comes, or comes again; `None`: as long as it takes.

    Raises:
        TimeoutError: nothing has come for so long, or for `SILENT_S` since.
    """
    loop = asyncio.get_running_loop()
    has_come = False
    async with asyncio.timeout(begins_within_s) as limit:

        def wait_for(within_s: float | None) -> None:
            if not limit.expired():
                limit.reschedule(None if within_s is None else loop.time() + within_s)

        def on_piece() -> None:
            nonlocal has_come
            has_come = True
            if on_life is not None:
                on_life()
            wait_for(SILENT_S)

        for _ in range(ATTEMPTS - 1):
            try:
                return await fetch(on_piece)
            except (ConnectionLost, CommandExited):
                if not has_come:
                    raise
                has_come = False
                wait_for(begins_within_s)
        return await fetch(on_piece)


def without_advice(text: str) -> str:
    """Return why a copy has ended without what `xmml cp` says to do."""
    for advice in _ADVICE:
        text, *_ = text.split(advice)
    return text
