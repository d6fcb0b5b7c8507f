"""Who owns a run: the command that carries it out holds a lock on a file in the run's folder as long as it lives.

The kernel takes the lock away when that process is gone, however it went; also when its machine was.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import BinaryIO

from xmml_executors.open_folder import OpenFolder

#: The file, in the folder of the run. Only its owner can open it: nobody else can make a run look alive.
LOCK = ".lock"
#: How long it may take until nobody looks at the lock any more; who looks has it for a moment.
LOOKED_AT_S = 2.0
LOOK_AGAIN_S = 0.01


class RunLocked(Exception):
    """Another process carries the run out."""


def own(folder: OpenFolder) -> BinaryIO:
    """Own the run in a folder until the file that is returned is closed, in every process that has inherited it.

    Raises:
        RunLocked: another process does.
        OSError: the file cannot be made.
    """
    file = open(folder.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600), "r+b")  # noqa: SIM115 - open as long as the run
    until = time.monotonic() + LOOKED_AT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                file.close()
                raise RunLocked(f"another process carries out the run in {folder.path}") from None
            time.sleep(LOOK_AGAIN_S)
            continue
        except OSError:
            pass  # a file system without locks
        return file


def is_owned(folder: OpenFolder) -> bool:
    """Whether somebody carries the run in a folder out. On a file system without locks, and of a run of somebody else:
    whether its secret is there."""
    try:
        with folder.open_to_read(LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except OSError:
        return folder.status(".secret") is not None
    return False
