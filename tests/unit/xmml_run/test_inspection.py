"""Looking at a run from its folder."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from xmml_planner import Job, Plan, PlannedInstance
from xmml_run.commands.status import status_lines
from xmml_run.inspection import follow, read_run
from xmml_run.not_a_run import NotARun
from xmml_run.xmml_command import xmml_command

A = PlannedInstance(
    "a", "a", "submodel", 0, 1, True, 1, False, 1.0, 1.0, {}, (), ("/bin/true",), {}, 1, "instances/a", "local"
)
PLAN = Plan("m", "/m.xmml", "/", (Job("all", "local", ("a",)),), (), (A,), ())


def write_run(folder: Path, *events: dict[str, object], running: bool = False) -> None:
    (folder / "plan.json").write_text(PLAN.to_text())
    lines = [json.dumps({"time": 1.0, "site": "local", "instance": "a", **event}) for event in events]
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if running:
        (folder / ".secret").write_text("s")


def test_a_run_that_goes_on_shows_the_latest_progress(tmp_path: Path) -> None:
    progress = {"messages_sent": 3, "messages_received": 0, "bytes_sent": 24, "bytes_received": 0}
    write_run(tmp_path, {"what": "joined"}, {"what": "progress", **progress}, running=True)
    view = read_run(tmp_path)
    assert (view.state, view.instances["a"]["state"], view.instances["a"]["messages_sent"]) == ("running", "running", 3)


def test_a_run_that_was_killed_is_lost(tmp_path: Path) -> None:
    write_run(tmp_path, {"what": "joined"})
    assert read_run(tmp_path).state == "lost"


def test_a_run_that_has_ended_says_how(tmp_path: Path) -> None:
    ended = {"status": "failed", "reason": "a failed: no", "instances": {"a": {"state": "failed"}}, "wall_s": 2.0}
    write_run(tmp_path, {"what": "run ended", "instance": None, **ended})
    view = read_run(tmp_path)
    assert (view.state, view.reason, view.instances["a"]["state"]) == ("failed", "a failed: no", "failed")


def test_a_run_is_named_by_its_folder_or_by_its_name_below_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "m-1"
    folder.mkdir(parents=True)
    write_run(folder, {"what": "joined"})
    monkeypatch.chdir(tmp_path)
    for name in ("m-1", "m-1/", "runs/m-1", str(folder)):
        assert xmml_command(["status", name]) == 0
        assert capsys.readouterr().out.startswith("m-1: lost\n")
    assert xmml_command(["status", "m-2"]) == 2
    assert "m-2 is not the folder of a run" in capsys.readouterr().err


def test_a_lost_run_says_what_can_be_done_about_it(tmp_path: Path) -> None:
    write_run(tmp_path, {"what": "joined"})
    assert "start it again" in status_lines(read_run(tmp_path))[1]
    (tmp_path / "journal.jsonl").touch()
    assert f"xmml-run --resume {tmp_path} goes on" in status_lines(read_run(tmp_path))[1]


def test_a_file_is_not_the_folder_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "model.xmml").write_text("<model/>")
    with pytest.raises(NotARun, match="is not the folder of a run"):
        read_run(tmp_path / "model.xmml")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotARun, match="is not the folder of a run"):
        read_run(tmp_path)


def test_following_a_log_ends_with_the_run(tmp_path: Path) -> None:
    write_run(tmp_path, running=True)
    log = tmp_path / "stdout"
    log.write_text("one\n")
    lines = follow([log], tmp_path, go_on=True)
    assert next(lines) == "one\n"

    def go_on() -> None:
        with open(log, "a") as file:
            file.write("two\n")
        (tmp_path / ".secret").unlink()

    writer = threading.Timer(0.05, go_on)
    writer.start()
    assert "".join(lines) == "two\n"
    writer.join()
