"""The table of calls, docs/api/README.md, names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from xmml_native import Instance

from xmml import path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/api/README.md").read_text(encoding="utf-8")
PATHS = PAGE.split("## Paths")[1]
HEADERS = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "native/c/include").glob("*.h"))


def cells(column: int) -> str:
    """What the page says of the language in this column of its tables."""
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and line.count(" | ") >= column]
    return "\n".join(row[column] for row in rows)


def path_cells(column: int) -> str:
    """The same of what it says of paths, which has Rust where the others have Fortran."""
    return "\n".join(line.split(" | ")[column] for line in PATHS.splitlines() if line.startswith("| "))


def test_every_c_name_of_the_page_is_in_a_header() -> None:
    named = set(re.findall(r"\bxmml_\w+|\bXMML_\w+", cells(2)))
    assert len(named) > 50
    assert {name for name in named if not re.search(rf"\b{name}\b", HEADERS)} == set()


def test_every_python_call_of_the_page_is_one_of_an_instance() -> None:
    named = set(re.findall(r"\bme\.(\w+)", cells(1)))
    assert len(named) > 20
    assert {name for name in named if not hasattr(Instance, name)} == set()


def test_every_python_call_of_an_instance_is_on_the_page() -> None:
    there = {name for name in dir(Instance) if not name.startswith("_")}
    elsewhere = {"abandon", "alone", "block", "prefer_order", "rank", "ranks", "send_gathered", "set_methods", "spec"}
    assert {name for name in there - elsewhere if f"me.{name}" not in PAGE} == set()


def test_every_cpp_call_of_the_page_is_in_the_header() -> None:
    headers = ("xmml/instance.hpp", "xmml_mpi.hpp")
    header = "".join((ROOT / "native/cpp/include" / name).read_text(encoding="utf-8") for name in headers)
    named = set(re.findall(r"\bme\.(\w+)", cells(3)))
    assert len(named) > 30
    assert {name for name in named if not re.search(rf"\b{name}\(", header)} == set()


def test_every_fortran_call_of_the_page_is_one_of_an_instance() -> None:
    modules = "".join(file.read_text() for file in sorted((ROOT / "native/fortran").glob("*.f90")))
    generator = (ROOT / "native/fortran/generate.py").read_text()
    named = set(re.findall(r"\bme%(\w+)", cells(4)))
    assert len(named) > 20
    known = set(re.findall(r"(?:procedure|generic) :: (\w+)", modules)) | set(
        re.findall(r'bindings\("(\w+)"', generator)
    )
    assert named - known == set()


def test_every_java_call_of_the_page_is_one_of_the_api() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "native/java").rglob("*.java"))
    named = set(re.findall(r"\b(?:me|m|a|o)\.(\w+)", cells(5)))
    assert len(named) > 40
    assert {name for name in named if not re.search(rf"\b{name}\(", sources)} == set()


def test_every_python_call_of_a_path_is_on_the_page() -> None:
    there = {name for name in dir(path.Path) if not name.startswith("_")} - {"dial"}
    assert {name for name in there if f"`here.{name}" not in PATHS and f"one.{name}" not in PATHS} == set()
    assert {name for name in path.__all__ if name[0].islower() and f"`path.{name}(" not in PATHS} == set()
    named = set(re.findall(r"`(?:here|one)\.(\w+)", path_cells(1)))
    assert {name for name in named if not hasattr(path.Path, name)} == set()
    assert set(re.findall(r"`path\.(\w+)", path_cells(1))) <= set(path.__all__)
    assert set(re.findall(r"listener\.(\w+)|`\.(\w+)`", path_cells(1))) == {
        ("accept", ""),
        ("refusals", ""),
        ("", "address"),
    }


def test_every_c_call_of_a_path_is_on_the_page() -> None:
    header = (ROOT / "native/c/include/xmml_path.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"^[a-z].*\b\*?(xmml_path_\w+)\(", header, re.MULTILINE))
    assert len(declared) > 25
    assert {name for name in declared if not re.search(rf"\b{name}\b", PATHS)} == set()


def test_every_cpp_and_rust_call_of_a_path_of_the_page_is_there() -> None:
    header = (ROOT / "native/cpp/include/xmml_path.hpp").read_text(encoding="utf-8")
    core = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "native/path/src").glob("*.rs"))
    for column, source, least in ((3, header, 15), (4, core, 20)):
        named = set(re.findall(r"\b(?:here|one|listener)\.(\w+)|`\.(\w+)\(", path_cells(column)))
        names = {name for pair in named for name in pair if name}
        assert len(names) > least
        assert {name for name in names if not re.search(rf"\b{name}\(", source)} == set()
    exported = set(re.findall(r"`(\w+)(?:::|`)", path_cells(4)))
    assert {name for name in exported if not re.search(rf"\b(?:struct|fn|enum) {name}\b", core)} == set()
