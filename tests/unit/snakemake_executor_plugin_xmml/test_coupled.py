"""Which commands are coupled runs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snakemake_executor_plugin_xmml.coupled import CoupledRun, coupled_run


def arguments(command: str) -> list[str]:
    run = coupled_run(command)
    assert run is not None
    return list(run.arguments)


def test_a_command_of_xmml_run_alone_is_a_coupled_run() -> None:
    assert arguments("xmml-run model.xmml -p head.height='1 m'") == ["model.xmml", "-p", "head.height=1 m"]


def test_lines_may_be_continued() -> None:
    assert arguments("\n  xmml-run model.xmml \\\n    -q\n") == ["model.xmml", "-q"]


def test_brackets_are_indices_of_copies() -> None:
    assert arguments("xmml-run model.xmml -p c[3].x=1") == ["model.xmml", "-p", "c[3].x=1"]


@pytest.mark.parametrize(
    ("redirection", "redirected"),
    [
        ("> out", {"stdout": Path("out")}),
        ("2> err", {"stderr": Path("err")}),
        ("> out 2> err", {"stdout": Path("out"), "stderr": Path("err")}),
        ("> log 2>&1", {"stdout": Path("log"), "stderr": Path("log")}),
        ("&> log", {"stdout": Path("log"), "stderr": Path("log")}),
    ],
)
def test_redirections_to_files_are_understood(redirection: str, redirected: dict[str, Path]) -> None:
    assert coupled_run(f"xmml-run model.xmml {redirection}") == CoupledRun(("model.xmml",), redirected)


@pytest.mark.parametrize(
    "command",
    [
        None,
        "",
        "make all",
        "xmml-run model.xmml | tee log",
        "xmml-run model.xmml && touch done",
        "cd there; xmml-run model.xmml",
        "xmml-run a.xmml\nxmml-run b.xmml",
        "xmml-run $MODEL",
        'xmml-run "$(ls)"',
        "xmml-run *.xmml",
        "xmml-run model.xmml 2>&1 > log",
        "xmml-run model.xmml >> log",
        "xmml-run model.xmml < input",
        "xmml-run model.xmml >",
        "xmml-run 'model.xmml",
    ],
)
def test_what_needs_a_shell_is_not(command: str | None) -> None:
    assert coupled_run(command) is None


def test_what_is_quoted_needs_no_shell() -> None:
    assert arguments("xmml-run model.xmml -p 'a.b=$x * 2'") == ["model.xmml", "-p", "a.b=$x * 2"]


@given(st.text(max_size=60))
def test_any_text_is_either_or(text: str) -> None:
    run = coupled_run(f"xmml-run {text}")
    assert run is None or all(isinstance(each, str) for each in run.arguments)


def test_a_setting_fills_in_what_the_rule_leaves_open() -> None:
    run = CoupledRun(("model.xmml",)).with_default("--sites", "sites.toml")
    assert run.arguments == ("model.xmml", "--sites", "sites.toml")


@pytest.mark.parametrize("given", [("--sites", "own.toml"), ("--sites=own.toml",)])
def test_what_the_rule_says_itself_goes_before_settings(given: tuple[str, ...]) -> None:
    run = CoupledRun(("model.xmml", *given))
    assert run.with_default("--sites", "sites.toml") == run
    assert run.value_of("--sites") == "own.toml"


def test_a_setting_that_is_not_made_adds_nothing() -> None:
    run = CoupledRun(("model.xmml",))
    assert run.with_default("--sites", None) == run


def test_options_of_the_rule_stand_behind_those_for_all() -> None:
    run = CoupledRun(("model.xmml", "--hosts", "1")).with_options("--hosts 2 -p 'a.b=1 m'")
    assert run.arguments == ("--hosts", "2", "-p", "a.b=1 m", "model.xmml", "--hosts", "1")
