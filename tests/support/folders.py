"""Folders in which programs are still working."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def below(folder: Path) -> Iterator[Path]:
    """Yield files and folders at any depth; what vanishes meanwhile, which `Path.rglob` stumbles over, is left out."""
    for above, folders, files in os.walk(folder):
        yield from (Path(above, name) for name in (*folders, *files))
