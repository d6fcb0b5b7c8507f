"""Archives that tests write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xmml_native.archives.writer import ArchiveWriter


def written(
    folder: Path, objects: Iterable[tuple[Any, Mapping[str, Any]]], attributes: str, name: str = "objects.archive"
) -> str:
    """Write payloads with attributes into an archive, those of `sys.*` among them; return its path."""
    path = str(folder / name)
    with ArchiveWriter(path) as archive:
        archive.declare(attributes)
        for data, known in objects:
            system = {each: value for each, value in known.items() if each.startswith("sys.")}
            archive.append(data, {each: value for each, value in known.items() if each not in system}, system)
    return path
