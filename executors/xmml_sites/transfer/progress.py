"""How far a copy is, and what came of it."""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from xmml.late_dataclass import dataclass


@dataclass
class Report:
    """What a copy did.

    `size_b` is the size of all files, `sent_b` what had to travel of it. `failed` has a path and a reason for
    everything that is not as it should be at the target.
    """

    files: int = 0
    size_b: int = 0
    sent_b: int = 0
    untouched: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    way: str = ""
    streams: int = 1
    seconds: float = 0.0


class Progress(Protocol):
    """Is told how a copy goes on."""

    def begin(self) -> None:
        """The other end is being started, which takes long enough to load what shows the rest."""

    def way(self, text: str) -> None:
        """How the bytes travel from now on."""

    def total(self, files: int, size_b: int) -> None:
        """What there is to copy."""

    def advanced(self, size_b: int) -> None:
        """So many bytes more stand at the target."""

    def compared(self) -> None:
        """More was read here to be compared with what the other end has: nothing need come meanwhile."""


class NoProgress:
    """Tells nobody."""

    def begin(self) -> None:
        """Not shown."""

    def way(self, text: str) -> None:
        """Not shown."""

    def total(self, files: int, size_b: int) -> None:
        """Not shown."""

    def advanced(self, size_b: int) -> None:
        """Not shown."""

    def compared(self) -> None:
        """Not shown."""
