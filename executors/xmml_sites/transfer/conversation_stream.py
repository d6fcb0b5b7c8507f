"""The messages of a copy in a conversation with a command at a site."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from xmml_sites.ssh import TransportError
from xmml_sites.ssh.conversation import Conversation
from xmml_sites.transfer.message_stream import ConnectionBroken

A = TypeVar("A")


class ConversationStream:
    """Carries the messages of an end, which has threads, while the conversation belongs to an event loop."""

    def __init__(self, conversation: Conversation) -> None:
        """Is called by the thread of the event loop."""
        self._conversation, self._loop = conversation, asyncio.get_running_loop()

    def send(self, message: bytes) -> None:
        self._done(self._conversation.send(message))

    def receive(self) -> bytes:
        return self._done(self._conversation.receive())

    def _done(self, work: Coroutine[Any, Any, A]) -> A:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except (TransportError, OSError, CancelledError) as error:
            raise ConnectionBroken(str(error)) from error

    def close(self) -> None:
        """Nothing to do: the conversation ends with its context."""

    def leave(self) -> None:
        """Nothing to do: the conversation ends with its context."""
