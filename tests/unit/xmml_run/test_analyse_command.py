"""The command `xmml analyse`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import xmml_schema
from jsonschema import Draft202012Validator
from small_models import document
from xmml_run.main import xmml

MACRO_MICRO = "m 1000000000 init\nu 5\nm.Oi -> u.finit\nu.Of -> m.S"


def analyse(folder: Path, text: str, *options: str) -> int:
    path = folder / "model.xmml"
    path.write_text(document(text))
    return xmml(["analyse", str(path), *options])


def test_the_command_prints_json_that_keeps_to_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = analyse(tmp_path, MACRO_MICRO, "--json", "--task-graph", "--set", "m.total=3 s")
    assert status == 0
    found = json.loads(capsys.readouterr().out)
    Draft202012Validator(json.loads(xmml_schema.ANALYSIS.read_text())).validate(found)
    assert found["runs"] == {"m": 1, "u": 3}


def test_the_command_ends_with_1_if_the_model_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = analyse(tmp_path, "a\nb\na.Of -> b.finit\nb.Of -> a.finit")
    assert status == 1
    assert "it deadlocks" in capsys.readouterr().out


def test_the_command_says_what_a_setting_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    analyse(tmp_path, "a 3 runtime=10", "--set", "a.runtime=20 s")
    assert "run time 10 s -> 20 s" in " ".join(capsys.readouterr().out.split())


def test_the_command_refuses_a_setting_that_fits_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = analyse(tmp_path, "a 3", "--set", "b.runtime=20 s")
    assert status == 2
    assert 'there is no instance "b"' in capsys.readouterr().err
