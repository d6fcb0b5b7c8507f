"""Where the files may lie that a document names: below its own folder, and below the working folder.

A document may come from anybody. Who checks, draws or analyses it reads no file of theirs that is not part of it, and
who runs it over sites sends none there. `--allow-outside` takes the bound away.
"""

from __future__ import annotations

import os

from xmml.late_dataclass import dataclass
from xmml.problems import Problem
from xmml.tree import Element

CODE = "E30"


@dataclass(frozen=True)
class Reach:
    """The folders in which the files lie that a document may name.

    Attributes:
        folders: absolute, without links; `None`: files may lie anywhere.
    """

    folders: tuple[str, ...] | None

    def holds(self, path: str) -> bool:
        """Return whether a path stays in one of the folders when links are followed; opens nothing."""
        if self.folders is None:
            return True
        real = real_path(path)
        return any(_is_below(real, folder) for folder in self.folders)

    def widened(self, document: str) -> Reach:
        """Return this reach and the folder of another document of the same model."""
        return self if self.folders is None else Reach((*self.folders, _folder_of(document)))


#: The reach of a trusted document: any file.
ANYWHERE = Reach(None)


def reach_of(document: str, *, allow_outside: bool) -> Reach:
    """Return where the files of a document may lie.

    The folder of the document always counts. A working folder that holds the home folder does not: all files of the
    user are below it.
    """
    if allow_outside:
        return ANYWHERE
    folders = [_folder_of(document)]
    try:
        working = os.getcwd()
    except OSError:  # it was removed
        return Reach(tuple(folders))
    if not _is_below(real_path(os.path.expanduser("~")), working):
        folders.append(working)
    return Reach(tuple(dict.fromkeys(folders)))


def real_path(path: str) -> str:
    """Return where a path leads, links followed; a path that cannot exist, as it is."""
    try:
        return os.path.realpath(path)
    except ValueError:  # it holds a NUL
        return path


def outside_problem(
    element: Element, named: str, path: str, reach: Reach, attribute: str | None, namespace: str = ""
) -> Problem:
    """Return the problem of an element that names a file out of reach.

    Args:
        named: what the document says.
        path: the path in it that leads outside.
    """
    real = real_path(path)
    link = f': "{path}" leads to "{real}"' if real != os.path.normpath(os.path.abspath(path)) else ""
    message = f'"{named}" leads out of the folder of the model, and out of the working folder{_uncounted(reach)}{link}'
    help = f"copy the file into the folder of the model{_common_folder(real, reach)}, or trust it with --allow-outside"
    return element.problem(CODE, message, help, attribute, namespace)


def _uncounted(reach: Reach) -> str:
    """Return why the working folder is not in reach, if it is not."""
    try:
        return "" if reach.holds(os.getcwd()) else " (which does not count, because it holds your home folder)"
    except OSError:  # it was removed
        return ""


def _common_folder(real: str, reach: Reach) -> str:
    """Return the advice to work in a folder that holds both the model and a file, if there is one."""
    assert reach.folders is not None
    common = os.path.commonpath([reach.folders[0], os.path.dirname(real)])
    if _is_below(real_path(os.path.expanduser("~")), common):
        return ""
    return f", or work in {common}"


def _folder_of(document: str) -> str:
    return real_path(os.path.dirname(os.path.abspath(document)))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
