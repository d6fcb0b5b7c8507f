"""The models that `xmml new` writes."""

from __future__ import annotations

import ast
from itertools import product
from pathlib import Path

import pytest
from xmml_run.new_model import NameTaken, write_model
from xmml_run.skeletons import LANGUAGES
from xmml_run.templates import TEMPLATES

from xmml.check import check


@pytest.mark.parametrize(("template", "language"), list(product(TEMPLATES, LANGUAGES)))
def test_a_new_model_has_no_problems(
    template: str, language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = write_model("mine", template, language)
    result = check(files[0])
    assert result.problems == ()
    assert result.model is not None
    assert len(result.model.instances) == len(TEMPLATES[template].sketches)


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_python_skeletons_are_python(template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    programs = [file for file in write_model("mine", template, "python") if file.suffix == ".py"]
    assert len(programs) == len(TEMPLATES[template].sketches)
    for program in programs:
        ast.parse(program.read_text())


def test_an_existing_folder_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model("mine", "interact", "python")
    with pytest.raises(NameTaken, match="exists already"):
        write_model("mine", "interact", "python")


@pytest.mark.parametrize("name", ["", "9lives", "a b", "a.b"])
def test_a_name_that_no_model_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a model"):
        write_model(name, "interact", "python")


def test_several_languages_are_dealt_out_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = {file.name for file in write_model("mine", "pipeline", "python", "c")}
    assert {"first.py", "second.c", "third.py", "Makefile"} <= files
    assert "third" not in (tmp_path / "mine/Makefile").read_text()


def test_an_unknown_language_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match='no language "cobol"; there are python, c, cpp'):
        write_model("mine", "pipeline", "cobol")


def test_the_readme_names_every_program_and_what_to_do_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = write_model("mine", "macro-micro", "c")
    text = (tmp_path / "mine/README.md").read_text()
    assert files[-1].name == "README.md"
    assert all(word in text for word in ("`macro.c`", "`micro.c`", "xmml-run model.xmml", "## Next", "Makefile"))
