"""A model of three languages: Fortran calls C++, and gives what it has to Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from needs import needs

if TYPE_CHECKING:
    from tests.models.conftest import RunModel

HERE = Path(__file__).parent


@needs("gfortran")
@pytest.mark.parametrize("methods", ["shm", "tcp"])
def test_fortran_calls_cpp_and_tells_python(
    run_model: RunModel, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, methods: str
) -> None:
    monkeypatch.setitem(environment, "XMML_METHODS", methods)
    run = run_model(HERE / "three_languages")
    assert run.lines("ocean") == [
        "heat  11.0  12.5  22.0  23.5  33.0  34.5",
        "heat  11.0  13.0  23.0  25.0  35.0  37.0",
        "heat  11.0  13.5  24.0  26.5  37.0  39.5",
    ]
    assert run.lines("atlas") == ["deep 2000.0 [True, False] [11.0, 24.0, 37.0] int16 [1, -1]"]


@needs("gfortran", "mpicc", "mpirun")
def test_the_ranks_of_a_fortran_program_send_and_receive_their_blocks(run_model: RunModel) -> None:
    run = run_model(HERE / "parallel_fortran")
    assert run.lines("ocean") == ["4 ranks received 12 blocks of wind"]
    assert run.lines("air") == ["(7, 5)"]
