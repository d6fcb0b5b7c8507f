"""Where the copies of files and folders go."""

from __future__ import annotations

import errno
from pathlib import Path

from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class Layout:
    """Where entries go: below `base`; the first part of their paths becomes `name` if one is given."""

    base: Path
    name: str | None


def layout(destination: str, sources: int) -> Layout:
    """Where the copies of so many files or folders go.

    As with cp: into the destination if that is a folder, ends with a slash or there are several of them; else the one
    copy gets the name of the destination.

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
