"""Looking at a run from its folder."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from written_runs import PLAN, write_run
from xmml_executors.open_folder import OpenFolder
from xmml_executors.run_lock import RunLocked, is_owned, own
from xmml_run.arguments import UsageError
from xmml_run.commands.status import status_lines
from xmml_run.errors import NotARun
from xmml_run.inspection import follow, going, open_run, read_run
from xmml_run.main import xmml_run
from xmml_run.resume import resumed, what_resuming_does
from xmml_run.xmml_command import xmml_command

#: Owns the run in a folder until it is killed, and leaves what a run leaves whose machine loses its power.
OWNER = """import sys, time
from pathlib import Path
from xmml_executors.open_folder import OpenFolder
from xmml_executors.run_lock import own
folder = Path(sys.argv[1])
owned = own(OpenFolder(folder))
(folder / ".secret").write_text("s")
(folder / ".questions").write_text("xmml-questions-of-nobody")
print("owned", flush=True)
time.sleep(600)
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that carries out the run in `tmp_path`."""
    write_run(tmp_path, {"what": "joined", "host": "here"})
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "owned\n"
        yield process
        process.kill()


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_run_shows_the_cpus_of_each_process_and_why_one_has_none_of_its_own(tmp_path: Path) -> None:
    bound, unbound = {"what": "bound", "cpus": {"a": "3"}}, {"what": "not bound", "reason": "a: taken"}
    write_run(tmp_path, bound)
    assert read_run(OpenFolder(tmp_path)).instances["a"]["cpus"] == "3"
    write_run(tmp_path, bound, {**unbound, "processes": ["b"]})
    assert (read_run(OpenFolder(tmp_path)).instances["a"]["cpus"], read_run(OpenFolder(tmp_path)).not_bound) == (
        "3",
        "a: taken",
    )
    write_run(tmp_path, bound, {**unbound, "processes": ["a"]})
    assert read_run(OpenFolder(tmp_path)).instances["a"]["cpus"] is None


def test_a_run_that_goes_on_shows_the_latest_progress(tmp_path: Path) -> None:
    progress = {"messages_sent": 3, "messages_received": 0, "bytes_sent": 24, "bytes_received": 0}
    write_run(tmp_path, {"what": "joined", "host": "here"}, {"what": "progress", **progress})
    with own(OpenFolder(tmp_path)):
        view = read_run(OpenFolder(tmp_path))
    assert (view.state, view.instances["a"]["state"], view.instances["a"]["messages_sent"]) == ("running", "running", 3)


def test_an_instance_that_ends_while_its_run_is_stopped_has_not_failed(tmp_path: Path) -> None:
    write_run(
        tmp_path,
        {"what": "joined", "host": "here"},
        {"what": "stopping", "instance": None, "reason": "the run was interrupted"},
        {"what": "lost"},
        {"what": "ended", "status": -15},
    )
    with own(OpenFolder(tmp_path)):
        assert read_run(OpenFolder(tmp_path)).instances["a"]["state"] == "stopped"


def test_a_run_whose_instances_are_gone_and_whose_results_are_on_their_way_is_ending(tmp_path: Path) -> None:
    write_run(
        tmp_path,
        {"what": "joined", "host": "here"},
        {"what": "left", "conduits": []},
        {"what": "ending", "instance": None},
        {"what": "site progress", "instance": None, "site": "alpha", "doing": "fetching results"},
        {"what": "site progress", "instance": None, "site": "beta", "doing": "fetching results"},
        {"what": "site progress", "instance": None, "site": "beta", "doing": ""},
    )
    with own(OpenFolder(tmp_path)):
        view = read_run(OpenFolder(tmp_path))
    assert (view.state, view.instances["a"]["state"]) == ("ending", "left")
    assert view.sites == {"alpha": "fetching results", "beta": "done"}


def test_a_run_that_was_killed_is_lost(tmp_path: Path) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    assert read_run(OpenFolder(tmp_path)).state == "lost"


def test_a_run_is_owned_as_long_as_its_command_lives(tmp_path: Path, owner: subprocess.Popen[str]) -> None:
    assert read_run(OpenFolder(tmp_path)).state == "running"
    with pytest.raises(RunLocked, match="another process carries out the run"):
        own(OpenFolder(tmp_path))
    kill(owner)
    assert (tmp_path / ".secret").exists()
    assert read_run(OpenFolder(tmp_path)).state == "lost"
    own(OpenFolder(tmp_path)).close()


def test_who_only_looks_does_not_keep_others_from_a_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            is_owned(OpenFolder(tmp_path))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(100):
            own(OpenFolder(tmp_path)).close()
    finally:
        done.set()
        looking.join()


def test_a_run_of_a_process_that_was_forked_is_owned_when_the_first_one_has_gone(tmp_path: Path) -> None:
    write_run(tmp_path)
    ours = own(OpenFolder(tmp_path))
    copy = os.dup(ours.fileno())  # as a fork has it
    ours.close()
    assert is_owned(OpenFolder(tmp_path))
    os.close(copy)
    assert not is_owned(OpenFolder(tmp_path))


@pytest.mark.parametrize("journal", [None, "", '{"what": "launch", "run": "m-1", "pid": %d, "started": ""}\n'])
def test_cancel_believes_the_owner_and_not_what_lies_about(
    tmp_path: Path, owner: subprocess.Popen[str], journal: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if journal is not None:
        (tmp_path / "journal.jsonl").write_text(journal % owner.pid if "%d" in journal else journal)
    assert xmml_command(["cancel", str(tmp_path)]) == 5
    assert "and does not answer; end it first" in capsys.readouterr().err
    assert (tmp_path / ".secret").exists()
    kill(owner)
    assert xmml_command(["cancel", str(tmp_path)]) == 0
    assert f"ended; its folder here stays: {tmp_path}" in capsys.readouterr().out
    assert not (tmp_path / ".secret").exists()


def test_attach_ends_with_the_owner(
    tmp_path: Path, owner: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "output.log").write_text("it runs\n")
    killer = threading.Timer(0.1, owner.kill)
    killer.start()
    assert xmml_command(["attach", str(tmp_path)]) == 5
    killer.join()
    assert owner.wait() == -signal.SIGKILL
    told = capsys.readouterr()
    assert told.out == "it runs\n"
    assert "its xmml-run was killed" in told.err


def test_a_run_is_resumed_only_when_its_owner_is_gone(tmp_path: Path, owner: subprocess.Popen[str]) -> None:
    launch = {"what": "launch", "run": "m-1", "pid": owner.pid, "started": "before"}
    (tmp_path / "journal.jsonl").write_text(json.dumps(launch) + "\n")
    with pytest.raises(UsageError, match=f"is being launched by process {owner.pid}"):
        resumed(tmp_path)
    kill(owner)
    plan, folder, journal = resumed(tmp_path)
    assert (plan, folder.run_id, is_owned(OpenFolder(tmp_path))) == (PLAN, "m-1", True)
    folder.close()
    journal.close()
    assert not is_owned(OpenFolder(tmp_path))


def test_a_run_that_has_ended_says_how(tmp_path: Path) -> None:
    ended = {"status": "failed", "reason": "a failed: no", "instances": {"a": {"state": "failed"}}, "wall_s": 2.0}
    write_run(tmp_path, {"what": "run ended", "instance": None, **ended})
    view = read_run(OpenFolder(tmp_path))
    assert (view.state, view.reason, view.instances["a"]["state"]) == ("failed", "a failed: no", "failed")


def test_a_run_is_named_by_its_folder_or_by_its_name_below_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "m-1"
    folder.mkdir(parents=True)
    write_run(folder, {"what": "joined", "host": "here"})
    monkeypatch.chdir(tmp_path)
    for name in ("m-1", "m-1/", "runs/m-1", str(folder)):
        assert xmml_command(["status", name]) == 0
        assert capsys.readouterr().out.startswith("m-1: lost\n")
    assert xmml_command(["status", "m-2"]) == 2
    assert "m-2 is not the folder of a run" in capsys.readouterr().err


def test_a_run_waits_while_queues_say_so_and_nothing_has_started() -> None:
    planned, joined = {"a": {"state": "planned"}}, {"a": {"state": "running"}}
    pending = {"alpha": "job 80 pending (Resources), waited 6 min 0 s"}
    assert going(planned, pending) == "waiting"
    assert going(joined, pending) == going(planned, {"alpha": "connecting"}) == "running"


def test_a_lost_run_on_this_machine_can_be_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    assert status_lines(read_run(OpenFolder(tmp_path)))[1:3] == [
        "  its xmml-run was killed; start it again with xmml-run MODEL",
        "  last news:",
    ]
    (tmp_path / "output.log").touch()
    assert xmml_command(["attach", str(tmp_path)]) == 5
    assert "start it again with xmml-run MODEL" in capsys.readouterr().err


def write_journal(folder: Path, *lines: dict[str, object]) -> None:
    launch = {"what": "launch", "run": "m-1", "pid": 1, "started": "before"}
    prepared = [{"what": "prepare", "site": site, "folder": f"/{site}"} for site in ("alpha", "beta")]
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (launch, *prepared, *lines)))


SUBMITTED = {"what": "submitted", "site": "alpha", "job": "m.1", "id": "17"}


@pytest.mark.parametrize(
    ("lines", "resuming", "left"),
    [
        ([], "begins with the launch again; no job waits for it", "alpha, beta"),
        (
            [{"what": "submit", "site": "beta", "job": "k.1"}, SUBMITTED],
            "goes on with the launch; jobs that still wait keep their places in the queues: 17 at alpha, one at beta",
            "alpha, beta",
        ),
        (
            [SUBMITTED, {"what": "reserve", "site": "alpha", "name": "r", "job": "m"}],
            "begins with the launch again; no job waits for it",
            "alpha, beta",
        ),
        (
            [SUBMITTED, {"what": "go", "site": "alpha", "job": "m.1", "id": "17", "host": "n"}],
            "begins the run anew with its first step, when what is left at its sites has been ended and removed",
            "alpha, beta",
        ),
        (
            [
                {"what": "go", "site": "alpha", "job": "m.1", "id": "17", "host": "n"},
                {"what": "clean", "site": "alpha"},
            ],
            "begins the run anew with its first step, when what is left at its sites has been ended and removed",
            "beta",
        ),
    ],
    ids=["nothing submitted", "jobs wait", "in reservations", "begun", "partly removed"],
)
def test_a_lost_run_over_sites_says_what_resuming_and_cancelling_it_would_do(
    tmp_path: Path, lines: list[dict[str, object]], resuming: str, left: str
) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"}, {"what": "site", "about": "alpha", "text": "connecting"})
    write_journal(tmp_path, *lines)
    assert status_lines(read_run(OpenFolder(tmp_path)))[1:6] == [
        "  its xmml-run was killed",
        f"  xmml-run --resume {tmp_path} {resuming}",
        f"  xmml cancel {tmp_path} ends and removes what is left at {left}",
        "  last news:",
        "  alpha: connecting",
    ]


def test_what_is_told_of_no_single_site_is_no_news_of_a_site(tmp_path: Path) -> None:
    failed = {"about": "", "text": "alpha could not be cleaned: the disk is full; xmml cancel runs/r tries again"}
    write_run(tmp_path, {"what": "site", "about": "alpha", "text": "connecting"}, {"what": "site", **failed})
    assert read_run(OpenFolder(tmp_path)).sites == {"alpha": "connecting"}


def test_the_site_of_each_instance_is_told_if_there_are_several(tmp_path: Path) -> None:
    a = PLAN.instances[0]
    over_sites = dataclasses.replace(PLAN, instances=(a, dataclasses.replace(a, name="b", site="beta")))
    write_run(tmp_path, {"what": "joined", "host": "n1"}, plan=over_sites)
    lines = status_lines(read_run(OpenFolder(tmp_path)))
    assert [line.split("received, ")[1] for line in lines if "received" in line] == [f"at {a.site}, on n1", "at beta"]


def test_a_lost_run_of_which_nothing_is_left_says_so(tmp_path: Path) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    write_journal(tmp_path, *({"what": "clean", "site": site} for site in ("alpha", "beta")))
    assert f"  xmml cancel {tmp_path} finds nothing at its sites" in status_lines(read_run(OpenFolder(tmp_path)))


CANCELLED = [
    {"what": "go", "site": "alpha", "job": "m.1", "id": "17", "host": "n"},
    {"what": "cancel", "pid": 1, "started": "before"},
    *({"what": "clean", "site": site} for site in ("alpha", "beta")),
]


def test_a_run_that_was_cancelled_after_its_xmml_run_was_killed_says_so_and_what_resuming_it_would_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"}, {"what": "site", "about": "alpha", "text": "ready"})
    write_journal(tmp_path, *CANCELLED)
    assert xmml_command(["status", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path.name}: cancelled",
        "  its xmml-run was killed, and xmml cancel has removed what it had at its sites",
        f"  xmml-run --resume {tmp_path} begins the run anew with its first step",
        "  a  stopped   0 messages sent, 0 received, on here",
    ]
    assert xmml_command(["status", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["instances"]["a"]["state"], told["sites"]) == ("cancelled", "stopped", {})


def test_a_run_that_was_cancelled_before_it_had_anything_at_a_site_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path)
    (tmp_path / "journal.jsonl").write_text('{"what": "launch", "run": "m-1", "pid": 1, "started": "before"}\n')
    assert read_run(OpenFolder(tmp_path)).state == "lost"
    for _ in range(2):
        assert xmml_command(["cancel", str(tmp_path)]) == 0
        assert capsys.readouterr().out == f"{tmp_path.name}: ended; its folder here stays: {tmp_path}\n"
        assert read_run(OpenFolder(tmp_path)).state == "cancelled"


@pytest.mark.parametrize(
    "lines",
    [
        CANCELLED[:-1],
        [*CANCELLED, {"what": "launch", "run": "m-1", "pid": 2, "started": "after"}],
        [*CANCELLED, {"what": "prepare", "site": "alpha", "folder": "/alpha"}],
    ],
    ids=["something is left", "resumed", "something was begun"],
)
def test_a_run_is_not_cancelled_while_something_of_it_is_left_nor_when_it_was_resumed_after_that(
    tmp_path: Path, lines: list[dict[str, object]]
) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    write_journal(tmp_path, *lines)
    assert read_run(OpenFolder(tmp_path)).state == "lost"


def test_a_run_that_was_cancelled_can_be_resumed(tmp_path: Path) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    write_journal(tmp_path, *CANCELLED)
    _, folder, journal = resumed(tmp_path)
    assert what_resuming_does(journal.past) == "begins the run anew with its first step"
    folder.close()
    journal.close()


def test_a_lost_run_whose_journal_cannot_be_read_says_so(tmp_path: Path) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    (tmp_path / "journal.jsonl").write_text("nonsense\n")
    assert "is not the journal of a run" in status_lines(read_run(OpenFolder(tmp_path)))[1]


def test_a_run_that_has_ended_is_not_resumed_though_results_of_it_lie_at_a_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = {"status": "site-failed", "reason": "not all has come back", "instances": {}, "wall_s": 2.0}
    write_run(tmp_path, {"what": "run ended", "instance": None, **ended})
    write_journal(tmp_path, {"what": "clean", "site": "beta"})
    assert xmml_run(["--resume", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"xmml-run: {tmp_path} has ended (site-failed), and only a run whose xmml-run was killed can be resumed; "
        f"xmml cancel {tmp_path} removes what is left of it at alpha\n"
    )


def test_a_run_on_this_machine_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    assert xmml_run(["--resume", str(tmp_path)]) == 2
    assert "only such runs can be resumed; start it again with xmml-run MODEL" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--dry-run"],
        ["-p", "a.k=1"],
        ["--param", "p.xml"],
        ["-o", "elsewhere"],
        ["--debug", "a"],
        ["--hosts", "0"],
        ["--sites", "sites.toml"],
        ["--place", "a=alpha"],
        ["--max-cost", "0"],
        ["--by-hand", "a"],
        ["--relay", "h:1/s"],
        ["--run", "r=f"],
    ],
    ids=lambda words: words[0],
)
def test_what_the_plan_of_a_run_fixes_is_refused_when_it_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    write_run(tmp_path, {"what": "joined", "host": "here"})
    write_journal(tmp_path)
    assert xmml_run(["--resume", str(tmp_path), *words]) == 2
    assert capsys.readouterr().err == (
        f"xmml-run: {words[0]} cannot be given with --resume: the run keeps the plan in its folder; "
        f"xmml status {tmp_path} says what would be done\n"
    )


def test_a_file_is_not_the_folder_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "model.xmml").write_text("<model/>")
    with pytest.raises(NotARun, match="is not the folder of a run"):
        open_run(tmp_path / "model.xmml")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotARun, match="is not the folder of a run"):
        read_run(OpenFolder(tmp_path))


def test_following_a_log_ends_with_the_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    owned = own(OpenFolder(tmp_path))
    log = tmp_path / "stdout"
    log.write_text("one\n")
    lines = follow(["stdout"], OpenFolder(tmp_path), go_on=True)
    assert next(lines) == "one\n"

    def go_on() -> None:
        with open(log, "a") as file:
            file.write("two\n")
        owned.close()

    writer = threading.Timer(0.05, go_on)
    writer.start()
    assert "".join(lines) == "two\n"
    writer.join()
