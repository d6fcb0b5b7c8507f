"""What a conversion returns."""

from __future__ import annotations

from collections.abc import Iterable

from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class Converted:
    """A model in another format.

    Attributes:
        text: the file.
        notes: what was left out or assumed, a sentence each; none twice.
    """

    text: str
    notes: tuple[str, ...] = ()


def without_repetition(notes: Iterable[str]) -> tuple[str, ...]:
    """Return the notes in their order, none twice."""
    return tuple(dict.fromkeys(notes))
