"""The pages that lead into pools, done as printed: the tutorial and the recipes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import printed
import pytest
from commands import XMML_RUN, do
from model_runs import environment, run_document
from waiting import RUN_LIMIT_S, wait_until

FIELDS = r"(?<=\| )\d+(?= fields)"
#: What the commands of a page print that differs from run to run.
FOLLOWED = {
    "pool-tutorial.md": [FIELDS],
    "pool-work-queue.md": [],
    "pool-archive.md": [],
    "pool-late-readers.md": [FIELDS, r"\d+(?= of its objects)", r"(?<=exchanged )\d+ messages \([\d.]+ MB\)"],
    "pool-groups.md": [],
    "latest.md": [r"(?<=at )\d+ s: \d+", r"\d+(?= of 200 messages)"],
}
WORKFLOWS = printed.DOCS.parent / "workflows"


def text_of(page: str) -> str:
    return (printed.DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", FOLLOWED)
def test_commands_print_what_the_page_shows(tmp_path: Path, page: str) -> None:
    assert list(printed.deviations(page, tmp_path, FOLLOWED[page])) == []


def words(picture: Path) -> list[str]:
    """Return the words of a picture."""
    return sorted(map(unescape, re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("page", printed.WITH_PICTURES)
def test_pictures_show_the_model_as_the_page_has_it_there(tmp_path: Path, page: str) -> None:
    shown = []
    for picture in printed.pictures(page, tmp_path):
        do("xmml", "graph", "model.xmml", "-o", "drawn.svg", cwd=tmp_path, check=True)
        assert words(tmp_path / "drawn.svg") == words(picture), "draw them again: make pictures"
        shown.append(picture)
    assert shown


def mistaken(folder: Path, page: str, file: str, old: str, new: str) -> Path:
    """Write the files of a page into a folder, one of them with a mistake, and return the path of that one."""
    printed.write(page, folder)
    return changed(folder / file, old, new)


def changed(file: Path, old: str, new: str) -> Path:
    """Replace a text that stands once in a file; return the file."""
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return file


def without_numbers(text: str) -> str:
    """The text with N for each number, and without the CPU to which an instance may be bound."""
    text = re.sub(r", on CPUs? \d+(?:[,-]\d+)*", "", text)
    return re.sub(r"\d[\d.,]*(?<=\d)", "N", text)


def assert_shown(page: str, said: str, begins: str, folder: Path) -> None:
    """The page shows the line that begins so, whatever its numbers; on the page its folder is one of Ada."""
    (line,) = [line.partition("; see ")[0] for line in said.splitlines() if line.startswith(begins)]
    assert without_numbers(line.replace(str(folder), "/home/ada/pool")) in without_numbers(text_of(page))


@pytest.mark.parametrize(
    ("page", "file", "old", "new", "code"),
    [
        ("pool-work-queue.md", "model.xmml", '"queue"', '"queue" run:select="case % $count = $index"', "error[E32]"),
        ("pool-archive.md", "later.xmml", "step > 0", "step > 1", "warning[W14]"),
        ("pool-archive.md", "later.xmml", "fields.archive", "../first/fields.archive", "error[E30]"),
    ],
    ids=["a fixed distribution and a queue", "an archive that is not there", "an archive that lies outside"],
)
def test_a_check_tells_a_mistake_as_the_page_shows(
    tmp_path: Path, page: str, file: str, old: str, new: str, code: str
) -> None:
    model = mistaken(tmp_path, page, file, old, new)
    told = do("xmml", "check", model.name, cwd=tmp_path).stdout
    assert_shown(page, re.sub(r"^\S+:\d+:\d+: ", "", told, flags=re.MULTILINE), code, tmp_path)


def test_the_check_tells_a_misspelt_attribute_as_the_tutorial_shows(tmp_path: Path) -> None:
    for picture in printed.pictures("pool-tutorial.md", tmp_path):
        if picture.name == "plate-pool.svg":
            break
    model = tmp_path / "model.xmml"
    model.write_text(model.read_text().replace("name = 'temperature'", "nam = 'temperature'"))
    told = do("xmml", "check", model.name, cwd=tmp_path).stdout
    assert f"```\n{told}```" in text_of("pool-tutorial.md")


@pytest.mark.parametrize(
    ("page", "file", "old", "new", "begins", "status"),
    [
        (
            "pool-work-queue.md",
            "worker.py",
            "            me.put(",
            '            assert each["case"] != 17\n            me.put(',
            "xmml-run: worker[",
            4,
        ),
        ("pool-late-readers.md", "viewer.py", "time.sleep(0.1)", "break", "warning: solver: ", 0),
        ("pool-late-readers.md", "viewer.py", "import time\n", "import nosuch\n", "xmml-run: viewer failed", 4),
        (
            "pool-groups.md",
            "flow.py",
            '                state.put(v, name="v")',
            '                if t == 1:\n                    raise RuntimeError("diverged")',
            "xmml-run: flow failed",
            4,
        ),
        (
            "pool-groups.md",
            "flow.py",
            'state.put(v, name="v")',
            'me.out("field").group(step=0).__enter__()',
            "xmml-run: flow failed",
            4,
        ),
        (
            "pool-groups.md",
            "flow.py",
            '                state.put(p, name="p")',
            '            me.put("field", v, step=int(t), name="v")',
            "xmml-run: energy failed",
            4,
        ),
    ],
    ids=[
        "a worker fails",
        "a reader leaves early",
        "a reader fails before it joins",
        "a writer fails within a group",
        "a group is begun within a group",
        "an object has no group",
    ],
)
def test_a_run_tells_a_mistake_as_the_page_shows(
    tmp_path: Path, page: str, file: str, old: str, new: str, begins: str, status: int
) -> None:
    mistaken(tmp_path, page, file, old, new)
    run = run_document(tmp_path / "model.xmml", status=status)
    assert_shown(page, run.stderr, begins, tmp_path)


def test_a_take_that_has_no_more_time_is_told_as_the_page_shows(tmp_path: Path) -> None:
    page = "pool-late-readers.md"
    waiting = 'enumerate([me.take("field", timeout=0.001)] * 2, 1)'
    mistaken(tmp_path, page, "viewer.py", 'enumerate(me.objects("field"), 1)', waiting)
    changed(tmp_path / "solver.py", "import numpy as np\n", "import time\ntime.sleep(1000)\nimport numpy as np\n")
    run = run_document(tmp_path / "model.xmml", status=4)
    assert_shown(page, run.stderr, "xmml-run: viewer failed", tmp_path)


def test_without_a_queue_each_worker_does_all_cases_as_the_page_says(tmp_path: Path) -> None:
    run = run_document(mistaken(tmp_path, "pool-work-queue.md", "model.xmml", ' run:share="queue"', ""))
    assert run.output("best").startswith("case 10 of 90 ")
    assert "(`case 10 of 90`)" in text_of("pool-work-queue.md")


@pytest.mark.parametrize("says_the_end", [False, True])
def test_a_program_that_hands_out_cases_and_collects_results_says_the_end_as_the_page_shows(
    tmp_path: Path, *, says_the_end: bool
) -> None:
    page = "pool-work-queue.md"
    model = mistaken(tmp_path, page, "model.xmml", 'to="best.results"', 'to="cases.results"')
    port = '<out id="cases" datatype="case"/> </ports>'
    model.write_text(model.read_text().replace(port, f'<in id="results" datatype="case"/> {port}'))
    with (tmp_path / "cases.py").open("a") as program:
        if says_the_end:
            assert '`me.end("cases")`' in text_of(page)
            program.write('        me.end("cases")\n')
        program.write('        print(len(list(me.objects("results"))))\n')
    (tmp_path / "best.py").write_text("import xmml\n\nxmml.Instance().leave()\n")
    if says_the_end:
        # Slow enough that those who wait say so.
        worker = tmp_path / "worker.py"
        worker.write_text(
            worker.read_text().replace("            me.put", "            time.sleep(0.3)\n            me.put")
        )
        worker.write_text(f"import time\n{worker.read_text()}")
        assert run_document(model).output("cases") == "30\n"
    else:
        assert_shown(page, run_document(model, status=6).stderr, "xmml-run: deadlock", tmp_path)


def test_a_reader_that_leaves_after_its_writer_is_told_as_the_page_shows(tmp_path: Path) -> None:
    page = "pool-late-readers.md"
    model = mistaken(tmp_path, page, "model.xmml", 'total="50 s"', 'total="10 s"')
    program = tmp_path / "viewer.py"
    wait = """\
        events = pathlib.Path("../../../events.jsonl")
        while not any('"left"' in line for line in events.read_text().splitlines()):
            time.sleep(0.01)
