"""The files that patterns of a document name, as a shell finds them."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator

from xmml.reach import ANYWHERE, Reach

#: A search for the patterns of a model that is checked or analysed reads at most so many entries of folders.
MOST_ENTRIES = 300_000

_WILDCARD = re.compile(r"[*?[]")


class OutsideError(Exception):
    """A path leads out of reach.

    Attributes:
        path: where it does so.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class TooManyFilesError(Exception):
    """More files and folders would have to be looked at than is allowed."""


class Search:
    """Looks for files, and opens none.

    Links are followed. A link to one of the folders that it lies in is skipped.
    """

    def __init__(self, reach: Reach = ANYWHERE, most: int | None = None) -> None:
        """Begin.

        Args:
            reach: nothing is looked for elsewhere.
            most: it reads at most so many entries of folders; `None`: all.
        """
        self.reach = reach
        self._left = most

    def matches(self, folder: str, pattern: str) -> list[str]:
        """Return the files and folders that a pattern names, sorted.

        `*`, `?` and `[...]` stand for parts of a name, `**` for any folders, at the end also for the files in them. A
        wildcard matches a hidden name only where its part of the pattern begins with a dot.

        Raises:
            OutsideError: it leads out of reach.
            TooManyFilesError: there is too much to look at.
        """
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        beginning = next((number for number, part in enumerate(parts) if _WILDCARD.search(part)), len(parts))
        begin = os.path.join("/" if pattern.startswith("/") else folder, *parts[:beginning])
        if "\0" in begin:
            return []
        self._require_in_reach(begin)
        found = [begin] if os.path.lexists(begin) else []
        for part in parts[beginning:]:
            # `**` finds a folder on several ways.
            found = list(dict.fromkeys(inner for path in found for inner in self._step(path, part)))
        for path in found:
            if os.path.islink(path):
                self._require_in_reach(path)
        return sorted(found)

    def below(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield everything below a folder, and whether it is a folder, which stands before what is in it.

        Raises:
            OutsideError: something leads out of reach.
            TooManyFilesError: there is too much to look at.
        """
        for entry, is_folder in self._below(folder, with_hidden=True):
            if entry.is_symlink():
                self._require_in_reach(entry.path)
            yield entry.path, is_folder

    def _below(self, folder: str, *, with_hidden: bool) -> Iterator[tuple[os.DirEntry[str], bool]]:
        waiting = [_Folder(folder)]
        while waiting:
            current = waiting.pop()
            inner = []
            for entry in self._entries(current.path):
                if entry.name.startswith(".") and not with_hidden:
                    continue
                found = _Folder(entry.path, current) if _is_folder(entry) else None
                if found is not None and found.is_within_itself():
                    continue
                yield entry, found is not None
                if found is not None:
                    if entry.is_symlink():
                        self._require_in_reach(entry.path)
                    inner.append(found)
            waiting.extend(reversed(inner))

    def _step(self, path: str, part: str) -> Iterator[str]:
        if part == "**":
            yield path
            yield from (entry.path for entry, _ in self._below(path, with_hidden=False))
        elif _WILDCARD.search(part):
            is_named = re.compile(fnmatch.translate(part)).match
            for entry in self._entries(path):
                if is_named(entry.name) and (part.startswith(".") or not entry.name.startswith(".")):
                    if entry.is_symlink():
                        self._require_in_reach(entry.path)
                    yield entry.path
        elif os.path.lexists(inner := os.path.join(path, part)):
            self._require_in_reach(inner)
            yield inner

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Return what is in a folder; nothing if it is none, or cannot be read."""
        found = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    found.append(entry)
                    if self._left is not None and len(found) > self._left:
                        raise TooManyFilesError
        except OSError:
            return []
        if self._left is not None:
            self._left -= len(found)
        return sorted(found, key=lambda entry: entry.name)

    def _require_in_reach(self, path: str) -> None:
        if not self.reach.holds(path):
            raise OutsideError(path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads round in a circle
        return False


class _Folder:
    """A folder on the way of a search, and the one that it was found in."""

    def __init__(self, path: str, parent: _Folder | None = None) -> None:
        self.path, self._parent = path, parent
        try:
            status = os.stat(path)
            self._identity = status.st_dev, status.st_ino
        except OSError:  # it was removed meanwhile
            self._identity = 0, 0

    def is_within_itself(self) -> bool:
        """Whether a link on the way leads back up to it."""
        above = self._parent
        while above is not None and above._identity != self._identity:
            above = above._parent
        return above is not None
