"""`xmml cancel` of a run whose `xmml-run` lives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import BIN
from waiting import LIMIT_S, wait_until
from written_runs import write_run
from xmml_run.commands import cancel
from xmml_run.xmml_command import xmml_command

#: Owns a run that is ending, as a launcher does that answers no queries any more. A line on its standard input is an
#: event; the end of that is the end of the run.
ENDING = """import sys
from pathlib import Path
from xmml_executors.open_folder import OpenFolder
from xmml_executors.run_lock import own
folder = Path(sys.argv[1])
owned = own(OpenFolder(folder))
print("owned", flush=True)
for line in sys.stdin:
    with open(folder / "events.jsonl", "a") as events:
        events.write(line)
"""


class EndingRun:
    """A run that is ending."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self._process = folder, process

    def note(self, what: str, **details: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"what": what, "instance": None, **details}) + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture
def ending(tmp_path: Path) -> Iterator[EndingRun]:
    write_run(tmp_path, {"what": "joined", "host": "here"}, {"what": "ending", "instance": None})
    with subprocess.Popen(
        [sys.executable, "-c", ENDING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "owned\n"
        yield EndingRun(tmp_path, process)
        process.kill()


def test_cancel_waits_as_long_as_the_run_notes_what_goes_on_and_tells_it_of_every_site(
    ending: EndingRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cancel, "SILENT_S", 8.0)
    monkeypatch.setattr(cancel, "TOLD_EVERY_S", 1.0)
    began = time.monotonic()

    def fetch_results() -> None:
        until = time.monotonic() + 1.25 * cancel.SILENT_S
        while time.monotonic() < until:
            ending.note("site progress", site="alpha", doing="fetching results, 1.0 of 9.0 MB")
            ending.note("site progress", site="beta", doing="removing what the run has there")
            time.sleep(0.1)
        ending.note("site", about="alpha", text="something that people should know")
        ending.end()

    fetching = threading.Thread(target=fetch_results)
    fetching.start()
    status = xmml_command(["cancel", str(ending.folder)])
    waited_s = time.monotonic() - began
    fetching.join()
    told = capsys.readouterr()
    assert (status, told.out) == (0, f"{ending.folder.name}: ended; its folder here stays: {ending.folder}\n")
    lines = [line.partition("; nothing new")[0] for line in told.err.splitlines()]  # beside load the run may pause
    passing = "xmml cancel: alpha: fetching results, 1.0 of 9.0 MB; beta: removing what the run has there"
    assert {passing, "xmml cancel: alpha: something that people should know"} <= set(lines)
    assert lines.count(passing) <= waited_s / cancel.TOLD_EVERY_S


def test_cancel_gives_up_when_nothing_moves(
    ending: EndingRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cancel, "SILENT_S", 1.0)
    monkeypatch.setattr(cancel, "TOLD_EVERY_S", 0.2)
    assert xmml_command(["cancel", str(ending.folder)]) == 5
    told = capsys.readouterr().err
    assert f"waiting for its xmml-run to end {ending.folder.name}" in told
    assert f"nothing has moved in {ending.folder.name} for 1 s; end its xmml-run, and cancel again" in told


def test_ctrl_c_ends_the_waiting_of_cancel_and_says_what_goes_on(ending: EndingRun) -> None:
    with subprocess.Popen(
        [str(BIN / "xmml"), "cancel", str(ending.folder)], stderr=subprocess.PIPE, text=True, process_group=0
    ) as waiting:
        assert waiting.stderr is not None
        said: list[str] = []
        reading = threading.Thread(target=lambda: said.extend(iter(waiting.stderr.readline, "")))  # type: ignore[union-attr]
        reading.start()

        def is_told() -> bool:
            ending.note("site", about="alpha", text="a notice")
            return bool(said)

        wait_until(is_told, "it does not wait")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(LIMIT_S) == 130
        reading.join()
    folder = ending.folder
    assert (
        said[-1]
        == f"xmml cancel: {folder.name} goes on ending in its xmml-run; xmml cancel {folder} waits for it again\n"
    )
    assert set(said[:-1]) == {"xmml cancel: alpha: a notice\n"}


def test_cancel_leaves_results_alone_that_a_run_has_left_at_a_site(
    ending: EndingRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = {"what": "launch", "run": "m-1", "pid": 12, "started": "before"}
    prepare = {"what": "prepare", "site": "alpha", "folder": "/there"}
    (ending.folder / "journal.jsonl").write_text(f"{json.dumps(launch)}\n{json.dumps(prepare)}\n")
    ending_soon, wait_until_ended = threading.Timer(0.5, ending.end), cancel.wait_until_ended

    def wait(*arguments: Any) -> bool:
        ending_soon.start()
        return wait_until_ended(*arguments)

    monkeypatch.setattr(cancel, "wait_until_ended", wait)
    assert xmml_command(["cancel", str(ending.folder)]) == 5
    ending_soon.join()
    assert (
        f"{ending.folder.name} has left something at alpha; xmml cancel {ending.folder} removes it"
        in capsys.readouterr().err
    )
