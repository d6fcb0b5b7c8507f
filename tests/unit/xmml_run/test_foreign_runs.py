"""Run folders that no run of this user has made are looked at; nothing that they say is done."""

from __future__ import annotations

import json
import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from written_runs import PLAN, write_run
from xmml_executors.run_folder import DOOR
from xmml_executors.run_seal import LARGEST_PLAN_BYTES, SEAL
from xmml_planner import ConduitSpec
from xmml_run.run_command import run_model
from xmml_run.xmml_command import xmml_command

NOT_OURS = "is a copy, or was not made by a run of yours: its seal does not fit"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A copy of the folder of a run that was killed, as it comes out of an archive."""
    made = tmp_path / "made"
    made.mkdir()
    write_run(made, {"what": "joined", "host": "here"})
    launch = {"time": 1, "what": "launch", "run": "r-1", "pid": 1, "started": "1"}
    prepare = {"time": 2, "what": "prepare", "site": "alpha", "folder": str(tmp_path / "precious")}
    (made / "journal.jsonl").write_text(f"{json.dumps(launch)}\n{json.dumps(prepare)}\n")
    (tmp_path / "precious").mkdir()
    return Path(shutil.copytree(made, tmp_path / "foreign"))


@pytest.mark.parametrize(
    "words", [["cancel"], ["attach"], ["methods", "--set", "tcp"]], ids=["cancel", "attach", "methods"]
)
def test_commands_that_act_refuse_it_in_one_line(
    foreign: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command, *options = words
    before = sorted(foreign.iterdir())
    assert xmml_command([command, str(foreign), *options]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"xmml {command}: {foreign} {NOT_OURS}; it can only be looked at\n")
    assert sorted(foreign.iterdir()) == before
    assert (foreign.parent / "precious").is_dir()


def test_it_is_not_resumed(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_model(["--resume", str(foreign)]) == 2
    assert capsys.readouterr().err == f"xmml-run: {foreign} {NOT_OURS}; it can only be looked at\n"


def test_status_tells_of_it_and_recommends_nothing(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert xmml_command(["status", str(foreign)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["foreign: lost", f"  {foreign} {NOT_OURS}: nothing is done with it"]
    assert not any("xmml cancel" in line or "--resume" in line for line in lines)


def test_nobody_is_asked_whom_it_names(foreign: Path) -> None:
    name = f"xmml-foreign-{os.urandom(8).hex()}"
    (foreign / DOOR).write_text(name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        listener.settimeout(0)
        assert xmml_command(["status", str(foreign)]) == 0
        with pytest.raises(BlockingIOError):
            listener.accept()


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


@pytest.mark.parametrize("events", ["nonsense\n", "[]\n", '{"what": 1}\n', '{"what": "site", "about": []}\n'])
def test_nonsense_in_it_is_one_line(foreign: Path, events: str, capsys: pytest.CaptureFixture[str]) -> None:
    (foreign / "events.jsonl").write_text(events)
    assert xmml_command(["status", str(foreign)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["plan.json", "events.jsonl", ".lock", SEAL])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(foreign: Path, name: str) -> None:
    (foreign / name).unlink(missing_ok=True)
    os.mkfifo(foreign / name)
    assert xmml_command(["status", str(foreign)]) == (0 if name == SEAL else 2)
    assert xmml_command(["cancel", str(foreign)]) == 2


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


@pytest.mark.parametrize("command", ["status", "report"])
def test_what_it_says_cannot_write_to_the_terminal(
    foreign: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    event = {"what": "site", "instance": None, "about": "alpha", "text": "\033]0;owned\a pending"}
    (foreign / "events.jsonl").write_text(json.dumps(event) + "\n")
    assert xmml_command([command, str(foreign)]) == 0
    told = capsys.readouterr().out
    assert "]0;owned" in told
    assert "\033" not in told


def test_neither_can_the_names_of_its_conduits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conduit = ConduitSpec(0, "a.o -> a.\033]0;owned\a", "a", "o", "a", "i", 1, 1)
    write_run(tmp_path, plan=replace(PLAN, conduits=(conduit,)))
    (tmp_path / SEAL).unlink()
    assert xmml_command(["methods", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "]0;owned" in told
    assert "\033" not in told


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can give a folder away: sudo make test")
def test_a_folder_of_somebody_else_is_named_with_its_owner(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.chown(foreign, 54321, -1)
    assert xmml_command(["cancel", str(foreign)]) == 2
    assert capsys.readouterr().err == f"xmml cancel: {foreign} belongs to user 54321; it can only be looked at\n"


def test_a_folder_whose_seal_is_gone_is_not_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    (tmp_path / SEAL).unlink()
    assert xmml_command(["cancel", str(tmp_path)]) == 2
    assert "was not made by a run of yours" in capsys.readouterr().err
