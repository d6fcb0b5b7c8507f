"""MPI programs: ranks that join together, parallel ports, failures, and the examples of docs/mpi.md as printed."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from model_runs import Run, RunModel, run_document
from needs import needs

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "mpi.md"

pytestmark = needs("mpicc")
needs_mpi4py = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py: pip install mpi4py")


def examples() -> dict[str, str]:
    """The files that the page shows, by name."""
    return dict(re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture
def wave(tmp_path: Path) -> Path:
    folder = tmp_path / "printed" / "wave"
    folder.mkdir(parents=True)
    for name, text in examples().items():
        (folder / ("model.xmml" if name == "wave.xmml" else name)).write_text(text)
    (folder / "Makefile").write_text(
        "solver: solver.c\n\tmpicc -Wall -Wextra -Werror -o $@ $< $$(xmml-config --cflags --libs)\n"
    )
    return folder


def assert_whole_field(lines: list[str]) -> None:
    """What the viewer prints: shape, last element and sum of 2 x + 100 y + source."""
    expected = [(10, 6, 518.0 + source, 60 * (9 + 250 + source)) for source in (0.0, 10.0, 20.0)]
    assert lines == [f"({rows}, {columns}) {last} {total}" for rows, columns, last, total in expected]


NATIVE = 'language="c" path="solver" run:mpi="4" run:build="make solver"'
INTERPRETED = 'language="python" path="solver.py" run:mpi="4"'
HOLDINGS = ["rank 0 of 4 holds rows from 0", "rank 1 of 4 holds rows from 0", "rank 2 of 4 holds rows from 5"]


def holdings(lines: list[str]) -> list[str]:
    """What the first three ranks say of their rows; mpirun may put the words of two ranks into one line."""
    return sorted(re.findall(r"rank \d of 4 holds rows from \d+", "\n".join(lines)))[:3]


def test_the_example_in_c_runs_as_it_is_printed(run_model: RunModel, wave: Path) -> None:
    run = run_model(wave)
    assert_whole_field(run.lines("viewer"))
    assert holdings(run.lines("solver")) == HOLDINGS


@needs_mpi4py
def test_the_example_in_python_runs_as_it_is_printed(run_model: RunModel, wave: Path) -> None:
    model = (wave / "model.xmml").read_text()
    assert NATIVE in model
    (wave / "model.xmml").write_text(model.replace(NATIVE, INTERPRETED))
    run = run_model(wave)
    assert_whole_field(run.lines("viewer"))
    assert holdings(run.lines("solver")) == HOLDINGS


def test_a_launcher_has_a_folder_of_its_own_which_is_gone_in_the_end(run_model: RunModel, wave: Path) -> None:
    source = (wave / "solver.c").read_text()
    before = '    printf("rank %u'
    assert before in source
    tells = '    if (xmml_rank(me) == 0) printf("session %s\\n", getenv("OMPI_MCA_orte_tmpdir_base"));\n'
    (wave / "solver.c").write_text("#include <stdlib.h>\n" + source.replace(before, tells + before))
    (folder,) = re.findall(r"session (\S+)", run_model(wave).output("solver"))
    assert Path(folder).name.startswith("xmml-mpi-")
    assert not Path(folder).exists()


def test_four_ranks_in_c_and_three_in_cpp_exchange_blocks_of_unequal_size(run_model: RunModel) -> None:
    run = run_model(HERE / "parallel_ports")
    assert run.output("ocean") == "4 ranks received 12 blocks of wind\n"
    assert run.output("atmosphere") == "3 ranks, 3 steps\n"
    sent = {name: each["messages_sent"] for name, each in run.report["instances"].items()}
    assert sent["ocean#1"] == 3 * 2, "in each step to the two slices that its half has a part in"
    assert sent["atmosphere"] == 3 * 2, "the first slice lies in one half"
    assert sent["atmosphere#1"] == 3 * 4, "the middle slice has parts in all four blocks"


@needs("gfortran", "mpirun")
def test_the_ranks_of_a_fortran_program_send_and_receive_their_blocks(run_model: RunModel) -> None:
    run = run_model(HERE / "parallel_fortran")
    assert run.lines("ocean") == ["4 ranks received 12 blocks of wind"]
    assert run.lines("air") == ["(7, 5)"]


RECEIVE_WIND = 'check(xmml_receive(me, "wind", &message));'
SEND_SURFACE = 'check(xmml_send_array(me, "surface", XMML_F64, 2, block.extent, surface));'
JOIN = "check(xmml_join_mpi(MPI_COMM_WORLD, &me));"


@pytest.fixture
def failing(run_model: RunModel, tmp_path: Path) -> Callable[[str, str], Run]:
    """Runs the ocean and the atmosphere with a change in the source of the ocean, with which the run fails."""

    def run(old: str, new: str) -> Run:
        folder = tmp_path / "changed" / "model"
        shutil.copytree(HERE / "parallel_ports", folder, ignore=shutil.ignore_patterns("build"))
        source = (folder / "ocean.c").read_text()
        assert old in source
        (folder / "ocean.c").write_text("#include <signal.h>\n" + source.replace(old, new))
        return run_model(folder, status=4)

    return run


def words_of(run: Run) -> str:
    return (run.folder / "instances/ocean/stderr").read_text()


def test_a_killed_rank_ends_the_run_and_is_named(failing: Callable[[str, str], Run]) -> None:
    run = failing(RECEIVE_WIND, f"if (t == 1 && xmml_rank(me) == 2) raise(SIGKILL);\n{RECEIVE_WIND}")
    assert run.report["instance"] == "ocean#2"
    assert run.report["log"] == "instances/ocean/stderr"


def test_an_error_of_rank_0_is_the_error_of_every_rank(failing: Callable[[str, str], Run]) -> None:
    run = failing(RECEIVE_WIND, "check(xmml_reuse(me, &again));")
    assert "reuse()" in words_of(run)
    assert run.report["instance"].startswith("ocean")


def test_a_block_of_another_size_is_refused_with_what_was_expected(failing: Callable[[str, str], Run]) -> None:
    wrong = 'size_t wrong[] = {1, 1}; check(xmml_send_array(me, "surface", XMML_F64, 2, wrong, surface));'
    assert "a block of [3, 2]; this one is [1, 1]" in words_of(failing(SEND_SURFACE, wrong))


def test_fewer_ranks_than_the_model_says_cannot_join(failing: Callable[[str, str], Run]) -> None:
    half = "int world; MPI_Comm half; MPI_Comm_rank(MPI_COMM_WORLD, &world);"
    half += "MPI_Comm_split(MPI_COMM_WORLD, world / 2, 0, &half); check(xmml_join_mpi(half, &me));"
    assert "but 2 joined together; join with a communicator of 4" in words_of(failing(JOIN, half))


def test_what_is_too_long_for_one_call_of_mpi_travels_in_pieces(run_model: RunModel, wave: Path) -> None:
    makefile = (wave / "Makefile").read_text()
    (wave / "Makefile").write_text(makefile.replace("-Wall", "-DXMML_MPI_PIECE=7 -Wall"))
    assert_whole_field(run_model(wave).lines("viewer"))


@needs_mpi4py
def test_an_exception_of_one_rank_ends_all_of_them(run_model: RunModel, wave: Path) -> None:
    model = (wave / "model.xmml").read_text()
    (wave / "model.xmml").write_text(model.replace(NATIVE, INTERPRETED))
    source = (wave / "solver.py").read_text()
    here = "            me.send("
    assert here in source
    (wave / "solver.py").write_text(source.replace(here, f"            assert me.rank != 3, 'no more'\n{here}"))
    run = run_model(wave, status=4)
    assert run.report["instance"] == "solver#3"
    assert "no more" in run.report["reason"]


@needs_mpi4py
def test_ranks_in_python_gather_and_broadcast(run_model: RunModel) -> None:
    run = run_model(HERE / "gathered")
    assert run.lines("reader") == ["(3, 5) [[0, 0, 1, 1, 1], [2, 2, 3, 3, 3], [2, 2, 3, 3, 3]] {'k': [1.5, 'two']}"]
    assert run.lines("writer") == [f"rank {rank} has [0. 1. 2.] and {{'k': [1.5, 'two']}}" for rank in range(4)]


@pytest.mark.parametrize("program", ["in_c", "in_cpp"])
def test_ranks_in_c_and_cpp_gather(run_model: RunModel, tmp_path: Path, program: str) -> None:
    folder = tmp_path / "native" / "gathered"
    shutil.copytree(HERE / "gathered", folder, ignore=shutil.ignore_patterns("build"))
    model = (folder / "model.xmml").read_text()
    python = 'language="python" path="writer.py" run:mpi="4"'
    assert python in model
    native = f'language="c" path="build/{program}" run:mpi="4" run:build="make build/{program}"'
    (folder / "model.xmml").write_text(model.replace(python, native))
    run = run_model(folder)
    assert run.lines("reader") == ["(3, 5) [[0, 0, 1, 1, 1], [2, 2, 3, 3, 3], [2, 2, 3, 3, 3]] None"]


@needs("mpirun", "gfortran")
@needs_mpi4py
@pytest.mark.parametrize("language", ["python", "c", "cpp", "fortran"])
def test_ranks_put_blocks_of_an_array_whose_extents_the_program_gives(
    run_model: RunModel, tmp_path: Path, language: str
) -> None:
    folder = tmp_path / "native" / "put_blocks"
    shutil.copytree(HERE / "put_blocks", folder, ignore=shutil.ignore_patterns("build"))
    if language != "python":
        program = f"build/in_{language}"
        native = f'language="{"c++" if language == "cpp" else language}" path="{program}" run:build="make {program}"'
        model = (folder / "model.xmml").read_text()
        assert 'language="python" path="writer.py"' in model
        (folder / "model.xmml").write_text(model.replace('language="python" path="writer.py"', native))
    run = run_model(folder)
    assert run.lines("reader") == [f"{step} [2, 4] [[0, 1, 2, 3], [10, 11, 12, 13]]" for step in (1, 2, 3)]


TAKES_FIRST = """\
import numpy as np
import xmml
from mpi4py import MPI

