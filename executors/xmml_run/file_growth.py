"""Waiting until files grow, with inotify."""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Iterable
from pathlib import Path

_IN_MODIFY = 0x2
_IN_CLOEXEC = 0o2000000


def wait_for_growth(files: Iterable[Path], timeout_s: float) -> None:
    """Return when one of the files has been written to, or after `timeout_s`; files that do not exist are left out."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(_IN_CLOEXEC)
    if watch < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "inotify")
    try:
        for file in files:
            libc.inotify_add_watch(watch, os.fsencode(file), _IN_MODIFY)
        select.select([watch], [], [], timeout_s)
    finally:
        os.close(watch)
