"""Two ends of a copy in one process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from copy_messages import read
from waiting import LIMIT_S
from xmml_sites.transfer.ends import give, take
from xmml_sites.transfer.layout import layout
from xmml_sites.transfer.message_stream import PipeMessageStream
from xmml_sites.transfer.progress import NoProgress, Progress, Report


class Watched:
    """A channel that remembers what was sent, and may change or end it."""

    def __init__(self, inner: PipeMessageStream, change: Callable[[bytes], bytes] | None = None) -> None:
        self.inner, self.change = inner, change
        self.sent: list[tuple[int, list[object]]] = []

    def send(self, message: bytes) -> None:
        self.sent.append(read(message))
        self.inner.send(self.change(message) if self.change else message)

    def receive(self) -> bytes | memoryview:
        return self.inner.receive()

    def close(self) -> None:
        self.inner.close()

    def leave(self) -> None:
        self.inner.leave()


def channels() -> tuple[PipeMessageStream, PipeMessageStream, BinaryIO]:
    """The two ends of a connection, and what the second one reads from."""
    first_reads, second_writes = os.pipe()
    second_reads, first_writes = os.pipe()
    reading = os.fdopen(second_reads, "rb")
    return (
        PipeMessageStream(os.fdopen(first_reads, "rb"), os.fdopen(first_writes, "wb")),
        PipeMessageStream(reading, os.fdopen(second_writes, "wb")),
        reading,
    )


@dataclass
class Copied:
    """What a copy gave: reports, or what stopped the ends, and what the source sent."""

    source: Report | Exception
    target: Report | Exception
    said: list[tuple[int, list[object]]]

    @property
    def sent_b(self) -> int:
        assert isinstance(self.source, Report)
        return self.source.sent_b


def copied(
    sources: Sequence[Path],
    destination: str,
    compare: bool = False,
    change: Callable[[bytes], bytes] | None = None,
    change_answers: Callable[[bytes], bytes] | None = None,
    progress: Progress | None = None,
    asked: Sequence[str] | None = None,
) -> Copied:
    """Copy from here to here, through both ends.

    Args:
        change: what of a message of the source arrives.
        change_answers: what of a message of the target arrives.
        progress: of the target.
        asked: what the target has asked for, if it knows.
    """
    near, far, reading = channels()
    watched, answering = Watched(near, change), Watched(far, change_answers)
    outcome: dict[str, Report | Exception] = {}

    def taking() -> None:
        try:
            where = layout(destination, len(sources))
            shown = progress or NoProgress()
            outcome["target"] = take(answering, where, shown, compare=compare, sources=asked)
        except Exception as error:
            outcome["target"] = error
        finally:
            far.close()
            reading.close()  # as when the process ends: a source that still writes hears of it

    target = threading.Thread(target=taking)
    target.start()
    try:
        outcome["source"] = give(watched, sources, NoProgress())
    except Exception as error:
        outcome["source"] = error
    finally:
        near.close()
    target.join(LIMIT_S)
    return Copied(outcome["source"], outcome["target"], watched.sent)
