"""Which known name a misspelt one was meant to be, with a bound on the work for documents full of unknown names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from xmml.problems import did_you_mean

#: How many pairs of names are compared in all: some seconds at most, and far more than a person would read about.
MOST_COMPARISONS = 200_000


class Spelling:
    """Looks for similar names; once `MOST_COMPARISONS` are made it finds none any more."""

    def __init__(self) -> None:
        self._left = MOST_COMPARISONS
        self._found: dict[tuple[str, int], list[str]] = {}

    @property
    def is_tired(self) -> bool:
        """Whether nothing is compared any more."""
        return self._left <= 0

    def close(self, word: str, known: Collection[str]) -> list[str]:
        """Return the known names that are like a word, the most similar first."""
        key = word, id(known)
        if key not in self._found:
            self._found[key] = get_close_matches(word[:80], list(known), cutoff=0.6) if self._spend(len(known)) else []
        return self._found[key]

    def hint(self, word: str, known: Iterable[str], what: str = "") -> str:
        """Return a hint as `did_you_mean` does; empty once there were too many."""
        names = list(known)
        return did_you_mean(word, names, what) if self._spend(len(names)) else ""

    def _spend(self, comparisons: int) -> bool:
        self._left -= comparisons
        return not self.is_tired
