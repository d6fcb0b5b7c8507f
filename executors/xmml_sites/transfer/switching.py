"""The channel of a copy that begins through ssh and goes over to a path when one opens."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable

from xmml_sites.transfer.message_stream import ConnectionBroken, PipeMessageStream
from xmml_sites.transfer.messages import LONGEST_MESSAGE_B, PART_B, Malformed, MessageKind, pack, part, unpack
from xmml_sites.transfer.path_message_stream import OPEN_LIMIT_S, PathMessageStream
from xmml_sites.transfer.settings import TransferMethod

_OF_THE_AGREEMENT = {
    MessageKind.LISTEN,
    MessageKind.LISTENING,
    MessageKind.DIAL,
    MessageKind.JOINED,
    MessageKind.NOT_JOINED,
    MessageKind.GO,
}


class Aside:
    """Carries the messages by which two ends agree on a path, beside the files on the same ssh connection."""

    def __init__(self, over_ssh: PipeMessageStream) -> None:
        self._over_ssh = over_ssh
        self._received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            ConnectionBroken: the ssh connection is gone.
        """
        self._over_ssh.send(message)

    def receive(self) -> bytes:
        """Wait for a message.

        Raises:
            ConnectionBroken: nothing will come any more.
        """
        message = self._received.get()
        if message is None:
            raise ConnectionBroken("the copy has ended")
        return message

    def put(self, message: bytes | None) -> None:
        """Hand over a message that has arrived; None: no more will arrive."""
        self._received.put(message)


class SwitchingChannel:
    """Carries messages over the ssh connection first, then over a path, and keeps their order.

    GO is the last message that each end sends over the ssh connection. Long messages travel there in parts, so that
    the rest of a message can go over to the path: on a long link TCP takes many round trips for the first 4 MiB.
    Closing this channel leaves the ssh connection open, which belongs to the caller.
    """

    def __init__(
        self, over_ssh: PipeMessageStream, *, leads: bool, gone_over: Callable[[], object] = lambda: None
    ) -> None:
        """Begin with the ssh connection.

        Args:
            leads: this end goes over as soon as it has a path, and the other one follows.
            gone_over: called by the thread that receives, when the ssh connection carries no more messages.
        """
        self._over_ssh, self._leads, self._gone_over = over_ssh, leads, gone_over
        self._reading: PipeMessageStream | PathMessageStream = over_ssh
        self._writing: PipeMessageStream | PathMessageStream = over_ssh
        self._turn = threading.Lock()
        self._parts: list[bytes] = []
        self._found: PathMessageStream | None = None
        self._is_found = threading.Event()
        self._goes_over = self._is_closed = False
        self._finding = threading.Lock()
        self.aside = Aside(over_ssh)

    @property
    def way(self) -> TransferMethod:
        """The way of the messages that come."""
        return self._reading.way

    @property
    def streams(self) -> int:
        """The streams of this way."""
        return self._reading.streams

    def send(self, message: bytes) -> None:
        with self._turn:
            rest = memoryview(message)
            while len(rest) > PART_B and isinstance(self._way_out(), PipeMessageStream):
                self._over_ssh.send(part(MessageKind.PART, rest[:PART_B]))
                rest = rest[PART_B:]
            self._way_out().send(message if len(rest) == len(message) else part(MessageKind.LAST, rest))

    def _way_out(self) -> PipeMessageStream | PathMessageStream:
        """Return the stream to send by, after going over if that is due. The caller holds the lock `_turn`."""
        if self._goes_over and self._found is not None and self._writing is not self._found:
            # If the ssh connection is gone, the thread that receives reports it.
            with contextlib.suppress(ConnectionBroken):
                self._over_ssh.send(pack(MessageKind.GO, str(self._found.way)))
            self._writing = self._found
        return self._writing

    def receive(self) -> bytes | memoryview:
        while True:
            try:
                message = self._reading.receive()
            except ConnectionBroken:
                self.aside.put(None)
                raise
            # The kind is the second byte of every message. Messages of the copy are unpacked by its ends.
            kind = message[1] if len(message) > 1 else None
            if kind in (MessageKind.PART, MessageKind.LAST):
                self._add(message)
                if kind == MessageKind.LAST:
                    whole, self._parts = b"".join(self._parts), []
                    return whole
            elif self._reading is not self._over_ssh or kind not in _OF_THE_AGREEMENT:
                return message
            elif kind == MessageKind.GO:
                self._follow(message)
            else:
                self.aside.put(bytes(message))

    def _add(self, message: bytes | memoryview) -> None:
        match unpack(message)[1]:
            case [bytes(data)] if sum(map(len, self._parts)) + len(data) <= LONGEST_MESSAGE_B:
                self._parts.append(data)
            case _:
                raise Malformed("a part of a message is malformed or too much")

    def _follow(self, go: bytes | memoryview) -> None:
        """Receive from the path from now on, and send over it, as the other end does."""
        # The other end holds the path already, so that the thread that opens it here is about to return.
        if not self._is_found.wait(OPEN_LIMIT_S) or self._found is None or unpack(go)[1] != [self._found.way]:
            raise Malformed("GO before there is a path")
        self.go_over()
        self._reading = self._found
        self._gone_over()

    def found(self, path: PathMessageStream) -> None:
        """Take over an open path to the other end.

        The end that leads sends its next message over the path; `go_over` does not wait for that message. Closing this
        channel closes the path, also if the channel is closed already.
        """
        with self._finding:
            if not self._is_closed:
                self._found = path
                self._goes_over = self._leads
                self._is_found.set()
                return
        path.leave()

    def go_over(self) -> None:
        """Leave the ssh connection for the path that was found, also with the rest of a message that is being sent."""
        self._goes_over = True
        with self._turn:
            self._way_out()

    def close(self) -> None:
        path = self._leave_search()
        if path is not None:
            path.close() if self._writing is path else path.leave()

    def leave(self) -> None:
        path = self._leave_search()
        if path is not None:
            path.leave()

    def _leave_search(self) -> PathMessageStream | None:
        """End the search for a path; return the path that it has found."""
        self.aside.put(None)
        with self._finding:
            self._is_closed = True
            return self._found
