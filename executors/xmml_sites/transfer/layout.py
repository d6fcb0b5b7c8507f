"""Where the copies of files and folders go."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class Layout:
    """Where entries go: below `base`; the first part of their paths becomes `name` if one is given."""

    base: Path
    name: str | None


def layout(destination: str, sources: int) -> Layout:
    """Where the copies of so many files or folders go.

    As with cp: into the destination if that is a folder, ends with a slash or there are several of them; else the one
    copy gets the name of the destination. A destination that is a symbolic link to a folder is that folder, as with cp,
    scp and rsync. No host makes such a link by an earlier attempt: the target takes none in the place of what was asked
    for (`Entry::check` of native/transfer).

    Raises:
        OSError: the folder is not there or cannot be made.
    """
    where = Path(destination).expanduser()
    if destination.endswith("/") or sources > 1:
        where.mkdir(parents=True, exist_ok=True)
    if where.is_dir():
        return Layout(where, None)
    if not where.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(where.parent))
    return Layout(where.parent, where.name)


def names_of(sources: Sequence[str]) -> tuple[list[str], int]:
    """Return what the copies of files and folders at a host are called, and of how many of them the host alone knows
    that: of its home folders, of `.`, `..` and `/`."""
    known = [name for each in sources if (name := PurePosixPath(each).name) not in ("", "..") and not _is_home(each)]
    return known, len(sources) - len(known)


def _is_home(path: str) -> bool:
    return path.startswith("~") and "/" not in path.rstrip("/")
