"""What to do when the system gives no more of something."""

from __future__ import annotations

import errno

_ADVICE = {
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.ENFILE: "all processes together have too many files open: raise fs.file-max",
    errno.ENOMEM: "raise the limit of memory: ulimit -v, or that of the job or container",
    errno.EAGAIN: "raise the limit of processes: ulimit -u, or pids.max of the container",
    errno.ENOSPC: "make room on the disk, or name another folder with -o",
    errno.EDQUOT: "your share of the disk is used up: make room, or name another folder with -o",
}


def explained(error: OSError | MemoryError) -> str:
    """Return what the system said, and what to do where a limit was reached."""
    if isinstance(error, MemoryError):
        return f"there is no memory left; {_ADVICE[errno.ENOMEM]}"
    advice = _ADVICE.get(error.errno or 0)
    said = error.strerror or str(error)
    return f"{said}; {advice}" if advice else said


def is_reached(error: OSError) -> bool:
    """Whether the system refused because a limit is reached."""
    return error.errno in _ADVICE
