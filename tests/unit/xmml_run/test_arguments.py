"""The options of the commands."""

from __future__ import annotations

import pytest
from xmml_run.arguments import run_parser
from xmml_run.run_command import run_model
from xmml_run.xmml_command import xmml_command, xmml_parser


def test_overrides_are_read_as_pairs() -> None:
    options = run_parser().parse_args(["m.xmml", "-p", "c.x=1 km", "-p", "c[3].x=a=b"])
    assert dict(options.overrides) == {"c.x": "1 km", "c[3].x": "a=b"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["m.xmml", "-p", "x=1"],
        ["m.xmml", "-p", "c.x"],
        ["m.xmml", "--listen", "4711"],
        ["m.xmml", "--listen", "host:99999"],
        ["m.xmml", "--job", "long"],
        ["m.xmml", "--job", "partition="],
        ["m.xmml", "--debug", "a='gdb"],
        ["m.xmml", "-q", "-v"],
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        run_parser().parse_args(arguments)
    assert raised.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("xmml-run: ")
    assert told.endswith("(see xmml-run --help)\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["chek", "m.xmml"], 'xmml: argument COMMAND: "chek" is not possible; did you mean "check" or "schema"?'),
        (["log", "runs/m"], 'xmml: argument COMMAND: "log" is not possible; did you mean "logs"?'),
        (["check", "--explian", "E05"], 'xmml check: there is no option --explian; did you mean "--explain"?'),
        (["check", "--fromat=json", "m.xmml"], 'xmml check: there is no option --fromat; did you mean "--format"?'),
        (["check", "--qqqqqqqq"], "xmml check: there is no option --qqqqqqqq"),
        (["check", "--format", "jsn"], 'xmml check: argument --format: "jsn" is not possible; did you mean "json"?'),
        (["plan", "m.xmml", "n.xmml"], "xmml plan: nothing is expected here: n.xmml"),
    ],
)
def test_a_misspelt_command_option_or_value_is_told_with_what_was_probably_meant(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        xmml_command(arguments)
    assert raised.value.code == 2
    assert capsys.readouterr().err.startswith(f"{told} (see xmml")


@pytest.mark.parametrize("command", ["ssh 'x", " "])
def test_a_command_that_leads_to_no_host_is_wrong_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        xmml_parser().parse_args(["cp", "--ssh", command, "a", "b:"])
    assert raised.value.code == 2
    assert "--ssh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("a", ("gdb", "-q", "--args")),
        ("a=gdb", ("gdb", "-q", "--args")),
        ("a=valgrind --leak-check=full", ("valgrind", "--leak-check=full")),
    ],
)
def test_debug_names_an_instance_and_a_tool(text: str, tool: tuple[str, ...]) -> None:
    assert run_parser().parse_args(["m.xmml", "--debug", text]).debug == [("a", tool)]


def test_a_run_without_a_model_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        run_model([])
    assert raised.value.code == 2
    assert "one of the arguments MODEL --resume is required" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "plan", "new", "status", "logs", "report"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        xmml_parser(command).parse_args([command, "--help"])
    assert raised.value.code == 0
    assert len(capsys.readouterr().out) > 100
