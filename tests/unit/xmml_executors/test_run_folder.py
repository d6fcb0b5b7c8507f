"""What a run leaves."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from xmml_executors.instance_record import InstanceRecord, Lifecycle
from xmml_executors.launch.site.journal import Journal
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import ExitStatus, Outcome, SiteError
from xmml_executors.profile import trace
from xmml_executors.provenance import provenance
from xmml_executors.run_folder import FolderTaken, RunFolder, new_folder
from xmml_executors.run_outputs import collect, read_events
from xmml_executors.run_result import RunResult
from xmml_planner import Plan, plan_from_text

MakePlan = Callable[..., Plan]


def test_the_secret_is_readable_by_its_owner_only_and_goes_at_the_end(make_plan: MakePlan, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", make_plan("a"))
    assert stat.S_IMODE(folder.secret_file.stat().st_mode) == 0o600
    assert bytes.fromhex(folder.secret_file.read_text()) == folder.secret
    folder.close()
    assert not folder.secret_file.exists()


def test_the_plan_in_the_folder_is_the_plan(make_plan: MakePlan, tmp_path: Path) -> None:
    plan = make_plan("a", "b", couplings=[("a", "b")])
    RunFolder(tmp_path / "run", plan).close()
    assert plan_from_text((tmp_path / "run/plan.json").read_text()) == plan
    assert (tmp_path / "run/instances/b/work").is_dir()


def test_a_folder_with_something_in_it_is_not_used(make_plan: MakePlan, tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("precious")
    with pytest.raises(FolderTaken, match="not empty"):
        RunFolder(tmp_path, make_plan("a"))


def test_a_folder_that_cannot_be_made_is_a_failure_of_the_site(make_plan: MakePlan) -> None:
    with pytest.raises(SiteError, match="run folder cannot be written"):
        RunFolder(Path("/proc/nowhere/run"), make_plan("a"))


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    first = new_folder(tmp_path, "m")
    first.mkdir()
    assert new_folder(tmp_path, "m") != first


def test_events_are_lines_with_time_site_instance_and_what(make_plan: MakePlan, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", make_plan("a"))
    folder.event("joined", site="local", instance="a", pid=7)
    folder.close()
    (event,) = read_events(OpenFolder(tmp_path / "run"))
    assert (event["site"], event["instance"], event["what"], event["pid"]) == ("local", "a", "joined", 7)
    assert event["time"] > 1.7e9


def test_an_event_that_is_just_being_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"what": "joined"}\n{"what": "le')
    assert [event["what"] for event in read_events(OpenFolder(tmp_path))] == ["joined"]


def test_staged_files_are_copied_to_the_working_folder(make_plan: MakePlan, tmp_path: Path) -> None:
    (tmp_path / "grid.nc").write_text("grid")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/1.csv").write_text("1")
    plan = make_plan("a")
    staged = dataclasses.replace(plan.instances[0], stage_in=("grid.nc", "data/*.csv"))
    plan = dataclasses.replace(plan, instances=(staged,), model_folder=str(tmp_path))
    folder = RunFolder(tmp_path / "run", plan)
    folder.stage_in(plan)
    folder.close()
    assert sorted(path.name for path in (folder.path / folder.work(staged)).iterdir()) == ["1.csv", "grid.nc"]


def test_provenance_has_the_hashes_of_files_that_were_staged_as_they_were_then(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    (model / "data/deep").mkdir(parents=True)
    for name in ("grid.nc", "data/1.csv", "data/deep/2.csv"):
        (model / name).write_text(name)
    (model / "grid.nc").chmod(0o755)
    plan = make_plan("a")
    staged = dataclasses.replace(plan.instances[0], stage_in=("grid.nc", "data"))
    plan = dataclasses.replace(plan, instances=(staged,), model_folder=str(model))
    folder = RunFolder(tmp_path / "run", plan)
    folder.stage_in(plan)
    (model / "grid.nc").write_text("another")
    journal = Journal(folder.files)
    journal.write("staged", site="alpha", sha256={"grid.nc": "0123"})
    journal.close()
    told = provenance(plan, folder, [], 0.0)
    folder.close()
    sha256 = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("grid.nc", "data/1.csv", "data/deep/2.csv")}
    assert told["staged"] == {"a": sha256}
    assert told["staged_at_sites"] == {"alpha": {"grid.nc": "0123"}}
    assert (folder.path / folder.work(staged) / "grid.nc").stat().st_mode & 0o777 == 0o755


def test_a_file_to_stage_that_is_missing_is_named(make_plan: MakePlan, tmp_path: Path) -> None:
    plan = make_plan("a")
    plan = dataclasses.replace(plan, instances=(dataclasses.replace(plan.instances[0], stage_in=("grid.nc",)),))
    folder = RunFolder(tmp_path / "run", plan)
    with pytest.raises(SiteError, match=r'no file matches run:stage-in "grid\.nc"'):
        folder.stage_in(plan)


def staging(plan: Plan, model: Path, *stage_in: str) -> Plan:
    staged = dataclasses.replace(plan.instances[0], stage_in=stage_in)
    return dataclasses.replace(plan, instances=(staged,), model_folder=str(model))


@pytest.mark.parametrize("name", ["data", "data/pipe"])
def test_a_pipe_to_stage_is_named_and_nobody_waits_for_it(make_plan: MakePlan, tmp_path: Path, name: str) -> None:
    (tmp_path / "model/data").mkdir(parents=True)
    os.mkfifo(tmp_path / "model/data/pipe")
    plan = staging(make_plan("a"), tmp_path / "model", name)
    folder = RunFolder(tmp_path / "run", plan)
    with pytest.raises(SiteError, match=r"model/data/pipe cannot be copied: it is not a regular file"):
        folder.stage_in(plan)
    folder.close()


def test_a_folder_is_staged_with_what_its_links_lead_to_and_those_that_lead_back_up_left_out(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    model = tmp_path / "model [1]"
    (model / "data").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for file in (model / "data/1.csv", tmp_path / "elsewhere/2.csv"):
        file.write_text(file.name)
    (model / "data/near").symlink_to(tmp_path / "elsewhere")
    for name in "abc":
        (model / "data" / name).symlink_to(".")
    (model / "data").chmod(0o555)
    plan = staging(make_plan("a"), model, "data")
    folder = RunFolder(tmp_path / "run", plan)
    folder.stage_in(plan)
    folder.close()
    (model / "data").chmod(0o755)
    work = folder.path / folder.work(plan.instances[0])
    found = sorted(str(path.relative_to(work)) for path in work.rglob("*"))
    assert found == ["data", "data/1.csv", "data/near", "data/near/2.csv"]
    assert sorted(folder.staged["a"]) == ["data/1.csv", "data/near/2.csv"]
    assert (work / "data").stat().st_mode & 0o777 == 0o555


def test_results_that_are_no_files_have_no_hash_and_nobody_waits_for_them(make_plan: MakePlan, tmp_path: Path) -> None:
    plan = make_plan("a")
    told = dataclasses.replace(plan.instances[0], stage_out=("*", "**/none"))
    plan = dataclasses.replace(plan, instances=(told,))
    folder = RunFolder(tmp_path / "run", plan)
    os.mkfifo(folder.path / folder.work(told) / "pipe")
    (folder.path / folder.work(told) / "zero").symlink_to("/dev/zero")
    for name in "ab":
        (folder.path / folder.work(told) / name).symlink_to(".")
    found = provenance(plan, folder, [], 0.0)
    folder.close()
    assert found["results"] == {"a": {f"instances/a/work/{name}": None for name in ("a", "b", "pipe", "zero")}}


def test_report_profile_and_provenance_are_written(make_plan: MakePlan, tmp_path: Path) -> None:
    plan = make_plan("a", "<b>", couplings=[("a", "<b>")])
    folder = RunFolder(tmp_path / "run", plan)
    folder.event("started", site="local", instance="a", pid=7)
    record = InstanceRecord("a", Lifecycle.DONE, messages_sent=3, started_at=1.0, ended_at=3.5)
    result = RunResult(Outcome(ExitStatus.DONE), 2.5, {"a": record, "<b>": InstanceRecord("<b>")})
    collect(plan, folder, result, ["xmml-run", "m.xmml"], 1.7e9)
    folder.close()
    page = (tmp_path / "run/report.html").read_text()
    assert "done in 2.5 s" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert json.loads((tmp_path / "run/provenance.json").read_text())["command_line"] == ["xmml-run", "m.xmml"]
    assert json.loads((tmp_path / "run/profile.json").read_text())["traceEvents"]


def test_a_trace_has_a_row_for_each_instance_and_a_span_for_each_wait() -> None:
    events = [
        {"time": 1.0, "instance": "a", "what": "started"},
        {"time": 2.0, "instance": "a", "what": "waiting"},
        {"time": 2.5, "instance": "a", "what": "resumed"},
        {"time": 4.0, "instance": "a", "what": "ended"},
    ]
    spans = [(each["name"], each["ts"], each["dur"]) for each in trace(events)["traceEvents"] if each["ph"] == "X"]
    assert spans == [("waiting", 2e6, 0.5e6), ("process", 1e6, 3e6)]
