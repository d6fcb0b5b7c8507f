"""Holds the layers: no cycle, no arrow upward, no private name of another module.

`known_offenders.txt` lists the arrows that break a rule already. The list may only shrink.
"""

from __future__ import annotations

from pathlib import Path

import imports_of_python as python
import imports_of_rust as rust
import pytest
import rooms
from arrows import Arrow, cycles, forbidden, not_downward

ROOT = Path(__file__).resolve().parents[2]
LINES = [line for line in Path(__file__).with_name("known_offenders.txt").read_text().splitlines() if line[:1] != "#"]
LISTED = set(LINES)
RULES = {"crate cycle", "folder cycle", "python cycle", "rust cycle"}
RULES |= {"crate not downward", "import not downward", "private name"}
PACKAGES = list(rooms.packages(ROOT))
MODULES = python.modules_of(PACKAGES)
CRATES = rooms.crates(ROOT)
FLOORS = rooms.floors((ROOT / "docs" / "architecture.md").read_text())


@pytest.fixture(scope="module")
def python_imports() -> list[Arrow]:
    return list(python.imports(MODULES, ROOT))


def package_of(module: str) -> str:
    """Return the package that holds `module`."""
    return module.partition(".")[0]


def folder_of(module: str) -> str:
    """Return the package that holds `module`, with the first folder below the package."""
    package = next(package for package in PACKAGES if package.name == package_of(module))
    below = MODULES[module].parent.relative_to(package).parts[:1]
    return str(package.joinpath(*below).relative_to(ROOT))


def floor_of_module(module: str) -> int:
    return rooms.floor_of(str(MODULES[module].relative_to(ROOT)), FLOORS)


def floor_of_crate(crate: str) -> int:
    return rooms.floor_of(str(CRATES[crate].relative_to(ROOT)), FLOORS)


def hold(problems: list[str]) -> None:
    """Fail with the text of each problem."""
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def test_every_package_and_crate_has_a_floor() -> None:
    for folder in [*PACKAGES, *CRATES.values()]:
        assert rooms.floor_of(str(folder.relative_to(ROOT)), FLOORS)


def test_every_room_with_a_floor_exists() -> None:
    assert [room for room in FLOORS if not (ROOT / room).is_dir()] == []


def test_the_list_of_offenders_is_sorted_and_names_only_rules() -> None:
    assert sorted(LISTED) == LINES
    assert {line.partition(": ")[0] for line in LINES} <= RULES


def test_no_cycle_among_python_modules(python_imports: list[Arrow]) -> None:
    hold(cycles("python cycle", python_imports, LISTED))


def test_no_cycle_among_folders_of_packages(python_imports: list[Arrow]) -> None:
    hold(cycles("folder cycle", python_imports, LISTED, folder_of))


def test_python_imports_lead_to_lower_floors(python_imports: list[Arrow]) -> None:
    hold(not_downward("import not downward", python_imports, LISTED, floor_of_module, package_of))


def test_no_private_name_of_another_module(python_imports: list[Arrow]) -> None:
    hold(forbidden("private name", python.private_names(python_imports), LISTED))


def test_no_cycle_among_modules_of_a_crate() -> None:
    arrows = [arrow for name, folder in CRATES.items() for arrow in rust.imports(name, folder, ROOT)]
    hold(cycles("rust cycle", arrows, LISTED))


def test_no_cycle_among_crates() -> None:
    hold(cycles("crate cycle", rooms.dependencies(ROOT), LISTED))


def test_crates_depend_on_lower_floors() -> None:
    hold(not_downward("crate not downward", rooms.dependencies(ROOT), LISTED, floor_of_crate))
