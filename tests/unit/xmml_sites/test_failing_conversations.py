"""What is told of a command at a site that speaks in messages and goes wrong."""

from __future__ import annotations

import asyncio
import shlex
import sys

import pytest
from waiting import LIMIT_S, until
from xmml_sites.ssh import CommandExited, RemoteFileError, TooMuchOutput, TransportError
from xmml_sites.ssh.channel import CommandChannel
from xmml_sites.ssh.conversation import LONGEST_MESSAGE_B, Conversation
from xmml_sites.ssh.local import LocalTransport
from xmml_sites.transfer.site_files import site_files

#: Writes frames: number and length of a message, and what else there is.
FRAMES = "import struct, sys; out = sys.stdout.buffer; out.write({}); out.flush(); sys.stdin.buffer.read()"


def writing(frames: str) -> str:
    """A command that writes what a Python expression says."""
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(FRAMES.format(frames))}"


class Refusing(LocalTransport):
    """A site whose login scripts let no command begin, and say why."""

    async def open_channel(self, command: str, *, for_bulk: bool = False) -> CommandChannel:
        return await super().open_channel("echo Your account has expired; exit 1", for_bulk=for_bulk)


async def heard(command: str, count: int, transport: LocalTransport | None = None) -> None:
    """Hear messages of a command, in time."""
    transport = transport or LocalTransport("here")
    try:
        async with asyncio.timeout(LIMIT_S), transport.converse(command, "staging", timeout_s=LIMIT_S) as conversation:
            for _ in range(count):
                await conversation.receive()
    finally:
        await transport.close()


async def ordered(command: str, transport: LocalTransport | None = None) -> None:
    """Give a command at the site an order, in time."""
    transport = transport or LocalTransport("here")
    options = {"timeout_s": LIMIT_S, "lease_s": LIMIT_S}
    try:
        async with asyncio.timeout(LIMIT_S), site_files(transport, command, "", "staging", **options) as there:
            await there.order({})
    finally:
        await transport.close()


def test_a_command_that_ends_too_soon_is_no_lost_connection() -> None:
    with pytest.raises(CommandExited, match=r"^site here: the command at the site exited before it was done$"):
        asyncio.run(ordered("true"))


def test_a_command_that_fails_without_a_word_is_told_by_its_status() -> None:
    with pytest.raises(RemoteFileError, match=r"staging failed: the command at the site exited with status 3$"):
        asyncio.run(ordered("exit 3;"))


def test_what_login_scripts_say_instead_of_beginning_is_told() -> None:
    with pytest.raises(RemoteFileError, match=r"^site here: staging failed: Your account has expired$"):
        asyncio.run(ordered("true", Refusing("here")))


def test_a_message_that_comes_twice_breaks_the_protocol() -> None:
    twice = "2 * (struct.pack('<QI', 1, 1) + b'x')"
    with pytest.raises(TransportError, match="the command at the site sent message 1 twice") as caught:
        asyncio.run(heard(writing(twice), 1))
    assert not isinstance(caught.value, TooMuchOutput)


def test_a_message_that_is_too_long_is_told_with_the_limit() -> None:
    with pytest.raises(TooMuchOutput, match=rf"a message of 4,294,967,295 bytes; the limit is {LONGEST_MESSAGE_B:,}"):
        asyncio.run(heard(writing("struct.pack('<QI', 0, 2**32 - 1)"), 1))


def test_whoever_waits_for_a_message_of_a_copy_that_is_cancelled_is_told_so() -> None:
    async def go() -> None:
        transport, waiting = LocalTransport("here"), list[asyncio.Task[bytes]]()

        async def copy() -> None:
            async with transport.converse("cat", "staging", timeout_s=LIMIT_S) as conversation:
                waiting.append(asyncio.create_task(conversation.receive()))
                await asyncio.sleep(LIMIT_S)

        copying = asyncio.create_task(copy())
        await until(lambda: bool(waiting), "it does not begin")
        copying.cancel()
        with pytest.raises(TransportError, match=r"^site here: the copy was cancelled$"):
            await asyncio.wait_for(waiting[0], LIMIT_S)
        await asyncio.gather(copying, return_exceptions=True)
        await transport.close()

    asyncio.run(go())


class SlowToAbandon(LocalTransport):
    """A site whose channels take some time to be closed."""

    begun = ended = 0

    async def open_channel(self, command: str, *, for_bulk: bool = False) -> CommandChannel:
        channel = await super().open_channel(command, for_bulk=for_bulk)
        abandon = channel.abandon

        async def slowly() -> None:
            self.begun += 1
            await asyncio.sleep(0.2)
            await abandon()
            self.ended += 1

        channel.abandon = slowly  # type: ignore[method-assign]
        return channel


def test_every_channel_of_a_copy_that_is_cancelled_is_closed_before_that_has_ended() -> None:
    async def go() -> None:
        transport, begun = SlowToAbandon("here"), list[Conversation]()
        command = writing("struct.pack('<QI', 2**64 - 2, 0)")

        async def copy() -> None:
            async with transport.converse(
                command, "staging", timeout_s=LIMIT_S, further_channel=command
            ) as conversation:
                conversation.open_more_channels(1)
                begun.append(conversation)
                await asyncio.sleep(LIMIT_S)

        copying = asyncio.create_task(copy())
        await until(lambda: any(each._open_channels == 2 for each in begun), "there is no further channel")
        copying.cancel()
        await asyncio.gather(copying, return_exceptions=True)
        assert (transport.begun, transport.ended) == (2, 2)
        await transport.close()

    asyncio.run(go())
