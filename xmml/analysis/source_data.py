"""How many messages the sources of a model send: as many as their files hold.

The analyses take these numbers as arguments and open no file themselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

from xmml.builtins import TERMINALS, TERMINALS_OF_OBJECTS
from xmml.files import FileUnreadable, read_bytes
from xmml.late_dataclass import dataclass
from xmml.model import Instance, Model
from xmml.patterns import MOST_ENTRIES, Search, TooManyFilesError

#: The built-in formats of terminals.
FORMATS = frozenset(TERMINALS)
_YES = frozenset({"yes", "true", "1"})


@dataclass(frozen=True)
class SourceData:
    """How many messages sources send.

    Attributes:
        fires: by instance; `None` for one that begins again at the end of its data.
        uncertain: sources that are programs, or whose files are not there yet.
    """

    fires: Mapping[str, int | None]
    uncertain: frozenset[str]


def source_data(model: Model) -> SourceData:
    """Return how many messages the sources of a model send; looks into their files."""
    fires: dict[str, int | None] = {}
    uncertain = set()
    folder = os.path.dirname(os.path.abspath(model.path))
    search = Search(most=MOST_ENTRIES)
    for instance in model.instances.values():
        if instance.kind != "terminal" or instance.definition.type != "source":
            continue
        if instance.definition.class_ in TERMINALS_OF_OBJECTS:
            continue  # objects are not counted
        if instance.params.get("repeat", "").lower() in _YES:
            fires[instance.id] = None
            continue
        number = _messages(instance, folder, search) if _is_built_in(instance) else None
        if number is None:
            uncertain.add(instance.id)
        else:
            fires[instance.id] = number
    return SourceData(MappingProxyType(fires), frozenset(uncertain))


def _is_built_in(instance: Instance) -> bool:
    implementation = instance.definition.implementation
    return instance.definition.class_ in FORMATS and (implementation is None or implementation.path is None)


def _messages(instance: Instance, folder: str, search: Search) -> int | None:
    """Return how many messages the files of a built-in source hold, or `None` if they cannot be read."""
    pattern = instance.params.get("file", "")
    if not pattern:
        return None
    path = os.path.join(folder, pattern)
    try:
        paths = [path] if os.path.exists(path) else search.matches(folder, pattern.replace("**", "*"))
    except TooManyFilesError:
        return None
    if not paths:
        return None
    if instance.params.get("messages", "one") == "one":
        return len(paths)
    rows = [_rows(each, instance) for each in paths]
    known = [number for number in rows if number is not None]
    return sum(known) if len(known) == len(rows) else None


def _rows(path: str, instance: Instance) -> int | None:
    if not os.path.isfile(path):  # reading a pipe would wait, reading a device might never end
        return None
    try:
        if instance.definition.class_ == "npy":
            return _rows_of_array(path)
        lines = read_bytes(path).decode().splitlines()
    except (OSError, ValueError, FileUnreadable):
        return None
    if instance.params.get("content") == "text":
        return len(lines)
    try:
        lines = lines[int(instance.params.get("skip", "0")) :]
    except ValueError:
        return None
    filled = [words for line in lines if (words := line.partition("#")[0].strip())]
    if instance.definition.class_ == "text" and len(filled) == 1:
        delimiter = instance.params.get("delimiter") or None
        return len(filled[0].split(delimiter))  # one line of numbers: each is a row
    return len(filled)


def _rows_of_array(path: str) -> int | None:
    from numpy.lib.format import open_memmap

    try:
        array = open_memmap(path, mode="r")
    except Exception:  # of a damaged header numpy tells by whatever its parsers raise
        return None
    return len(array) if array.ndim else None
