"""The two ends of a copy: `give` has the files, `take` gets them.

The crate `native/transfer` does the work. Here each end gets a channel, progress, and a thread beside that of its
caller, which receives requests (`give`) or compares files (`take`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from xmml_native.transfer import CopyFailure, CopySource, CopyTarget

from xmml_sites.transfer.layout import Layout, names_of
from xmml_sites.transfer.message_stream import ConnectionBroken, MessageStream, PeerFailed
from xmml_sites.transfer.messages import Malformed
from xmml_sites.transfer.progress import Progress, Report

#: How often progress is reported [s].
_SHOWN_EVERY_S = 0.1
#: How long the thread that compares files may take to stop when the source lists files for ever [s]: one that reads
#: nothing either has the thread wait.
_STOPPED_WITHIN_S = 2.0


class NoRoom(Exception):
    """Nothing more can be written here; the text says why, and what to do."""


class ListingTooLarge(Exception):
    """The source lists more, or more of it fails, than may be held here; the text says how much."""


_FAILURES = {
    "peer failed": PeerFailed,
    "malformed": Malformed,
    "no room": NoRoom,
    "too much": ListingTooLarge,
    "stopped": ConnectionBroken,
}


def give(
    channel: MessageStream, sources: Sequence[Path], progress: Progress, names: Sequence[str] | None = None
) -> Report:
    """Give files and folders away over a channel.

    Args:
        names: what the copies are called, if not the same.

    Returns:
        What came of it.

    Raises:
        ConnectionBroken: the connection is gone; what stands at the target is kept there for the next attempt.
        PeerFailed: the target cannot go on.
        Malformed: the other end does not keep to the protocol.
    """
    source, failures = CopySource([*sources], names), list[Exception]()

    def listen() -> None:
        # At any time: the target never has to wait for us before it can read on.
        try:
            while source.hear(channel.receive()):
                pass
        except Exception as error:
            failures.append(error)
            source.lose()

    threading.Thread(target=listen, daemon=True).start()
    try:
        with _shown(source, progress), _explained():
            return Report(**source.run(channel.send))
    except ConnectionBroken as error:
        # A target that stops says why, and closes the connection while we may still be sending.
        why = source.last_word()
        if why is not None:
            raise PeerFailed(why) from None
        raise failures[0] if failures else error from None


def take(
    channel: MessageStream,
    layout: Layout,
    progress: Progress,
    *,
    compare: bool = False,
    only: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
    listing_memory_b: int | None = None,
) -> Report:
    """Take files and folders over a channel.

    Args:
        compare: compare files of the same size and time by their checksums, too.
        only: take nothing but files of these paths.
        sources: take nothing but these files and folders, as they were asked for, with what is in them.
        listing_memory_b: how much memory the listing may take, with what fails of it; None: as much as there is.

    Returns:
        What came of it.

    Raises:
        ConnectionBroken: the connection is gone; what has come is kept for the next attempt.
        NoRoom: the disk is full, or may not be written; the same holds.
        ListingTooLarge: the listing, with what has failed of it, takes more memory than it may.
        PeerFailed: the source cannot go on.
        Malformed: the other end does not keep to the protocol.
        OSError: the folder cannot be opened.
    """
    trees = None if sources is None else names_of(sources)
    target = CopyTarget(
        layout.base, layout.name, compare=compare, only=only, trees=trees, listing_memory=listing_memory_b
    )
    considering = threading.Thread(target=target.consider, args=(channel.send,), daemon=True)
    considering.start()
    stopped_within_s = None
    try:
        with _shown(target, progress), _explained():
            while target.hear(channel.receive(), channel.send):
                pass
        return Report(**target.report())
    except ListingTooLarge:
        stopped_within_s = _STOPPED_WITHIN_S
        raise
    finally:
        target.stop()
        considering.join(stopped_within_s)


def remove_parts(folder: Path, pattern: str = "**/*") -> None:
    """Remove what interrupted copies have left below a folder for another attempt, when there will be none.

    Args:
        pattern: of the files that were copied.
    """
    above, _, name = pattern.rpartition("/")
    for part in folder.glob(f"{above}{'/' if above else ''}.{name}.xmml-part"):  # PART_SUFFIX of native/transfer
        part.unlink(missing_ok=True)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except CopyFailure as error:
        kind, text = error.args
        raise _FAILURES[kind](text) from None


@contextmanager
def _shown(end: CopySource | CopyTarget, progress: Progress) -> Iterator[None]:
    """Report what has changed, every `_SHOWN_EVERY_S` and once more at the end."""
    has_ended = threading.Event()

    def show() -> None:
        has_total, shown_b, compared_b = False, 0, 0
        is_last = False
        while not is_last:
            is_last = has_ended.wait(_SHOWN_EVERY_S)
            compared_before_b = compared_b
            total, standing_b, compared_b = end.how_far()
            if total is not None and not has_total:
                has_total = True
                progress.total(*total)
            if standing_b > shown_b:
                progress.advanced(standing_b - shown_b)
                shown_b = standing_b
            if compared_b > compared_before_b:
                progress.compared()

    showing = threading.Thread(target=show, daemon=True)
    showing.start()
    try:
        yield
    finally:
        has_ended.set()
        showing.join()
