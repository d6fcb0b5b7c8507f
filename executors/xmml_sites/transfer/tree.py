"""The folder that is copied to: nothing that the other end names is ever looked for outside of it.

The other end waits while this is loaded: modules that few copies need are loaded when one does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO

from xmml.late_dataclass import dataclass
from xmml_sites.transfer.listing import Entry

PART_SUFFIX = ".xmml-part"
_LONGEST_NAME_B = 255
_OPEN_FOLDERS = 32
_PERMISSIONS = 0o777


@dataclass(frozen=True)
class Layout:
    """Where entries go: below `base`; the first part of their paths becomes `name` if one is given."""

    base: Path
    name: str | None

    def of(self, path: str) -> str:
        """Where the entry of this path goes, below the base."""
        if self.name is None:
            return path
        _, slash, rest = path.partition("/")
        return f"{self.name}{slash}{rest}"


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


class Tree:
    """Files below a folder. Symbolic links in it are never followed. One thread uses it at a time."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._folders: OrderedDict[str, int] = OrderedDict()
        self._base = os.open(layout.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Forgets the folders that are open."""
        for descriptor in (self._base, *self._folders.values()):
            os.close(descriptor)
        self._folders.clear()

    def _folder(self, path: str) -> int:
        """A descriptor of a folder below the base."""
        if not path:
            return self._base
        if path in self._folders:
            self._folders.move_to_end(path)
            return self._folders[path]
        above, _, name = path.rpartition("/")
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=self._folder(above))
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise OSError(error.errno, f"{path} is no folder at the target, or a link to one") from error
            raise
        self._folders[path] = descriptor
        if len(self._folders) > _OPEN_FOLDERS:
            os.close(self._folders.popitem(last=False)[1])
        return descriptor

    def _at(self, entry: Entry) -> tuple[int, str]:
        above, _, name = self._layout.of(entry.path).rpartition("/")
        return self._folder(above), name

    def status(self, entry: Entry) -> os.stat_result | None:
        """What stands there now under the entry's name; None if nothing does."""
        folder, name = self._at(entry)
        try:
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def make_folder(self, entry: Entry) -> None:
        """Makes a folder that we can write to, if it is not there; its own mode comes last."""
        folder, name = self._at(entry)
        status = self.status(entry)
        if status is None:
            os.mkdir(name, 0o700, dir_fd=folder)
        elif not stat.S_ISDIR(status.st_mode):
            raise FileExistsError(errno.EEXIST, "something that is no folder has this name at the target")
        elif status.st_mode & 0o700 != 0o700:
            os.chmod(name, stat.S_IMODE(status.st_mode) | 0o700, dir_fd=folder)

    def finish_folder(self, entry: Entry) -> None:
        """Gives a folder its mode and times."""
        above, _, name = self._layout.of(entry.path).rpartition("/")
        descriptor = self._folder(f"{above}/{name}" if above else name)
        os.fchmod(descriptor, entry.mode & _PERMISSIONS)
        os.utime(descriptor, ns=(entry.modified_ns, entry.modified_ns))

    def make_link(self, entry: Entry) -> None:
        """Makes a symbolic link, in place of a link or file of this name."""
        folder, name = self._at(entry)
        status = self.status(entry)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "a folder has this name at the target")
        made = part_name(name)
        self.remove_part(entry)
        os.symlink(entry.link, made, dir_fd=folder)
        try:
            os.utime(made, ns=(entry.modified_ns, entry.modified_ns), dir_fd=folder, follow_symlinks=False)
            os.rename(made, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(made, dir_fd=folder)
            raise

    def link_target(self, entry: Entry) -> str | None:
        """Where the link of this name leads; None if there is no such link."""
        folder, name = self._at(entry)
        try:
            return os.readlink(name, dir_fd=folder)
        except OSError:
            return None

    def open_file(self, entry: Entry) -> BinaryIO | None:
        """The complete file of this name, for reading."""
        return self._open_to_read(entry, part=False)

    def open_part(self, entry: Entry) -> BinaryIO | None:
        """What an interrupted copy has left, for reading."""
        return self._open_to_read(entry, part=True)

    def _open_to_read(self, entry: Entry, part: bool) -> BinaryIO | None:
        folder, name = self._at(entry)
        try:
            descriptor = os.open(
                part_name(name) if part else name,
                os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
                dir_fd=folder,
            )
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
        return os.fdopen(descriptor, "rb", buffering=0)

    def remove_part(self, entry: Entry) -> None:
        """Removes what an interrupted copy has left under the provisional name."""
        folder, name = self._at(entry)
        # Mostly there is nothing. What cannot be removed is reported when its name is needed.
        with contextlib.suppress(OSError):
            os.unlink(part_name(name), dir_fd=folder)

    def begin_part(self, entry: Entry, base: BinaryIO | None) -> int:
        """A descriptor of the file under its provisional name, for writing; new ones begin as a copy of `base`."""
        folder, name = self._at(entry)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part_name(name), flags, 0o600, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileExistsError(errno.EEXIST, f"{part_name(name)} at the target is no file")
            if base is not None:
                import shutil

                with os.fdopen(os.dup(descriptor), "wb") as part:
                    shutil.copyfileobj(base, part, 1 << 20)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def finish_part(self, entry: Entry, descriptor: int) -> None:
        """Gives a file its size, mode, times and, when all is done, its name."""
        folder, name = self._at(entry)
        status = self.status(entry)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "a folder has this name at the target")
        os.ftruncate(descriptor, entry.size)
        _dress(descriptor, entry)
        os.rename(part_name(name), name, src_dir_fd=folder, dst_dir_fd=folder)

    def dress(self, entry: Entry) -> None:
        """Gives a file that has the right content already its mode and times."""
        with contextlib.closing(self.open_file(entry) or _vanished(entry)) as file:
            _dress(file.fileno(), entry)


def _vanished(entry: Entry) -> BinaryIO:
    raise FileNotFoundError(errno.ENOENT, "it was removed at the target meanwhile", entry.path)


def _dress(descriptor: int, entry: Entry) -> None:
    os.fchmod(descriptor, entry.mode & _PERMISSIONS)
    os.utime(descriptor, ns=(entry.modified_ns, entry.modified_ns))


def part_name(name: str) -> str:
    """The provisional name of a file."""
    part = f".{name}{PART_SUFFIX}"
    if len(os.fsencode(part)) <= _LONGEST_NAME_B:
        return part
    import hashlib

    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()}{PART_SUFFIX}"
