"""Run folders from elsewhere, file by file (tests/security/test_foreign_run_folder.py has the attacks)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from written_runs import write_run
from xmml_executors.run_folder import DOOR
from xmml_executors.run_seal import LARGEST_PLAN_BYTES, SEAL
from xmml_run.run_command import run_model
from xmml_run.xmml_command import xmml_command


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A copy of the folder of a run that was killed, as it comes out of an archive."""
    made = tmp_path / "made"
    made.mkdir()
    write_run(made, {"what": "joined", "host": "here"})
    return Path(shutil.copytree(made, tmp_path / "foreign"))


def test_a_plan_without_end_is_not_read(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.truncate(foreign / "plan.json", LARGEST_PLAN_BYTES + 1)
    for command in ("status", "cancel"):
        assert xmml_command([command, str(foreign)]) == 2
        assert "was not made by a run of yours: its plan is no file, or too large for one" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["events.jsonl", "plan.json", SEAL])
def test_what_is_nested_without_end_is_one_line(foreign: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    (foreign / file).write_text("[" * 100_000 + "\n")
    assert xmml_command(["cancel", str(foreign)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["plan.json", "events.jsonl", "journal.jsonl", ".lock", SEAL, DOOR, "report.html"])
def test_a_link_in_the_place_of_a_file_is_refused_in_one_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    write_run(run, {"what": "joined", "host": "here"})
    if (run / name).exists():
        (run / name).rename(elsewhere)
    else:
        elsewhere.write_text("")
    (run / name).symlink_to(elsewhere)
    told = f"{run / name} is a symbolic link, and xMML follows none in the folder of a run\n"
    for command in ("status", "report", "cancel", "attach", "methods"):
        assert xmml_command([command, str(run)]) == 2
        assert capsys.readouterr() == ("", f"xmml {command}: {told}")
    assert run_model(["--resume", str(run)]) == 2
    assert capsys.readouterr() == ("", f"xmml-run: {told}")


def test_logs_are_not_read_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "instances/a").mkdir(parents=True)
    (tmp_path / "instances/a/stdout").symlink_to(tmp_path / "precious")
    assert xmml_command(["logs", str(tmp_path), "a"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "instances/a/stdout: it is a symbolic link" in told.err
