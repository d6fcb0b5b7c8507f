"""What programs write and sites say cannot command a terminal."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xmml_run.display import NoDisplay, PlainLines
from xmml_run.terminal_text import guarded_terminal, printable, shown, unguarded

TITLE = "\x1b]0;owned\a"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("10 %\r20 %\r30 %", "30 %"),
        ("done\r\nnext\r\n", "done\nnext\n"),
        (TITLE, "\ufffd]0;owned\ufffd"),
        ("\x1b[2J\x9b2J", "\ufffd[2J\ufffd2J"),
        ("\u202etxt.exe", "\ufffdtxt.exe"),
        ("12\xa0000 \u6c34\u3000\U0001f469\u200d\U0001f52c", "12\xa0000 \u6c34\u3000\U0001f469\u200d\U0001f52c"),
    ],
)
def test_lines_tabs_and_colours_stay_and_the_rest_commands_nothing(written: str, expected: str) -> None:
    assert shown(written) == expected


@given(st.text())
def test_whatever_is_written_only_colours_are_commands(text: str) -> None:
    for piece in shown(text).replace("\n", "").replace("\t", "").split("\x1b")[1:]:
        assert piece[0] == "["
        assert piece.partition("m")[0][1:].replace(";", "").isdecimal() or piece[1] == "m"
    assert not set(printable(text)) & set(map(chr, (*range(32), *range(127, 160))))


def test_a_terminal_is_not_commanded_by_lines_of_instances_or_notices() -> None:
    terminal = Terminal()
    PlainLines(["a"], terminal, terminal, colour=False).output("a", "stdout", TITLE)
    NoDisplay(terminal).notice(TITLE, None)
    assert "\x1b" not in terminal.getvalue()


def test_a_file_gets_what_was_written_and_so_does_a_terminal_that_is_to() -> None:
    file, terminal = io.StringIO(), Terminal()
    PlainLines(["a"], file, file, colour=False).output("a", "stdout", TITLE)
    PlainLines(["a"], terminal, terminal, colour=False, is_raw=True).output("a", "stdout", TITLE)
    assert file.getvalue() == terminal.getvalue() == f"a | {TITLE}\n"


def test_errors_and_reports_command_no_terminal_whoever_has_chosen_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [Terminal(), Terminal()]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    with guarded_terminal():
        for stream in (sys.stdout, sys.stderr):
            print(TITLE, "\x1b[31mred\x1b[0m", file=stream)
    assert [stream.getvalue() for stream in streams] == ["\ufffd]0;owned\ufffd \x1b[31mred\x1b[0m\n"] * 2
    assert sys.stdout is streams[0]


def test_a_file_and_what_commands_the_terminal_itself_are_written_to_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stdout", file)
    monkeypatch.setattr(sys, "stderr", terminal)
    with guarded_terminal():
        print(TITLE)
        print(TITLE, file=unguarded(sys.stderr))
    assert file.getvalue() == terminal.getvalue() == f"{TITLE}\n"
