"""Opening files that others name: only regular ones, and none that makes the reader wait; and what was meant by the
name of one that is not there."""

from __future__ import annotations

import os
import stat
from difflib import get_close_matches
from io import BufferedReader

from xmml.tree import MAX_DOCUMENT_BYTES


class FileUnreadable(Exception):
    """A local file that cannot be read; the text says why."""


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        FileUnreadable: there is no such file, or it is a folder, a pipe, a device or a socket.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise FileUnreadable((error.strerror or str(error)).lower()) from None
    except ValueError as error:  # a path with a NUL
        raise FileUnreadable(str(error)) from None
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise FileUnreadable("it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file")
    return open(file, "rb")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a regular file of bearable size.

    Raises:
        FileUnreadable: there is no such file, or it is not one that may be read.
    """
    with open_file(path) as stream:
        if os.fstat(stream.fileno()).st_size > MAX_DOCUMENT_BYTES:
            raise FileUnreadable(f"it is larger than {MAX_DOCUMENT_BYTES // 2**20} MiB")
        try:
            return stream.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            raise FileUnreadable((error.strerror or str(error)).lower()) from None


def similar_name(path: str, endings: tuple[str, ...]) -> str:
    """Return a hint with the files beside one that does not exist whose names resemble its name; "" if none does.

    Parameters:
        endings: how the names of these files may end.
    """
    folder, name = os.path.split(path)
    if os.path.lexists(path):
        return ""
    try:
        there = {
            os.path.splitext(each)[0]: each for each in sorted(os.listdir(folder or ".")) if each.endswith(endings)
        }
    except (OSError, ValueError):
        return ""
    close = get_close_matches(os.path.splitext(name)[0], there)
    return f"did you mean {' or '.join(os.path.join(folder, there[each]) for each in close)}?" if close else ""
