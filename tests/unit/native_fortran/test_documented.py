"""The programs of docs/fortran.md, from the text as printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from fortran import compiled
from needs import needs

pytestmark = needs("gfortran")

PAGE = (Path(__file__).parents[3] / "docs/fortran.md").read_text(encoding="utf-8")


def test_the_example_runs_and_prints_what_the_page_says(tmp_path: Path) -> None:
    files = dict(re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    assert set(files) == {"model.xmml", "plate.f90", "controller.py", "report.py", "Makefile"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (printed,) = re.findall(r"^report: (.*)$", PAGE, re.MULTILINE)
    ended = subprocess.run(
        [sys.executable, "-m", "xmml_run", "model.xmml", "--json", "-o", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["status"] == "done"
    assert (tmp_path / "run/instances/report/stdout").read_text().strip() == printed


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
