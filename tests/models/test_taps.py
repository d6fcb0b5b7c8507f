"""Taps and records: programs that join a run that goes on and are shown what passes, and on which nothing depends."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import XMML, XMML_RUN, do
from forged_report import FORGE_REPORT
from pool_models import model_of, pool
from waiting import LIMIT_S, RUN_LIMIT_S, wait_until

#: Sends numbers, and puts them, until somebody says that it is enough.
WRITER = """
    import os, time, xmml
    with xmml.Instance() as me:
        while me.reuse():
            number = 0
            while not os.path.exists("../../../../enough"):
                me.send("levels", float(number))
                me.put("fields", [number], step=number, param="tu"[number % 2])
                number += 1
                time.sleep(0.001)
            print(number)
"""
READER = """
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            count = 0
            while me.receive_or_end("levels") is not None:
                me.receive("fields")
                count += 1
            print(count)
"""
#: The same with a pool alone.
PUTTER = WRITER.replace('me.send("levels", float(number))', "pass")
TAKER = """
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            print(sum(1 for _ in me.objects("fields", timeout=60)))
"""
PORTS = {
    "Writer": '<out id="levels" operator="Oi" datatype="field"/><out id="fields" datatype="field"/>',
    "Reader": '<in id="levels" operator="S" datatype="field"/><in id="fields" datatype="field"/>',
}


@contextmanager
def going(folder: Path, *, copies: int = 1) -> Iterator[Path]:
    """Run a writer and a reader, or copies of them, until the end of the context; then the run must have ended well."""
    is_one = copies == 1
    model = model_of(
        folder / "model",
        {"Writer": WRITER if is_one else PUTTER, "Reader": READER if is_one else TAKER},
        f'<instance id="w" submodel="Writer" multiplicity="{copies}" run:order="free"/>'
        f'<instance id="r" submodel="Reader" multiplicity="{copies}" run:order="free"/>',
        ('<coupling from="w.levels" to="r.levels"/>' if is_one else "")
        + pool("w", "r", "sys.index = $index or $count = 1"),
        PORTS if is_one else None,
    )
    run = folder / "model" / "run"
    command = [XMML_RUN, str(model), "-o", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            wait_until(lambda: has_begun(run) or process.poll() is not None, "the run has not begun", RUN_LIMIT_S)
            yield run
            (folder / "model" / "enough").touch()
            output, _ = process.communicate(timeout=RUN_LIMIT_S)
        finally:
            process.kill()
    assert process.returncode == 0, output
    names = ["w", "r"] if copies == 1 else [f"{name}[{copy}]" for name in "wr" for copy in range(copies)]
    counts = [int((run / "instances" / name / "stdout").read_text()) for name in names]
    assert counts[: len(counts) // 2] == counts[len(counts) // 2 :]


def has_begun(run: Path) -> bool:
    events = run / "events.jsonl"
    return events.exists() and events.read_text().count('"joined"') >= 2


def lines_of(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip() for _ in range(count)]


@contextmanager
def tapping(*words: object) -> Iterator[subprocess.Popen[str]]:
    """Start a command that joins the run, and end it if it has not ended."""
    command = [XMML, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def end_of(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    output, errors = process.communicate(timeout=LIMIT_S)
    return output, errors, process.returncode


def test_a_tap_prints_the_messages_of_a_port_until_the_run_ends(tmp_path: Path) -> None:
    with going(tmp_path) as run, tapping("tap", run, "w.levels", "--json") as tap:
        first, second = (json.loads(line) for line in lines_of(tap, 2))
        (tmp_path / "model" / "enough").touch()
        assert tap.stdout is not None
        output = tap.stdout.read()  # also what has been read ahead of the lines
        _, errors, status = end_of(tap)
    numbers = [first["sys.seq"], second["sys.seq"], *(json.loads(line)["sys.seq"] for line in output.splitlines())]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert (first["sys.instance"], first["sys.port"], status) == ("w", "levels", 0)
    assert "joins as tap-1 and is shown w.levels" in errors


def test_a_tap_of_a_pool_shows_what_its_selector_chooses_with_the_attributes(tmp_path: Path) -> None:
    with going(tmp_path) as run, tapping("tap", run, "w.fields", "--select", "param = 'u' and step > 3") as tap:
        shown = lines_of(tap, 3)
    assert all(line.startswith("step=") and "param=u" in line and "(" in line for line in shown), shown


def test_a_program_takes_what_a_tap_is_shown_of_all_copies(tmp_path: Path) -> None:
    program = tmp_path / "watch.py"
    program.write_text(
        "import xmml\n"
        "with xmml.Instance() as me:\n"
        "    seen = set()\n"
        "    for found in me.objects('objects'):\n"
        "        seen.add((found['sys.index'], found['param']))\n"
        "        if len(seen) == 4:\n"
        "            break\n"
        "    print(sorted(seen))\n"
    )
    with going(tmp_path, copies=2) as run, tapping("tap", run, "w.*", "--", "python3", program) as tap:
        output, errors, status = end_of(tap)
    assert (output.strip(), status) == ("[(0, 't'), (0, 'u'), (1, 't'), (1, 'u')]", 0), errors


def test_a_record_is_an_archive_of_what_passed(tmp_path: Path) -> None:
    archive = tmp_path / "seen.archive"
    with going(tmp_path) as run, tapping("record", run, "w.*", "-o", archive) as record:
        wait_until(lambda: do("xmml", "pool", "ls", archive, "--json").stdout, "nothing is in the archive")
        (tmp_path / "model" / "enough").touch()
        _, errors, status = end_of(record)
    assert status == 0, errors
    rows = [json.loads(line) for line in do("xmml", "pool", "ls", archive, "--json").stdout.splitlines()]
    fields = [row for row in rows if row["sys.port"] == "fields"]
    assert [row["step"] for row in fields] == list(range(fields[0]["step"], fields[0]["step"] + len(fields)))
    assert {row["sys.port"] for row in rows} == {"fields", "levels"}
    assert do("xmml", "pool", "verify", archive).returncode == 0


def test_a_record_that_is_interrupted_keeps_what_has_come(tmp_path: Path) -> None:
    archive = tmp_path / "seen.archive"
    with going(tmp_path) as run, tapping("record", run, "w.*", "-o", archive) as record:
        wait_until(lambda: do("xmml", "pool", "ls", archive, "--json").stdout, "nothing is in the archive")
        record.send_signal(signal.SIGINT)
        _, errors, status = end_of(record)
    assert status == 130, errors
    assert "interrupted; what has come so far is in" in errors
    assert do("xmml", "pool", "verify", archive).returncode == 0


def test_who_could_keep_nothing_does_not_join(tmp_path: Path) -> None:
    in_the_way = tmp_path / "seen.archive"
    in_the_way.write_text("no archive")
    new = tmp_path / "new.archive"
    with going(tmp_path) as run:
        for words in (["w.*", "-o", in_the_way], ["w.level", "-o", new]):
            refused = do("xmml", "record", run, *words)
            assert refused.returncode == 2, refused.stderr
            assert "joins as" not in refused.stderr
        do("xmml", "tap", run, "w.*", "--", "no-such-program")
        events = (run / "events.jsonl").read_text()
    assert "tap-" not in events
    assert not new.exists()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGSTOP, signal.SIGINT])
def test_the_run_goes_on_and_loses_nothing_whatever_becomes_of_a_tap(tmp_path: Path, ending: signal.Signals) -> None:
    with going(tmp_path) as run, tapping("tap", run, "w.*", "--limit", "10kB") as tap:
        lines_of(tap, 10)
        tap.send_signal(ending)
        before = sent(run)
        wait_until(lambda: sent(run) > before + 200, "the writer does not go on")
        if ending is signal.SIGINT:
            assert end_of(tap)[2] == 130


def test_the_run_goes_on_whatever_a_tap_reports(tmp_path: Path) -> None:
    program = tmp_path / "liar.py"
    program.write_text(
        f"{FORGE_REPORT}\nimport xmml\n"
        "with xmml.Instance() as me:\n    me.take('objects')\n    forge_report()\n    me.take('objects')\n"
    )
    with going(tmp_path) as run, tapping("tap", run, "w.*", "--", "python3", program) as tap:
        _, errors, _ = end_of(tap)
        wait_until(lambda: '"not understood"' in (run / "events.jsonl").read_text(), f"nothing was said: {errors}")
        before = sent(run)
        wait_until(lambda: sent(run) > before, "the writer does not go on")


def sent(run: Path) -> int:
    return int(json.loads(do("xmml", "status", run, "--json").stdout)["instances"]["w"]["messages_sent"])


def test_a_tap_stands_in_status_and_report_and_is_no_instance(tmp_path: Path) -> None:
    with going(tmp_path) as run, tapping("tap", run, "w.levels") as tap:
        lines_of(tap, 1)
        status = json.loads(do("xmml", "status", run, "--json").stdout)
    assert set(status["instances"]) == {"w", "r"}
    assert "w.levels -> tap-1.objects" in [each["name"] for each in status["conduits"]]
    after = do("xmml", "status", run)
    assert (after.returncode, "tap-1.objects" in do("xmml", "methods", run).stdout) == (0, True), after.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["w.level"], 'no out port is called "w.level"; did you mean "w.levels"'),
        (["r.levels"], 'no out port is called "r.levels"'),
        (["w.fields", "--select", "stepp = 1"], "the selector cannot be read"),
        (["w.fields", "--limit", "3 s"], "--limit"),
        (["w.fields", "--", "no-such-program"], "no-such-program cannot be started"),
    ],
)
def test_what_cannot_be_shown_is_said(tmp_path: Path, words: list[str], told: str) -> None:
    with going(tmp_path) as run:
        refused = do("xmml", "tap", run, *words)
    assert refused.returncode == 2
    assert told in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_run_that_is_over_has_nothing_to_show(tmp_path: Path) -> None:
    with going(tmp_path) as run:
        pass
    refused = do("xmml", "tap", run, "w.levels")
    assert refused.returncode == 2
    assert "does not go on" in refused.stderr
