"""Commands that are given something else than a model: a program, or a name that is misspelt."""

from __future__ import annotations

from pathlib import Path

import pytest
from xmml_run.main import xmml, xmml_run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a program, to be worked in."""
    (tmp_path / "model.xmml").write_text("<model/>")
    (tmp_path / "room.py").write_text("import xmml\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["modle.xmml", "model", "modell.xml"])
def test_a_misspelt_name_of_a_document_is_told_once_with_the_one_that_is_there(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert xmml_run([name]) == 1
    why = "cannot read the document: no such file or directory; did you mean model.xmml?"
    assert capsys.readouterr().err == f"xmml-run: {name} cannot be run: {why}\n"


def test_a_name_that_resembles_none_is_told_without_a_guess(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml(["plan", "canal.xmml"]) == 1
    why = "cannot read the document: no such file or directory"
    assert capsys.readouterr().err == f"xmml plan: canal.xmml cannot be planned: {why}\n"


def test_who_runs_a_program_is_asked_for_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml_run(["room.py"]) == 1
    assert "help: this looks like no model: name the model document" in capsys.readouterr().err
