"""The submodel that docs/submodels.md shows in each language, from the text as printed."""

from __future__ import annotations

import re
from pathlib import Path

import printed
import pytest
from model_runs import RunModel
from needs import java_missing, missing

PAGE = "submodels.md"
WARNINGS = "-Wall -Wextra -Werror -pedantic"
#: How each program is declared and compiled; the page says the same without the warnings.
LANGUAGES = {
    "python": 'language="python" path="decay.py"',
    "c": f'language="c" path="decay" run:build="cc {WARNINGS} -o decay decay.c $(xmml-config --cflags --libs)"',
    "c++": f'language="c++" path="decay" run:build="c++ {WARNINGS} -o decay decay.cpp $(xmml-config --cflags --libs)"',
    "fortran": f'language="fortran" path="decay" '
    f'run:build="gfortran {WARNINGS} -o decay decay.f90 $(xmml-config --fflags --flibs)"',
    "java": 'language="java" path="." run:build="javac -cp $(xmml-config --jar) Decay.java"',
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_submodel_runs_in_each_language_as_printed(run_model: RunModel, tmp_path: Path, language: str) -> None:
    if reason := (missing("gfortran") if language == "fortran" else java_missing() if language == "java" else None):
        pytest.skip(reason)
    folder = tmp_path / "printed" / "decaying"
    model = printed.write(PAGE, folder)["model.xmml"]
    assert LANGUAGES["python"] in model
    model = model.replace(LANGUAGES["python"], LANGUAGES[language])
    if language == "java":
        model = model.replace('<submodel id="Decay">', '<submodel id="Decay" class="Decay">')
    (folder / "model.xmml").write_text(model)
    run = run_model(folder)
    told = [line for text in printed.blocks(PAGE, "text") for line in re.findall(r"^(?:report|last) \| .*", text, re.M)]
    assert [f"report | {line}" for line in run.lines("report")] + [
        f"last | {line}" for line in run.lines("last")
    ] == told
