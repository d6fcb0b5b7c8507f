"""Which peers take part in a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Peer(Protocol):
    """Somebody who can be measured."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    def missing(self) -> str | None:
        """Why it cannot take part here, and what to do about it; None if it can."""

    def prepare(self) -> None:
        """Builds its programs."""


P = TypeVar("P", bound=Peer)
T = TypeVar("T")


def choose(peers: Sequence[P], names: str | None) -> list[P]:
    """The peers named in a list with commas (None: all) that can take part, built; says why others cannot.

    Raises:
        SystemExit: a name is unknown, or nobody is left.
    """
    wanted = names.split(",") if names else [peer.name for peer in peers]
    unknown = set(wanted) - {peer.name for peer in peers}
    if unknown:
        raise SystemExit(f"there is no peer {', '.join(unknown)}; there are {', '.join(peer.name for peer in peers)}")
    chosen = []
    for peer in peers:
        if peer.name in wanted:
            reason = peer.missing()
            if reason:
                print(f"without {peer.label}: {reason}")
                continue
            peer.prepare()
            chosen.append(peer)
    if not chosen:
        raise SystemExit("nobody is left to measure")
    return chosen


def rotated(peers: Sequence[T], turn: int) -> list[T]:
    """The peers, beginning with another one each turn."""
    begin = turn % len(peers)
    return [*peers[begin:], *peers[:begin]]
