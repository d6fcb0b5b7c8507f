"""Floors of the house, as docs/architecture.md states them; packages and crates, as the build files state them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from arrows import Arrow

ROW = re.compile(r"^\| *(\d+|-) *\|([^|]*)\|", re.MULTILINE)


def floors(page: str) -> dict[str, int]:
    """Return the floor of each room in the table of `page`. Rooms with `-` as their floor are left out."""
    return {
        room.rstrip("/"): int(floor)
        for floor, rooms in ROW.findall(page)
        for room in re.findall(r"`([^`]+)`", rooms)
        if floor != "-"
    }


def floor_of(path: str, floors: dict[str, int]) -> int:
    """Return the floor of the innermost room that holds `path`."""
    rooms = [str(room) for room in (Path(path), *Path(path).parents) if str(room) in floors]
    assert rooms, f"{path} has no floor: add its room to the table in docs/architecture.md"
    return floors[rooms[0]]


def packages(root: Path) -> Iterator[Path]:
    """Yield the folder of each import package that pyproject.toml installs."""
    for where in tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"][
        "where"
    ]:
        for face in sorted((root / where).glob("*/__init__.py")):
            yield face.parent


def crates(root: Path) -> dict[str, Path]:
    """Return the folder of each crate of the Cargo workspace."""
    members = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["members"]
    return {tomllib.loads((root / each / "Cargo.toml").read_text())["package"]["name"]: root / each for each in members}


def dependencies(root: Path) -> list[Arrow]:
    """Return the arrows between crates. Dependencies of tests alone do not count."""
    ours = crates(root)
    return [
        Arrow(crate, needed, "dependency", f"{folder.relative_to(root)}/Cargo.toml")
        for crate, folder in ours.items()
        for table in ("dependencies", "build-dependencies")
        for needed in tomllib.loads((folder / "Cargo.toml").read_text()).get(table, {})
        if needed in ours
    ]