with xmml.Instance(comm=MPI.COMM_WORLD) as me:
    while me.reuse():
        me.take("rows")
        me.put("columns", np.zeros(me.block("columns").extent))
"""
TWO_THAT_TAKE_FIRST = """\
<model id="stuck" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="Both">
      <timescale/>
      <spacescale id="x" delta="1 m" total="4 m"/>
      <spacescale id="y" delta="1 m" total="4 m"/>
      <ports><in id="rows" run:decomp="block(x:2)"/><out id="columns" run:decomp="block(y:2)"/></ports>
      <implementation language="python" path="both.py" run:mpi="2"/>
    </submodel>
  </definitions>
  <topology>
    <instance id="a" submodel="Both"/>
    <instance id="b" submodel="Both"/>
    <coupling from="a.columns" to="b.rows" run:kind="pool"/>
    <coupling from="b.columns" to="a.rows" run:kind="pool"/>
  </topology>
</model>
"""


@needs("mpirun")
@needs_mpi4py
def test_ranks_that_take_their_parts_before_they_put_are_in_a_deadlock(tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(TAKES_FIRST)
    (tmp_path / "model.xmml").write_text(TWO_THAT_TAKE_FIRST)
    run = run_document(tmp_path / "model.xmml", status=6)
    assert "a waits at rows for the first object of b.columns" in run.stderr
    assert "b waits at rows for the first object of a.columns" in run.stderr
