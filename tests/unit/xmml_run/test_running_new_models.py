"""The models that `xmml new` writes run as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
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
    ended = subprocess.run(
        [sys.executable, "-m", "xmml_run", str(model), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["status"] == "done"
    names = {sketch.instance for sketch in TEMPLATES[template].sketches}
    assert {name for name, row in told["instances"].items() if row["state"] == "done"} == names
    assert Path(told["run_dir"]).parent == tmp_path / "runs"
