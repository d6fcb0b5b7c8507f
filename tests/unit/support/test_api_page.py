"""The table of calls, docs/api/README.md, names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from xmml_native import Instance

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/api/README.md").read_text(encoding="utf-8")
HEADERS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "native/c/include").glob("*.h"))


def cells(column: int) -> str:
    """What the page says of the language in this column of its tables."""
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and line.count(" | ") >= column]
    return "\n".join(row[column] for row in rows)


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
    header = (ROOT / "native/cpp/include/xmml/instance.hpp").read_text(encoding="utf-8")
    named = set(re.findall(r"\bme\.(\w+)", cells(3)))
    assert len(named) > 30
    assert {name for name in named if not re.search(rf"\b{name}\(", header)} == set()


def test_every_fortran_call_of_the_page_is_one_of_an_instance() -> None:
    modules = "".join(path.read_text() for path in sorted((ROOT / "native/fortran").glob("*.f90")))
    generator = (ROOT / "native/fortran/generate.py").read_text()
    named = set(re.findall(r"\bme%(\w+)", cells(4)))
    assert len(named) > 20
    known = set(re.findall(r"(?:procedure|generic) :: (\w+)", modules)) | set(
        re.findall(r'bindings\("(\w+)"', generator)
    )
    assert named - known == set()


def test_every_java_call_of_the_page_is_one_of_the_api() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "native/java").rglob("*.java"))
    named = set(re.findall(r"\b(?:me|m|a)\.(\w+)", cells(5)))
    assert len(named) > 40
    assert {name for name in named if not re.search(rf"\b{name}\(", sources)} == set()
