"""The folder of a run, opened once.

Whoever may write in a folder further above can put another folder in the place of a run's at any time. So the path of a
run is looked up once. What lies below is reached from the descriptor of the folder, and through no symbolic link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

#: Modes of what is made: a group that may read the folder of a run changes nothing in it.
FOLDER_MODE, FILE_MODE = 0o755, 0o644

_A = TypeVar("_A")


class OpenFolder:
    """A folder by its descriptor.

    Files are named relative to it, such as `instances/a/stdout`. An OSError tells the path of the file.

    Attributes:
        path: where the folder was when it was opened.
    """

    def __init__(self, path: Path, *, follow: bool = True) -> None:
        """Open it.

        Args:
            follow: the path may be that of a link to the folder.

        Raises:
            OSError: there is no such folder, or it cannot be read.
        """
        self.path, self._descriptor = path, -1
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | (0 if follow else os.O_NOFOLLOW))

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    @property
    def lasting_path(self) -> Path:
        """A path that leads to this folder alone, as long as it is open: in this process, and in a child until it has
        its own program."""
        return Path(f"/proc/self/fd/{self._descriptor}")

    def is_in_place(self) -> bool:
        """Return whether the path leads to the folder."""
        return self._is_found() is True

    def is_replaced(self) -> bool:
        """Return whether the path leads to another folder. After a move or a removal it leads nowhere."""
        return self._is_found() is False

    def _is_found(self) -> bool | None:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        except OSError:
            return None

    def names(self) -> list[str]:
        """Return the names of what is in the folder."""
        return os.listdir(self._descriptor)

    def status(self, name: str) -> os.stat_result | None:
        """Return what has a name; of a link, the link. `None`: nothing has the name.

        Raises:
            OSError: it cannot be looked at.
        """
        with suppress(FileNotFoundError):
            return self._at(name, lambda last, above: os.stat(last, dir_fd=above, follow_symlinks=False))
        return None

    def open(self, name: str, flags: int, mode: int = FILE_MODE) -> int:
        """Open a file, and return its descriptor.

        Raises:
            OSError: it cannot be opened; or it, or a folder on the way to it, is a link.
        """
        return self._at(name, lambda last, above: os.open(last, flags | os.O_NOFOLLOW, mode, dir_fd=above))

    def open_to_read(self, name: str) -> BufferedReader:
        """Open a regular file.

        Raises:
            OSError: as in `open`, or it is no regular file.
        """
        return open(self._open_regular(name, os.O_RDONLY), "rb")

    def read(self, name: str) -> bytes:
        """Return the content of a regular file.

        Raises:
            OSError: as in `open_to_read`.
        """
        with self.open_to_read(name) as file:
            return file.read()

    def write(self, name: str, content: bytes, mode: int = FILE_MODE) -> None:
        """Write a file; earlier content is replaced.

        Raises:
            OSError: as in `open_to_read`, or it cannot be written.
        """
        with open(self._open_regular(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)

    def make_folder(self, name: str) -> None:
        """Make a folder and those above it, unless they are there.

        Raises:
            OSError: that is not possible.
        """
        with suppress(FileExistsError):
            try:
                self._at(name, _make)
            except FileNotFoundError:
                above, slash, _ = name.rpartition("/")
                if not slash:
                    raise
                self.make_folder(above)
                self._at(name, _make)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there.

        Raises:
            OSError: that is not possible.
        """
        with suppress(FileNotFoundError):
            self._at(name, lambda last, above: os.unlink(last, dir_fd=above))

    def below(self, name: str) -> OpenFolder:
        """Open a folder in this one.

        Raises:
            OSError: as in `open`, or it is no folder.
        """
        inner = OpenFolder.__new__(OpenFolder)
        inner.path, inner._descriptor = self.path / name, -1
        inner._descriptor = self.open(name, os.O_RDONLY | os.O_DIRECTORY)
        return inner

    def told(self, error: OSError) -> OSError:
        """Return an error about a file that was reached by `lasting_path` as one that tells the path of the file."""
        place = str(self.lasting_path)
        name = str(error.filename)
        if name != place and not name.startswith(f"{place}/"):
            return error
        return OSError(error.errno, error.strerror, f"{self.path}{name.removeprefix(place)}")

    def _open_regular(self, name: str, flags: int, mode: int = FILE_MODE) -> int:
        """Open a regular file; a pipe that a program has made in its place is not waited for."""
        descriptor = self.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY, mode)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a regular file", str(self.path / name))
        return descriptor

    def _at(self, name: str, do: Callable[[str, int], _A]) -> _A:
        """Do something with a name in the folder that has it, given by its descriptor."""
        *folders, last = name.split("/")
        above, path = self._descriptor, self.path
        try:
            for part in folders:
                path /= part
                inner = _inside(part, above, _enter)
                if above != self._descriptor:
                    os.close(above)
                above = inner
            path /= last
            return _inside(last, above, do)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
        finally:
            if above != self._descriptor:
                os.close(above)

    def close(self) -> None:
        """Close it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> OpenFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _enter(name: str, folder: int) -> int:
    return os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)


def _make(name: str, folder: int) -> None:
    os.mkdir(name, FOLDER_MODE, dir_fd=folder)


def _inside(name: str, folder: int, do: Callable[[str, int], _A]) -> _A:
    """Do something with a name in a folder; say of a link that it is one."""
    if name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "it is not a name below the folder of a run")
    try:
        return do(name, folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            with suppress(OSError):
                if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    error = OSError(errno.ELOOP, "it is a symbolic link, and xMML follows none in the folder of a run")
        raise error from None
