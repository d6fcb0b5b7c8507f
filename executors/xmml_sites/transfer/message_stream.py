"""A way for messages to the other end and back."""

from __future__ import annotations

import os
import struct
import threading
from typing import BinaryIO, Protocol

from xmml_sites.transfer.messages import LONGEST_MESSAGE_B, Malformed
from xmml_sites.transfer.settings import TransferMethod

_LENGTH = struct.Struct("<I")


class ConnectionBroken(Exception):
    """The connection to the other end is gone; the text says how."""


class PeerFailed(Exception):
    """The other end cannot go on; the text says why."""


class MessageStream(Protocol):
    """Carries messages both ways, each way in order. Several threads may send, one receives."""

    def send(self, message: bytes) -> None:
        """Send a message; wait while the way is full.

        Raises:
            ConnectionBroken: the other end is gone.
        """

    def receive(self) -> bytes | memoryview:
        """Wait for a message.

        Raises:
            ConnectionBroken: the other end is gone.
        """

    def close(self) -> None:
        """Close the stream; a `receive` that waits ends with `ConnectionBroken`."""

    def leave(self) -> None:
        """Close the stream without waiting for the other end, which has received everything."""


class PipeMessageStream:
    """Messages over two streams of bytes, each with its length in front: the ssh connection itself."""

    way, streams = TransferMethod.SSH, 1

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading, self._writing = reading, writing
        self._turn = threading.Lock()

    def send(self, message: bytes) -> None:
        try:
            with self._turn:
                self._writing.write(_LENGTH.pack(len(message)))
                self._writing.write(message)
                self._writing.flush()
        except (OSError, ValueError) as error:
            raise ConnectionBroken(f"the ssh connection has ended ({error})") from error

    def receive(self) -> bytes:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > LONGEST_MESSAGE_B:
            raise Malformed(f"a message of {length} bytes; the longest has {LONGEST_MESSAGE_B}")
        return self._exactly(length)

    def wait_for_end(self) -> None:
        """Wait until the other end has closed the connection; for a stream on which no message will arrive.

        Reads beside the buffer: a thread that waits in it would keep the interpreter from ending.
        """
        try:
            while os.read(self._reading.fileno(), 1 << 16):
                pass
        except OSError:
            return

    def _exactly(self, length: int) -> bytes:
        try:
            data = self._reading.read(length)
        except (OSError, ValueError) as error:
            raise ConnectionBroken(f"the ssh connection has ended ({error})") from error
        if data is None or len(data) < length:
            raise ConnectionBroken("the ssh connection has ended")
        return data

    def close(self) -> None:
        try:
            self._writing.close()
        except OSError:
            return

    def leave(self) -> None:
        self.close()
