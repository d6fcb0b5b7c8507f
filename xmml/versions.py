"""Version ranges: `0.1.x` contains 0.1 and 0.1.1; `0.0-1.x` and `0.1.[2-3]` contain what lies between."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xmml.late_dataclass import dataclass


class VersionError(ValueError):
    """A text that is no version or range, or a range asked to contain a range."""


@dataclass(frozen=True)
class VersionRange:
    """Dot-separated parts, each an interval of integers (`None`: any integer)."""

    text: str
    parts: tuple[tuple[int, int] | None, ...]

    @property
    def is_definite(self) -> bool:
        """Whether this is one version and not a range."""
        return all(part is not None and part[0] == part[1] for part in self.parts)

    def __str__(self) -> str:
        return self.text

    def __contains__(self, other: VersionRange | str) -> bool:
        """Say whether a definite version lies in this range: common parts match, surplus parts may be 0.

        Raises:
            VersionError: `other` is itself a range, or no version.
        """
        version = parse(other) if isinstance(other, str) else other
        if not version.is_definite:
            raise VersionError(f'"{version}" is a range; only a definite version can lie in a range')
        common = min(len(self.parts), len(version.parts))
        zero = (0, 0)
        return all(
            _overlaps(mine, theirs) for mine, theirs in zip(self.parts[:common], version.parts[:common], strict=True)
        ) and all(_overlaps(part, zero) for part in (*self.parts[common:], *version.parts[common:]))


_PART = re.compile(r"(x)|([0-9]{1,9})|\[?([0-9]{1,9})-([0-9]{1,9})(\]?)")


def parse(text: str) -> VersionRange:
    """Read a version or a range.

    Raises:
        VersionError: the text is neither.
    """
    parts: list[tuple[int, int] | None] = []
    for word in text.strip().split("."):
        match = _PART.fullmatch(word)
        if match is None or word.startswith("[") != word.endswith("]"):
            raise VersionError(f'"{word}" in "{text}" is no part of a version: expected an integer, x, 2-3 or [2-3]')
        any_, single, low, high, _ = match.groups()
        if any_:
            parts.append(None)
        elif single:
            parts.append((int(single), int(single)))
        elif int(low) <= int(high):
            parts.append((int(low), int(high)))
        else:
            raise VersionError(f'the range "{word}" in "{text}" ends before it begins')
    return VersionRange(text.strip(), tuple(parts))


def any_contains(ranges: Iterable[VersionRange | str], version: VersionRange | str) -> bool:
    """Say whether a definite version lies in any of the ranges."""
    return any(version in (parse(each) if isinstance(each, str) else each) for each in ranges)


def _overlaps(left: tuple[int, int] | None, right: tuple[int, int] | None) -> bool:
    return left is None or right is None or (left[0] <= right[1] and right[0] <= left[1])
