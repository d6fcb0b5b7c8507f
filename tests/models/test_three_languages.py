"""A model of three languages: Fortran or Java calls C++, and gives what it has to Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from model_runs import RunModel
from needs import needs, needs_java

MODEL = Path(__file__).parent / "three_languages"
#: How the ocean is declared in the model, and in Java instead.
IN_FORTRAN = 'language="fortran" path="build/ocean" run:build="make build/ocean"'
IN_JAVA = 'language="java" path="build" run:build="make build/Ocean.class"'


@needs("gfortran")
@pytest.mark.parametrize("methods", ["shm", "tcp"])
def test_fortran_calls_cpp_and_tells_python(run_model: RunModel, monkeypatch: pytest.MonkeyPatch, methods: str) -> None:
    monkeypatch.setenv("XMML_METHODS", methods)
    run = run_model(MODEL)
    assert run.lines("ocean") == [
        "heat  11.0  12.5  22.0  23.5  33.0  34.5",
        "heat  11.0  13.0  23.0  25.0  35.0  37.0",
        "heat  11.0  13.5  24.0  26.5  37.0  39.5",
    ]
    layers = "float64[11.0, 24.0, 37.0] int16[1, -1]"
    assert run.lines("atlas") == ["depth 2000.0", f"layers {layers}", "name deep", "wet bool[True, False]"]


@needs_java
@pytest.mark.parametrize("methods", ["shm", "tcp"])
def test_java_calls_cpp_and_tells_python(
    run_model: RunModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: str
) -> None:
    monkeypatch.setenv("XMML_METHODS", methods)
    folder = tmp_path / "as written" / "ocean"
    shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns("build"))
    model = (folder / "model.xmml").read_text()
    assert IN_FORTRAN in model
    model = model.replace(IN_FORTRAN, IN_JAVA).replace('<submodel id="Ocean">', '<submodel id="Ocean" class="Ocean">')
    (folder / "model.xmml").write_text(model)
    run = run_model(folder)
    assert run.lines("ocean") == [
        "heat [[11.0, 12.5], [22.0, 23.5], [33.0, 34.5]]",
        "heat [[11.0, 13.0], [23.0, 25.0], [35.0, 37.0]]",
        "heat [[11.0, 13.5], [24.0, 26.5], [37.0, 39.5]]",
    ]
    heat = "float64[[11.0, 13.5], [24.0, 26.5], [37.0, 39.5]]"
    counts, wet = "uint16[1, 65535]", "bool[True, False]"
    assert run.lines("atlas") == [f"counts {counts}", "depth 2000.0", f"heat {heat}", "name deep", f"wet {wet}"]
