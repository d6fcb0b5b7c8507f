"""Instances whose connection to the run is broken, and who may come back."""

from __future__ import annotations

#: People hear of an absence that lasts so long; most are over before.
TOLD_AFTER_S = 2.0
#: So many are named at most.
MOST_NAMES = 5


class DisconnectedInstances:
    """Who is away, since when, and who of them people know of."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._told: set[str] = set()
        self._limit_s = 0.0

    def __contains__(self, name: str) -> bool:
        return name in self._since

    def __bool__(self) -> bool:
        return bool(self._since)

    def begin(self, name: str, limit_s: float, now: float) -> None:
        """An instance is away; it may come back within `limit_s`."""
        self._since.setdefault(name, now)
        self._limit_s = limit_s

    def end(self, name: str) -> bool:
        """It is not away any more. Return whether people knew of it, and nobody is left of whom they do."""
        self._since.pop(name, None)
        was_told = name in self._told
        self._told.discard(name)
        return was_told and not self._told

    @property
    def deadline(self) -> float | None:
        """When `news` has something to say."""
        return min((at + TOLD_AFTER_S for name, at in self._since.items() if name not in self._told), default=None)

    def news(self, now: float) -> str | None:
        """Return what people should know of those who are away for long enough, once."""
        names = [name for name, at in self._since.items() if name not in self._told and at + TOLD_AFTER_S <= now]
        if not names:
            return None
        self._told.update(names)
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        return (
            f"{', '.join(names[:MOST_NAMES])}{more}: the connection to the coordinator is broken; "
            f"the run goes on if it comes back within {self._limit_s:g} s"
        )
