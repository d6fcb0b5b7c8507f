"""Programs that have to be built before they can be started: what the names of files show of them."""

from __future__ import annotations

import os
import shlex
from xml.sax.saxutils import quoteattr

from xmml.files import FileUnreadable, open_file

#: How the names of files end that a compiler makes programs of.
SOURCE_ENDINGS = (".c", ".cpp", ".cc", ".cxx", ".f90", ".F90", ".rs", ".java")


def is_source(path: str) -> bool:
    """Whether a name is that of a file in a compiled language."""
    return path.endswith(SOURCE_ENDINGS)


def is_only_source(file: str) -> bool:
    """Whether a file is in a compiled language, and does not begin as a script does (`#!`)."""
    if not is_source(file):
        return False
    try:
        with open_file(file) as stream:
            return stream.read(2) != b"#!"
    except (FileUnreadable, OSError):
        return True


def source_beside(program: str) -> str | None:
    """Return the name of the file that a missing program is probably built from; `None` if there is none beside it."""
    stem, _ = os.path.splitext(program)
    found = (stem + ending for ending in SOURCE_ENDINGS)
    return next((os.path.basename(file) for file in found if os.path.isfile(file)), None)


def how_to_build(program: str, source: str) -> str:
    """Return the help for a program that is not there although its source is; its path is relative to the document."""
    return f"it looks as if it must be built from {source}: add {_build(program)}"


def instead_of_source(path: str) -> tuple[str, str]:
    """Return what is wrong with a source that is named as a program, and what to do."""
    program, _ = os.path.splitext(path)
    help = f"it looks as if it must be built: write path={quoteattr(program)} {_build(program)}"
    return f'the program "{path}" is a source file, which cannot be started', help


def _build(program: str) -> str:
    return f"run:build={quoteattr('make ' + shlex.quote(program))}"
