"""`xmml convert` and `xmml schema` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import xmml_schema
from xmml_run.main import xmml

MODEL = Path(__file__).parents[3] / "workflows/macro-micro/model.xmml"


def test_the_text_goes_to_standard_output_and_notes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml(["convert", str(MODEL), "--to", "ymmsl"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("ymmsl_version: v0.2\n")
    assert "note: scales other than time are left out" in err


def test_a_file_is_written_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml(["convert", str(MODEL), "--to", "ymmsl", "-q", "-o", str(tmp_path / "m.ymmsl")]) == 0
    assert xmml(["convert", str(tmp_path / "m.ymmsl"), "--to", "xmml", "-q", "-o", str(tmp_path / "m.xmml")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(tmp_path / "m.ymmsl"), str(tmp_path / "m.xmml")]
    assert err == ""
    assert xmml(["check", str(tmp_path / "m.xmml")]) == 0


def test_parameters_of_the_command_line_are_in_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml(["convert", str(MODEL), "--to", "cxa", "-p", "reaction.kill=0.5"]) == 0
    assert "reaction['kill']=0.5" in capsys.readouterr().out


def test_a_model_with_errors_is_not_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "model.xmml"
    wrong.write_text(MODEL.read_text().replace('to="reaction.start"', 'to="reaction.strt"'))
    assert xmml(["convert", str(wrong), "--to", "cxa"]) == 1
    assert "error[E05]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "path"),
    [
        ([], xmml_schema.MODEL.parent),
        (["--model"], xmml_schema.MODEL),
        (["--parameters"], xmml_schema.PARAMETERS),
        (["--run"], xmml_schema.RUN),
        (["--catalog"], xmml_schema.CATALOG),
    ],
)
def test_the_schemas_are_found(option: list[str], path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml(["schema", *option]) == 0
    assert capsys.readouterr().out == f"{path}\n"
