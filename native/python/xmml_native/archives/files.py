"""The files of an archive, opened below a descriptor of its folder.

An archive may come from somebody else, who has chosen what lies in its folder. So no symbolic link is followed there,
and only regular files are opened: a pipe would keep whoever opens it waiting.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from xmml_native.errors import ArchiveError


class ArchiveFiles:
    """The files of an archive, by name.

    Attributes:
        folder: the archive, as it was named. A link may lead to it.
    """

    def __init__(self, folder: str) -> None:
        """Open the folder.

        Raises:
            OSError: there is no such folder.
        """
        self.folder, self._descriptor = folder, -1
        self._descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)

    def path(self, name: str) -> str:
        """Return the path of a file, for people."""
        return os.path.join(self.folder, name)

    def names(self) -> list[str]:
        """Return the names of all files."""
        descriptor = self._open_folder()
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Have the names of new files survive a loss of power."""
        descriptor = self._open_folder()
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a regular file. `None`: there is nothing of that name.

        The file is not opened. That matters for the index: a process that closes a file loses all locks that SQLite
        has of it.

        Raises:
            ArchiveError: it is a symbolic link, or no regular file.
            OSError: it cannot be looked at.
        """
        try:
            found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._refuse_others(name, found.st_mode)
        return found

    def open(self, name: str, flags: int, mode: int = 0o644) -> int:
        """Open a regular file; return its descriptor.

        Raises:
            ArchiveError: it is a symbolic link, or no regular file.
            OSError: it cannot be opened.
        """
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, mode, dir_fd=self._descriptor)
        except OSError:
            with suppress(OSError):
                self.status(name)
            raise
        try:
            self._refuse_others(name, os.fstat(descriptor).st_mode)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def size(self, name: str) -> int:
        """Return the size of a regular file [bytes].

        Raises:
            ArchiveError, OSError: as of `status`, or it is not there.
        """
        found = self.status(name)
        if found is None:
            raise FileNotFoundError(2, os.strerror(2), self.path(name))
        return found.st_size

    def remove(self, name: str) -> None:
        """Remove a file.

        Raises:
            OSError: that is not possible.
        """
        os.unlink(name, dir_fd=self._descriptor)

    def _refuse_others(self, name: str, mode: int) -> None:
        if stat.S_ISREG(mode):
            return
        what = "a symbolic link, which is not followed" if stat.S_ISLNK(mode) else "no regular file"
        raise ArchiveError(f"{self.path(name)} is {what}: an archive has regular files alone")

    def _open_folder(self) -> int:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)

    def close(self) -> None:
        """Close the folder. Files that were opened stay open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()
