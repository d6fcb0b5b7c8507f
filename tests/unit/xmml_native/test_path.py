"""Paths from Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from xmml_native import Error
from xmml_native._native import Path, PathCredentials, PathListener

SECRET = b"0123456789abcdef"
LIMIT_S = 20.0


def listening(**more: Any) -> PathListener:
    return PathListener("127.0.0.1:0", run="run", name="far", secret=SECRET, **more)


def dialling(listener: PathListener, secret: bytes = SECRET, **more: Any) -> Path:
    return Path.dial(listener.address, "far", run="run", name="near", secret=secret, **more)


@pytest.fixture
def ends() -> Iterator[tuple[Path, Path]]:
    """Two ends of a path of three streams."""
    listener = listening()
    near = dialling(listener, streams=3)
    yield near, listener.accept(LIMIT_S)
    del listener


def test_messages_come_as_they_were_sent_in_both_directions(ends: tuple[Path, Path]) -> None:
    near, far = ends
    near.send(b"there")
    near.send(bytes(3_000_000))
    far.send(b"")
    assert bytes(memoryview(far.receive(timeout=LIMIT_S))) == b"there"
    assert bytes(memoryview(far.receive(timeout=LIMIT_S))) == bytes(3_000_000)
    assert len(near.receive(timeout=LIMIT_S)) == 0
    assert (near.peer, far.peer) == ("far", "near")


def test_lanes_are_apart(ends: tuple[Path, Path]) -> None:
    near, far = ends
    near.send(b"bulk")
    near.send(b"control", control=True)
    assert bytes(memoryview(far.receive(control=True, timeout=LIMIT_S))) == b"control"
    assert bytes(memoryview(far.receive(timeout=LIMIT_S))) == b"bulk"


def test_a_wait_ends_in_time(ends: tuple[Path, Path]) -> None:
    with pytest.raises(TimeoutError):
        ends[0].receive(timeout=0.05)
    with pytest.raises(TimeoutError, match="nobody has dialled"):
        listening().accept(0.05)
    with pytest.raises(Error, match="timeout=-1 is not a number of seconds"):
        ends[0].receive(timeout=-1)


def test_a_path_that_is_finished_ends_behind_its_last_message(ends: tuple[Path, Path]) -> None:
    near, far = ends
    near.send(b"last")
    assert near.flush(LIMIT_S)
    assert not near.close(0.05), "the other end has not finished"
    assert bytes(memoryview(far.receive(timeout=LIMIT_S))) == b"last"
    with pytest.raises(EOFError, match="has finished"):
        far.receive(timeout=LIMIT_S)
    assert far.close(LIMIT_S)
    assert near.close(LIMIT_S)


def test_as_many_streams_as_asked_for_carry(ends: tuple[Path, Path]) -> None:
    near, _ = ends
    assert near.wait_open(LIMIT_S)
    while near.stats()["streams"] < 3:
        near.flush(0.01)
    assert near.stats()["streams_lost"] == 0


def test_ends_that_know_each_others_certificates_speak_encrypted_and_others_do_not() -> None:
    far, near, stranger = (PathCredentials(name, 3600.0) for name in ("far", "near", "stranger"))
    listener = listening(encryption=(far, [near.fingerprint]))
    path = dialling(listener, encryption=(near, [far.fingerprint]))
    path.send(b"secret")
    accepted = listener.accept(LIMIT_S)
    assert bytes(memoryview(accepted.receive(timeout=LIMIT_S))) == b"secret"
    refused = dialling(listener, encryption=(stranger, [far.fingerprint]), patience=0.5)
    with pytest.raises(TimeoutError, match="nobody"):
        listener.accept(1.0)
    del refused


def test_whoever_does_not_know_the_secret_is_not_let_in() -> None:
    listener = listening()
    path = dialling(listener, secret=b"another secret!!", patience=0.5)
    with pytest.raises(TimeoutError, match="nobody"):
        listener.accept(1.5)
    with pytest.raises(Error):
        path.wait_open(LIMIT_S)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(Error, match="a path has 1 to 128"):
        listening(streams=500)
    with pytest.raises(Error, match="secret of a path is empty"):
        PathListener("127.0.0.1:0", run="run", name="far", secret=b"")
