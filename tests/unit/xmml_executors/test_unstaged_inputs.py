"""Inputs that lie beside the model, and not where the program looks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from written_runs import A
from xmml_executors.unstaged_inputs import how_to_stage, unstaged_inputs


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The folder of a model with two files, and a working folder."""
    (tmp_path / "model/data").mkdir(parents=True)
    (tmp_path / "model/input.txt").touch()
    (tmp_path / "model/data/my grid.nc").touch()
    (tmp_path / "work").mkdir()
    return tmp_path / "model", tmp_path / "work"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'input.txt'", "input.txt"),
        ("input.txt: No such file or directory", "input.txt"),
        ("Fortran runtime error: Cannot open file 'data/my grid.nc': No such file or directory", "data/my grid.nc"),
        ("java.io.FileNotFoundException: input.txt (No such file or directory)", "input.txt"),
        ("error: could not open ./input.txt.", "input.txt"),
    ],
)
def test_a_file_that_a_program_does_not_find_is_known_by_what_it_writes(
    folders: tuple[Path, Path], line: str, name: str
) -> None:
    assert unstaged_inputs(["Traceback", line], *folders) == [name]


@pytest.mark.parametrize(
    "line",
    [
        "reading input.txt",
        "No such file or directory: '/etc/nothing'",
        "No such file or directory: '../model/input.txt'",
        "No such file or directory: 'other.txt'",
        "cannot open " + "x" * 5000,
    ],
)
def test_other_lines_lead_to_no_advice(folders: tuple[Path, Path], line: str) -> None:
    assert unstaged_inputs([line], *folders) == []


def test_a_file_that_is_in_the_working_folder_is_not_what_is_missing(folders: tuple[Path, Path]) -> None:
    (folders[1] / "input.txt").touch()
    assert unstaged_inputs(["input.txt: No such file or directory"], *folders) == []


def test_the_advice_can_be_written_into_the_model_as_it_is() -> None:
    advice = how_to_stage(replace(A, stage_in=("grid.nc",)), "data/my grid.nc")
    assert "run:stage-in=\"grid.nc 'data/my grid.nc'\"" in advice
