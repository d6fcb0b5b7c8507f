"""Which processes somebody watches."""

from __future__ import annotations

import contextlib
from pathlib import Path


def watches(watcher: int, pid: int) -> bool:
    """Whether a process holds a descriptor of another one (`pidfd_open`)."""
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{watcher}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                if f"\nPid:\t{pid}\n" in entry.read_text():
                    return True
    return False
