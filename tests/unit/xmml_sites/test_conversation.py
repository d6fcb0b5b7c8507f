"""A conversation over several channels keeps what comes before its turn, but not much of it."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from xmml_sites.ssh import CommandExited
from xmml_sites.ssh.conversation import Conversation
from xmml_sites.ssh.remote_shell import BEGIN

LARGE_B = 4 << 20
MOST_B = 32 << 20
HELLO, END = 2**64 - 2, 2**64 - 1


class Channel:
    """A channel over which messages come, and which keeps what is written to it."""

    def __init__(self) -> None:
        self.written = b""
        self.is_ended = False
        self.stdout = self.stderr = asyncio.StreamReader(limit=2**30)
        self.stdin: Any = self
        self.stdout.feed_data(BEGIN)

    def bring(self, number: int, message: bytes = b"") -> None:
        self.stdout.feed_data(struct.pack("<QI", number, len(message)) + message)

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        """There is always room."""

    def write_eof(self) -> None:
        self.is_ended = True

    async def wait(self) -> int:
        return 0

    async def abandon(self) -> None:
        """Nothing runs."""


def test_large_messages_are_kept_up_to_a_number_of_bytes_before_their_turn_comes() -> None:
    async def work() -> None:
        quick, slow = Channel(), Channel()
        conversation = Conversation("alpha", quick, lambda _: None)
        for number in range(1, 21):
            quick.bring(number, bytes(LARGE_B))
        quick.bring(END)
        slow.bring(HELLO)
        carrying = asyncio.ensure_future(conversation.add_channel(slow))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert sum(map(len, conversation._arrived.values())) == MOST_B
        slow.bring(0, bytes(LARGE_B))
        slow.bring(END)
        for _ in range(21):
            assert len(await conversation.receive()) == LARGE_B
        for channel in (quick, slow):
            channel.stdout.feed_eof()
        await conversation.finish()
        assert await carrying

    asyncio.run(work())


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_channel_says_that_no_more_comes_unless_another_one_was_cut(is_cut: bool) -> None:
    async def work() -> None:
        main, further = Channel(), Channel()
        conversation = Conversation("alpha", main, lambda _: None)
        further.bring(HELLO)
        carrying = asyncio.ensure_future(conversation.add_channel(further))
        if is_cut:
            further.stdout.feed_eof()
            with pytest.raises(CommandExited):
                await conversation.receive()
        else:
            further.bring(0, b"message")
            further.bring(END)
            assert await conversation.receive() == b"message"
            further.stdout.feed_eof()
        main.bring(END)
        main.stdout.feed_eof()
        await conversation.finish()
        await carrying
        assert (main.written[-12:-4] == struct.pack("<Q", END)) is not is_cut
        assert main.is_ended, "the other end would wait for more"

    asyncio.run(work())
