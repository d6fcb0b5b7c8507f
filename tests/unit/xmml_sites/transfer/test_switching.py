"""A channel that begins through ssh and goes over to a path."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from copy_messages import FileMessage, written
from waiting import LIMIT_S, wait_until
from xmml_sites.transfer import switching
from xmml_sites.transfer.message_stream import ConnectionBroken, PipeMessageStream
from xmml_sites.transfer.messages import PART_B, Malformed, MessageKind, pack
from xmml_sites.transfer.path_message_stream import (
    Keys,
    PathMessageStream,
    SinglePathListener,
    credentials,
    dial,
    fresh_secret,
)
from xmml_sites.transfer.settings import TransferMethod
from xmml_sites.transfer.switching import SwitchingChannel


class Counting(PipeMessageStream):
    """The near end of an ssh connection, which knows what was sent over it."""

    sent_b = 0

    def send(self, message: bytes) -> None:
        self.sent_b += len(message)
        self.sending()
        super().send(message)

    def sending(self) -> None:
        """Is called before each message."""


@dataclass
class Ends:
    """Both ends of a channel, of the ssh connection and of the path."""

    over_ssh: Counting
    far_over_ssh: PipeMessageStream
    near: SwitchingChannel
    far: SwitchingChannel
    near_path: PathMessageStream
    far_path: PathMessageStream


@pytest.fixture
def ends() -> Iterator[Ends]:
    mine, its, secret = credentials(), credentials(), fresh_secret()
    door = SinglePathListener((0, 0), Keys("copy", secret, its, mine.fingerprint), TransferMethod.DIAL, None)
    near_path = dial(["127.0.0.1"], door.port, Keys("copy", secret, mine, its.fingerprint), TransferMethod.DIAL, 1)
    far_path = door.accept(LIMIT_S)
    near_reads, far_writes = os.pipe()
    far_reads, near_writes = os.pipe()
    near = Counting(os.fdopen(near_reads, "rb"), os.fdopen(near_writes, "wb"))
    far = PipeMessageStream(os.fdopen(far_reads, "rb"), os.fdopen(far_writes, "wb"))
    leading, following = SwitchingChannel(near, leads=True), SwitchingChannel(far, leads=False)
    yield Ends(near, far, leading, following, near_path, far_path)
    for channel in (near, far):
        channel.close()
    for path in (near_path, far_path):
        path.leave()


def suppressed(receive: Callable[[], object]) -> Callable[[], None]:
    def received() -> None:
        with contextlib.suppress(ConnectionBroken):  # the test is over
            receive()

    return received


def message(number: int) -> bytes:
    return written(FileMessage.STANDS, number)


def test_messages_keep_their_order_when_the_ends_go_over(ends: Ends) -> None:
    for number in range(10):
        ends.near.send(message(number))
    ends.near.found(ends.near_path)
    ends.far.found(ends.far_path)
    for number in range(10, 20):
        ends.near.send(message(number))
    assert [bytes(ends.far.receive()) for _ in range(20)] == [message(number) for number in range(20)]
    assert ends.far.way == TransferMethod.DIAL
    ends.far.send(message(20))
    assert bytes(ends.near.receive()) == message(20)
    assert ends.near.way == TransferMethod.DIAL


def test_the_other_end_goes_over_although_this_one_has_nothing_to_say(ends: Ends) -> None:
    ends.far.found(ends.far_path)
    ends.near.found(ends.near_path)
    ends.near.go_over()
    for channel in (ends.far, ends.near):
        threading.Thread(target=suppressed(channel.receive), daemon=True).start()
    wait_until(
        lambda: (ends.far.way, ends.near.way) == (TransferMethod.DIAL, TransferMethod.DIAL), "an end stays with ssh"
    )


def test_who_follows_says_nothing_over_a_path_before_it_is_told(ends: Ends) -> None:
    ends.far.found(ends.far_path)
    ends.far.send(message(0))
    assert bytes(ends.near.receive()) == message(0)
    assert ends.near.way == TransferMethod.SSH


def test_the_rest_of_a_long_message_goes_over_the_path(ends: Ends) -> None:
    long = written(FileMessage.HAVE, 0, os.urandom(4 << 20))

    def found_meanwhile() -> None:
        if ends.over_ssh.sent_b > 2 * PART_B:
            ends.near.found(ends.near_path)

    ends.over_ssh.sending = found_meanwhile  # type: ignore[method-assign]
    ends.far.found(ends.far_path)
    sending = threading.Thread(target=ends.near.send, args=(long,), daemon=True)
    sending.start()
    assert ends.far.receive() == long
    sending.join(LIMIT_S)
    assert ends.over_ssh.sent_b < 4 * PART_B


def test_a_long_message_comes_whole_through_ssh(ends: Ends) -> None:
    long = written(FileMessage.HAVE, 0, os.urandom(3 * PART_B + 1))
    sending = threading.Thread(target=ends.near.send, args=(long,), daemon=True)
    sending.start()
    assert ends.far.receive() == long
    sending.join(LIMIT_S)


def test_what_is_agreed_upon_passes_beside_the_copy(ends: Ends) -> None:
    ends.near.aside.send(pack(MessageKind.LISTEN, 0, 0))
    ends.near.send(message(0))
    assert ends.far.receive() == message(0)
    assert ends.far.aside.receive() == pack(MessageKind.LISTEN, 0, 0)


def test_a_path_that_is_found_when_the_copy_is_done_is_closed(ends: Ends) -> None:
    ends.near.close()
    ends.near.found(ends.near_path)
    with pytest.raises(ConnectionBroken):
        ends.far_path.receive()


def test_a_path_that_was_not_needed_is_closed_with_the_channel(ends: Ends) -> None:
    ends.far.found(ends.far_path)
    ends.far.close()
    with pytest.raises(ConnectionBroken):
        ends.near_path.receive()


def test_the_search_ends_with_the_ssh_connection(ends: Ends) -> None:
    ends.over_ssh.close()
    with pytest.raises(ConnectionBroken):
        ends.far.receive()
    with pytest.raises(ConnectionBroken):
        ends.far.aside.receive()


@pytest.mark.parametrize("said", [pack(MessageKind.GO, "dial"), pack(MessageKind.PART, 5), pack(MessageKind.LAST)])
def test_what_cannot_be_is_not_believed(ends: Ends, said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching, "OPEN_LIMIT_S", 0.01)
    ends.over_ssh.send(said)
    with pytest.raises(Malformed):
        ends.far.receive()


def test_a_message_without_end_is_not_kept(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching, "LONGEST_MESSAGE_B", 3)
    ends.over_ssh.send(pack(MessageKind.PART, b"ab"))
    ends.over_ssh.send(pack(MessageKind.PART, b"cd"))
    with pytest.raises(Malformed):
        ends.far.receive()
