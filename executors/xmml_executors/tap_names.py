"""The names of the taps of a run."""

from __future__ import annotations

from collections.abc import Collection


class TapNames:
    """Which names taps have that may still join, or have joined and not left."""

    def __init__(self, taken: Collection[str]) -> None:
        """Begin with no tap.

        Args:
            taken: names of instances, which no tap may have.
        """
        self._taken = taken
        self._names: set[str] = set()
        self._count = 0

    def __contains__(self, name: object) -> bool:
        """Whether a tap has this name."""
        return name in self._names

    def next(self) -> str:
        """Return the name of the next tap, which no instance has and no tap has had."""
        name = f"tap-{self._count + 1}"
        while name in self._taken:
            name = f"{name}-"
        return name

    def add(self, name: str) -> None:
        """Let a tap join by the name that `next` has returned."""
        self._names.add(name)
        self._count += 1

    def remove(self, name: str) -> None:
        """Forget a tap that has left."""
        self._names.discard(name)
