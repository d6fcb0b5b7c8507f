"""Asking a run at whose door others crowd."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import LIMIT_S
from xmml_executors.open_folder import OpenFolder
from xmml_executors.queries import AskStop
from xmml_executors.run_folder import DOOR
from xmml_executors.run_lock import own
from xmml_run.errors import NotARun
from xmml_run.run_queries import ask, no_answer


class Door:
    """A listener at which there is no room, as where somebody connects faster than it accepts."""

    def __init__(self, folder: Path) -> None:
        name = f"xmml-questions-{os.urandom(12).hex()}"
        (folder / DOOR).write_text(name)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"\0{name}")
        self.listener.listen(0)
        self.crowd: list[socket.socket] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                self.crowd.append(socket.socket(socket.AF_UNIX))
                self.crowd[-1].setblocking(False)
                self.crowd[-1].connect(f"\0{name}")

    def answer(self) -> None:
        """Make room, and answer whoever asks."""
        for each in self.crowd:
            each.close()
        self.listener.settimeout(LIMIT_S)
        question = b""
        while not question:
            connection, _ = self.listener.accept()
            with connection, contextlib.suppress(OSError):
                question = connection.recv(65536)
                connection.sendall(b'{"stopping": true}\n')

    def close(self) -> None:
        for each in (self.listener, *self.crowd):
            each.close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path)
    yield made
    made.close()


def test_a_run_that_goes_on_is_asked_as_soon_as_there_is_room_at_its_door(tmp_path: Path, door: Door) -> None:
    folder = OpenFolder(tmp_path)
    answering = threading.Timer(0.5, door.answer)
    with own(folder):
        answering.start()
        assert ask(folder, AskStop()) == {"stopping": True}
        answering.join()


def test_nobody_waits_for_room_at_the_door_of_a_run_that_is_gone(tmp_path: Path, door: Door) -> None:
    began = time.monotonic()
    assert ask(OpenFolder(tmp_path), AskStop()) is None
    assert time.monotonic() - began < 10


def test_a_run_that_does_not_answer_has_not_ended_as_long_as_somebody_owns_it(
    tmp_path: Path, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmml_run.run_queries.ROOM_WITHIN_S", 1.0)
    folder = OpenFolder(tmp_path)
    with own(folder):
        assert ask(folder, AskStop()) is None
        assert "goes on, but its xmml-run does not answer here" in str(no_answer(folder, "has ended"))
    gone = no_answer(folder, "has ended")
    assert isinstance(gone, NotARun)
    assert str(gone) == f"{tmp_path} has ended"
