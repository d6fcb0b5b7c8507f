"""A conversation over several channels keeps what comes before its turn, but not much of it."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from xmml_sites.ssh.conversation import Conversation
from xmml_sites.ssh.remote_shell import BEGIN

LARGE_B = 4 << 20
MOST_B = 32 << 20
HELLO, END = 2**64 - 2, 2**64 - 1


class Channel:
    """A channel over which messages come, and what is written to it is not looked at."""

    def __init__(self) -> None:
        self.stdout = self.stderr = asyncio.StreamReader(limit=2**30)
        self.stdin: Any = self
        self.stdout.feed_data(BEGIN)

    def bring(self, number: int, message: bytes = b"") -> None:
        self.stdout.feed_data(struct.pack("<QI", number, len(message)) + message)

    def write(self, data: bytes) -> None:
        """Thrown away."""

    async def drain(self) -> None:
        """There is always room."""

    def write_eof(self) -> None:
        """Nothing more comes, here either."""

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
