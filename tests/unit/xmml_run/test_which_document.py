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


@pytest.fixture
def model(folder: Path) -> str:
    """The name of a model that runs."""
    good = Path(__file__).parents[2] / "data" / "documents" / "newcomer" / "good.xmml"
    (folder / "model.xmml").write_text(good.read_text(encoding="utf-8"), encoding="utf-8")
    for program in ("diffusion.py", "reaction.py"):
        (folder / program).touch()
    return "model.xmml"


def test_a_parameter_given_as_a_file_of_parameters_is_told_with_what_to_write(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert xmml_run([model, "--param", "macro.D=2e-9"]) == 1
    why = "cannot read the document: no such file or directory"
    help = "--param takes a file; to set a parameter, write -p macro.D=2e-9"
    assert capsys.readouterr().err == f"xmml-run: {model} cannot be run: macro.D=2e-9: {why}; {help}\n"


def test_a_file_of_parameters_that_is_not_there_is_named(
    model: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "fast.param.xml").touch()
    assert xmml_run([model, "--param", "fats.param.xml"]) == 1
    told = capsys.readouterr().err
    assert f"xmml-run: {model} cannot be run: fats.param.xml: cannot read the document" in told
    assert "did you mean fast.param.xml?" in told


def test_who_runs_a_program_is_asked_for_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml_run(["room.py"]) == 1
    assert "help: this looks like no model: name the model document" in capsys.readouterr().err
