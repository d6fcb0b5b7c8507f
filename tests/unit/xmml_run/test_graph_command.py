"""`xmml graph`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import small_models
from xmml_run.xmml_command import xmml_command

SKETCH = "a 2 init\nu 1\na.Oi -> u.finit\nu.Of -> a.S"
STUCK = "a 2\nb 3\na.Oi -> b.S\nb.Oi -> a.S"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return written(SKETCH)


def written(sketch: str) -> str:
    Path("model.xml").write_text(small_models.document(sketch), encoding="utf-8")
    return "model.xml"


@pytest.mark.parametrize("view", ["coupling", "task", "domain", "scales"])
@pytest.mark.parametrize("form", ["dot", "graphml", "json"])
def test_every_view_is_written_in_every_text_format(view: str, form: str, model: str) -> None:
    assert xmml_command(["graph", model, "--view", view, "-o", f"out.{form}"]) == 0
    begins = {"dot": "digraph G {", "graphml": "<?xml", "json": "{"}[form]
    assert Path(f"out.{form}").read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
@pytest.mark.parametrize("view", ["task", "scales"])
def test_views_with_axes_need_no_graphviz(view: str, form: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert xmml_command(["graph", model, "--view", view, "-o", f"out.{form}"]) == 0
    begins = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[form]
    assert Path(f"out.{form}").read_bytes().startswith(begins)


def test_text_goes_to_standard_output_as_dot(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml_command(["graph", model, "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("digraph G {")


def test_the_format_can_be_said(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml_command(["graph", model, "-o", "-", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["graph"]["view"] == "coupling"


def test_a_picture_does_not_go_to_standard_output(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml_command(["graph", model, "-o", "-", "--format", "png"]) == 2
    assert "only text goes to standard output" in capsys.readouterr().err


def test_an_unknown_suffix_is_refused_with_the_known_ones(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml_command(["graph", model, "-o", "out.jpg"]) == 2
    assert '"out.jpg" has no suffix of a known format (.svg, .png' in capsys.readouterr().err


def test_without_a_file_the_picture_is_called_after_model_and_view(model: str) -> None:
    assert xmml_command(["graph", model, "--view", "scales"]) == 0
    assert Path("small-scales.svg").exists()


def test_a_missing_graphviz_is_said_with_its_package(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert xmml_command(["graph", model, "-o", "out.svg"]) == 5
    assert "apt-get install graphviz" in capsys.readouterr().err
    assert not Path("out.svg").exists()


def test_a_model_with_errors_is_not_drawn(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(model).read_text(encoding="utf-8")
    Path(model).write_text(text.replace('submodel="u"', 'submodel="v"'), encoding="utf-8")
    assert xmml_command(["graph", model, "-o", "out.dot"]) == 1
    assert "error[E05]" in capsys.readouterr().err
    assert not Path("out.dot").exists()


def test_a_model_that_gets_stuck_is_drawn_all_the_same(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml_command(["graph", written(STUCK), "--view", "task", "-o", "out.dot"]) == 1
    assert "error[E21]" in capsys.readouterr().err
    assert "Deadlock[b(2,S)]" in Path("out.dot").read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written_is_named(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml_command(["graph", model, "-o", "nowhere/out.dot"]) == 5
    assert "nowhere/out.dot cannot be written: No such file or directory" in capsys.readouterr().err
