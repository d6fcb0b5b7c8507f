"""What programs write and sites say cannot command a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xmml_run.display import NoDisplay, PlainLines
from xmml_run.terminal_text import printable, shown

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
