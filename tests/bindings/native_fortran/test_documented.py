"""The programs of docs/fortran.md, from the text as printed."""

from __future__ import annotations

import re
from pathlib import Path

import printed
from fortran import compiled
from model_runs import run_document
from needs import needs

pytestmark = needs("gfortran")

PAGE = (printed.DOCS / "fortran.md").read_text(encoding="utf-8")


def test_the_example_runs_and_prints_what_the_page_says(tmp_path: Path) -> None:
    files = printed.write("fortran.md", tmp_path)
    assert set(files) == {"model.xmml", "plate.f90", "controller.py", "report.py", "Makefile"}
    (said,) = re.findall(r"^report: (.*)$", PAGE, re.MULTILINE)
    assert run_document(tmp_path / "model.xmml").lines("report") == [said]


def test_the_pieces_of_programs_compile(tmp_path: Path) -> None:
    pieces = re.findall(r"^```fortran\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    pieces = [piece for piece in pieces if not piece.startswith("program")]
    pieces = [piece for piece in pieces if "use mpi" not in piece]  # the model parallel_fortran does the same
    assert len(pieces) == 3
    declaration = re.compile(r"^(?:integer|type|real|character)\b.*::.*\n", re.MULTILINE)
    blocks = []
    for piece in pieces:
        statements = declaration.sub("", piece).replace("...\n", "continue\n").replace(") ...", ") continue")
        statements = re.sub(r"select case .*\n *continue\n", "", statements)
        blocks.append("block\n" + "".join(declaration.findall(piece)) + statements + "end block\n")
    program = tmp_path / "pieces.f90"
    program.write_text(
        "program pieces\nuse, intrinsic :: iso_fortran_env\nuse xmml\nimplicit none\ntype(xmml_instance) :: me\n"
        "real(real64), allocatable :: field(:, :)\n" + "".join(blocks) + "end program\n",
        encoding="utf-8",
    )
    compiled(program, options=("-Wno-unused-variable", "-Wno-unused-parameter", "-Wno-conversion"))


def test_every_call_of_an_instance_is_on_the_page() -> None:
    source = (Path(__file__).parents[3] / "native/fortran/xmml_instances.f90").read_text()
    of_instances = source.split("type :: xmml_instance")[1].split("end type")[0]
    bindings = set(re.findall(r"^ *procedure :: (\w+)", of_instances, re.MULTILINE))
    undocumented = {name for name in bindings if not re.search(rf"\bme%{name}\(", PAGE)}
    assert undocumented == {"free"}  # for tests