"""
    text = (
        program.read_text()
        .replace("        for number", f"{wait}        for number")
        .replace("time.sleep(0.1)", "break")
    )
    program.write_text(f"import pathlib\n{text}")
    run = run_document(model)
    assert_shown(page, run.stderr, "warning: viewer", tmp_path)


def test_the_status_of_a_run_whose_reader_hangs_shows_who_waits_as_the_page_does(tmp_path: Path) -> None:
    page = "pool-late-readers.md"
    mistaken(tmp_path, page, "viewer.py", "import xmml\n", "time.sleep(1000)\nimport xmml\n")

    def status_of_a_wait() -> str:
        said = do("xmml", "status", "run", cwd=tmp_path).stdout
        return said if "waits for solver.field" in said else ""

    with subprocess.Popen([XMML_RUN, "model.xmml", "-o", "run"], cwd=tmp_path, env=environment()) as run:
        try:
            said = wait_until(status_of_a_wait, "the solver does not wait", RUN_LIMIT_S)
        finally:
            run.send_signal(signal.SIGINT)
    for instance in ("  solver  ", "  viewer  "):
        assert_shown(page, said, instance, tmp_path)


def test_a_limit_that_would_stop_a_run_grows_as_the_page_shows(tmp_path: Path) -> None:
    page = "pool-late-readers.md"
    coupled = '<coupling from="solver.done" to="viewer.done"/></topology>'
    model = mistaken(tmp_path, page, "model.xmml", "</topology>", coupled)
    text = model.read_text().replace('<out id="field"', '<out id="done" operator="Of"/> <out id="field"')
    text = text.replace('<in id="field"', '<in id="done" operator="finit"/> <in id="field"').replace("50 s", "20 s")
    model.write_text(text)
    with (tmp_path / "solver.py").open("a") as program:
        program.write('        me.send("done", 1)\n')
    viewer = tmp_path / "viewer.py"
    viewer.write_text(
        viewer.read_text().replace("        for number", '        me.receive("done")\n        for number')
    )
    run = run_document(model)
    assert_shown(page, run.stderr, "xmml-run: solver.field", tmp_path)


def test_an_archive_whose_source_selects_what_is_not_there_fails_as_the_page_shows(tmp_path: Path) -> None:
    page = "pool-archive.md"
    later = mistaken(tmp_path, page, "later.xmml", "step > 0", "stap > 0")
    run_document(tmp_path / "model.xmml", "--result", "disk/fields.archive=fields.archive")
    run = run_document(later, folder=tmp_path / "later", status=4)
    assert_shown(page, run.stderr, "xmml-run: kept failed", tmp_path)


@pytest.mark.parametrize(
    ("language", "file"), [("xml", "model.xmml"), ("cpp", "in_transit.cpp"), ("python", "states.py")]
)
def test_what_the_page_copies_from_a_file_of_the_workflow_stands_there_in_this_order(language: str, file: str) -> None:
    there = [line.strip() for line in (WORKFLOWS / "in-transit" / file).read_text().splitlines()]
    parts = [part for block in printed.blocks("pool-in-transit.md", language) for part in block.split("...\n")]
    assert parts
    for part in parts:
        shown = [line.strip() for line in part.splitlines()]
        assert shown in [there[first : first + len(shown)] for first in range(len(there))], part


def test_the_commands_of_the_page_about_taps_show_and_keep_what_passes_in_the_canal(tmp_path: Path) -> None:
    page = "taps.md"
    shutil.copytree(WORKFLOWS / "canal", tmp_path / "canal")
    model = changed(tmp_path / "canal/model.xmml", 'delta="1 s" total="1 hr"', 'delta="1 s" total="1000 hr"')
    (watch,) = printed.blocks(page, "python")
    (tmp_path / "watch.py").write_text(watch)
    commands = [shlex.split(line, comments=True) for line in printed.blocks(page, "sh")[0].splitlines()]
    assert [command[1] for command in commands] == ["tap", "tap", "tap", "record"]

    def has_begun() -> bool:
        events = tmp_path / "run" / "events.jsonl"
        return events.exists() and '"joined"' in events.read_text()

    def kept() -> list[str]:
        return do("xmml", "pool", "ls", "head.archive", "--json", cwd=tmp_path).stdout.splitlines()

    settings = {"cwd": tmp_path, "env": {**environment(), "PYTHONUNBUFFERED": "1"}}
    with subprocess.Popen([XMML_RUN, str(model), "-o", "run"], **settings) as run:
        try:
            wait_until(has_begun, "the canal has not begun: its programs are built first", RUN_LIMIT_S)
            first_lines = [first_line_of([*command[:2], "run", *command[3:]], settings) for command in commands[:3]]
            with subprocess.Popen([*commands[3][:2], "run", *commands[3][3:]], **settings) as record:
                wait_until(kept, "nothing is kept")
                record.send_signal(signal.SIGINT)
        finally:
            run.send_signal(signal.SIGINT)
    line, of_json, of_program = first_lines
    assert "; head.right_out, t = " in line
    assert {"sys.t", "sys.seq", "sys.instance", "sys.shape"} <= json.loads(of_json).keys()
    assert re.fullmatch(r"[\d.]+ [-\d.]+", of_program)
    assert record.returncode == 130
    assert {each["sys.instance"] for each in map(json.loads, kept())} == {"head"}


def first_line_of(words: list[str], settings: Mapping[str, Any]) -> str:
    """Return the first line that a command prints, and end it."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **settings) as command:
        try:
            assert command.stdout is not None
            return command.stdout.readline().rstrip()
        finally:
            command.kill()
