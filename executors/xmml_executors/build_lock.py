"""Only one run at a time builds in the folder of a model, so that no other one starts programs that are half made.

The lock is the kernel's, on a file in the folder: it goes with the process that holds it, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from xmml_executors.model_files import notes_folder

#: The file, beside the notes of a model's folder.
LOCK = "building"
#: How often to look whether another run has built [s].
LOOK_EVERY_S = 0.1


def waiting_in(folder: str) -> str:
    """Return what people read while a run waits for the lock."""
    return f"another run builds programs in {folder}: waiting until it has finished"


class BuildLock:
    """The lock on builds in the folder of a model. Released with the `with` block, or with the process.

    In a folder where no file can be made, or on a file system without locks, everybody holds it.
    """

    def __init__(self, folder: Path) -> None:
        """Prepare to lock; nothing is locked yet."""
        try:
            path = notes_folder(folder) / LOCK
            self._descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666
            )
        except OSError:
            self._descriptor = -1

    def take(self) -> bool:
        """Return whether this process holds the lock, after trying to take it; never wait."""
        try:
            if self._descriptor >= 0:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def __enter__(self) -> BuildLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
