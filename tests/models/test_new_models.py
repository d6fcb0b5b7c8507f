"""The models that `xmml new` writes run as they are."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from model_runs import run_document
from needs import java_missing, missing
from xmml_run.new_model import write_model
from xmml_run.skeletons import LANGUAGES
from xmml_run.templates import TEMPLATES


@pytest.mark.parametrize(
    ("template", "language"),
    [
        *product(TEMPLATES, LANGUAGES),
        ("macro-micro", "python,cpp"),
        ("pipeline", "python,c,cpp"),
        ("pipeline", "fortran,c,python"),
    ],
)
def test_a_new_model_runs(template: str, language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := (missing("gfortran") if "fortran" in language else java_missing() if "java" in language else None):
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    model = write_model("mine", template, *language.split(","))[0]
    run = run_document(tmp_path / model)
    assert run.report["status"] == "done"
    names = {sketch.instance for sketch in TEMPLATES[template].sketches}
    assert {name for name, row in run.report["instances"].items() if row["state"] == "done"} == names
