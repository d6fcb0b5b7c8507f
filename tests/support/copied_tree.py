"""What tests of copies copy."""

from __future__ import annotations

import os
import random
import stat
from pathlib import Path

import pytest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with files of several sizes, a folder that cannot be written to, and a link."""
    chance = random.Random(1)
    root = tmp_path / "tree"
    (root / "below" / "empty").mkdir(parents=True)
    for name, size in (("a", 0), ("b", 1), ("below/c", 5_000_000), ("below/d", 9_000_001)):
        (root / name).write_bytes(chance.randbytes(size))
        os.utime(root / name, ns=(1, 1_600_000_000_123_456_789))
    for number in range(300):
        (root / "below" / f"small{number}").write_bytes(chance.randbytes(100))
    (root / "link").symlink_to("below/c")
    (root / "b").chmod(0o750)
    (root / "below").chmod(0o550)
    return root


def content(root: Path) -> dict[str, object]:
    """All that a copy must keep of a folder and of what is in it: content, modes, times, links."""
    found: dict[str, object] = {}
    for path in sorted([root, *root.rglob("*")]):
        status = path.lstat()
        what: object
        if path.is_symlink():
            what = os.readlink(path), status.st_mtime_ns
        else:
            what = stat.S_IMODE(status.st_mode), status.st_mtime_ns, path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = what
    return found
