"""Runs on a terminal: the live display, and instances under a debugger."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import XMML_RUN
from faulty_models import RECEIVE, SEND, WAIT, Models
from gates import awaits
from needs import needs
from processes import children, is_running
from terminals import Terminal


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    """Terminals that are closed after the test."""
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def start(terminals: list[Terminal], model: Path, *options: str) -> Terminal:
    terminals.append(Terminal(XMML_RUN, str(model), "-o", str(model.parent / "run"), *options))
    return terminals[-1]


def test_a_terminal_shows_how_far_each_instance_is(models: Models, terminals: list[Terminal]) -> None:
    go_on = models.folder / "go-on"
    held = SEND.replace('me.send("o", t)', f'me.send("o", t)\n            {awaits(go_on)}')
    terminal = start(terminals, models.write({"a": held, "b": RECEIVE}, steps=5))
    terminal.expect(r"of 5 s")
    go_on.touch()
    assert terminal.end() == 0
    assert "model time" in terminal.shown
    assert re.search(r"b\S* \| 4\.0", terminal.shown)
    assert "exchanged 5 messages" in terminal.shown


def test_no_progress_shows_plain_lines_on_a_terminal(models: Models, terminals: list[Terminal]) -> None:
    terminal = start(terminals, models.write({"a": SEND, "b": RECEIVE}), "--no-progress")
    assert terminal.end() == 0
    assert "model time" not in terminal.shown


def test_ctrl_c_at_the_terminal_reaches_the_run_not_the_instances(models: Models, terminals: list[Terminal]) -> None:
    program = "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('interrupted', flush=True))\n"
    terminal = start(terminals, models.write({"a": program + "print('ready', flush=True)\n" + WAIT, "b": WAIT}))
    terminal.expect("ready")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert not re.search(r"a\S* \| interrupted", terminal.shown)


@needs("gdb")
def test_an_instance_under_gdb_gets_the_terminal(models: Models, terminals: list[Terminal]) -> None:
    terminal = start(terminals, models.write({"a": SEND, "b": RECEIVE}), "--debug", "a=gdb")
    terminal.expect(r"\(gdb\)")
    terminal.type("set confirm off\nrun\n")
    terminal.expect(r"exited normally")
    terminal.type("quit\n")
    assert terminal.end() == 0
    assert (models.folder / "run/instances/b/stdout").read_text() == "0.0\n1.0\n2.0\n"


@needs("gdb")
def test_ctrl_c_goes_to_the_debugger(models: Models, terminals: list[Terminal]) -> None:
    terminal = start(
        terminals, models.write({"a": "print('ready', flush=True)\n" + WAIT, "b": WAIT}), "--debug", "a=gdb"
    )
    terminal.expect(r"\(gdb\)")
    terminal.type("set confirm off\nrun\n")
    terminal.expect("ready")
    terminal.type("\x03")
    terminal.expect("SIGINT")
    terminal.type("kill\nquit\n")
    assert terminal.end() == 4


def test_a_tool_without_a_terminal_just_wraps_the_program(models: Models) -> None:
    ended = models.run(models.write({"a": SEND, "b": RECEIVE}), "--debug", "a=env WRAPPED=yes")
    assert ended.status == 0, ended.err
    assert "WRAPPED" not in (ended.folder / "plan.json").read_text()


def test_gdb_without_a_terminal_is_wrong_usage(models: Models) -> None:
    models.run(models.write({"a": SEND, "b": RECEIVE}), "--debug", "a=gdb").check(2, "needs a terminal")


def test_closing_the_terminal_ends_the_run(models: Models, terminals: list[Terminal]) -> None:
    terminal = start(terminals, models.write({"a": "print('ready', flush=True)\n" + WAIT, "b": WAIT}))
    terminal.expect("ready")
    started = children(terminal.pid)
    os.close(terminal.descriptor)
    terminal.descriptor = os.open(os.devnull, os.O_RDONLY)
    _, status = os.waitpid(terminal.pid, 0)
    terminal.pid = 0
    assert os.waitstatus_to_exitcode(status) == 130
    assert not any(map(is_running, started))
