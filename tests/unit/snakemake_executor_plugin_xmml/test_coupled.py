"""Which commands are coupled runs."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snakemake_executor_plugin_xmml.coupled import CoupledRun, NeedsShell, coupled_run
from snakemake_executor_plugin_xmml.local_process import OutputFile


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
        ("> out", {"stdout": "out"}),
        (">out", {"stdout": "out"}),
        ("2> err", {"stderr": "err"}),
        ("> out 2> err", {"stdout": "out", "stderr": "err"}),
        ("> log 2>&1", {"stdout": "log", "stderr": "log"}),
        ("2>&1 > out", {"stdout": "out"}),
        ("2>&1", {}),
        ("&> log", {"stdout": "log", "stderr": "log"}),
        ("| tee log", {"stdout": "log"}),
        ("2>&1 | tee log", {"stdout": "log", "stderr": "log"}),
        ("|& tee log", {"stdout": "log", "stderr": "log"}),
        ("2> err | tee log", {"stdout": "log", "stderr": "err"}),
    ],
)
def test_redirections_to_files_are_understood(redirection: str, redirected: dict[str, str]) -> None:
    files = {stream: OutputFile(Path(name)) for stream, name in redirected.items()}
    assert coupled_run(f"xmml-run model.xmml {redirection}") == CoupledRun(("model.xmml",), files)


@pytest.mark.parametrize(
    ("redirection", "streams"),
    [
        (">> log", ("stdout",)),
        ("2>> log", ("stderr",)),
        ("&>> log", ("stdout", "stderr")),
        (">> log 2>&1", ("stdout", "stderr")),
        ("| tee -a log", ("stdout",)),
    ],
)
def test_what_is_appended_to_a_file_stands_behind_what_it_holds(redirection: str, streams: tuple[str, ...]) -> None:
    file = OutputFile(Path("log"), appends=True)
    assert coupled_run(f"xmml-run model.xmml {redirection}") == CoupledRun(
        ("model.xmml",), dict.fromkeys(streams, file)
    )


def test_a_number_before_a_space_is_an_argument_and_no_redirection_of_a_stream() -> None:
    run = coupled_run("xmml-run model.xmml --hosts 2 > log")
    assert run == CoupledRun(("model.xmml", "--hosts", "2"), {"stdout": OutputFile(Path("log"))})


@pytest.mark.parametrize(
    "command",
    [
        "set -e; xmml-run model.xmml",
        "set -euo pipefail; xmml-run model.xmml",
        "set -e\nset -x && xmml-run model.xmml",
        "xmml-run model.xmml;",
        "xmml-run model.xmml  # as in the paper: it's $5",
        "# don't wait\nxmml-run model.xmml\n",
    ],
)
def test_options_of_the_shell_and_comments_change_nothing(command: str) -> None:
    assert coupled_run(command) == CoupledRun(("model.xmml",))


@pytest.mark.parametrize(
    "command",
    [
        None,
        "",
        "make all",
        "which xmml-run > where",
        "echo 'xmml-run model.xmml' > todo; command -v xmml-run",
        "cat xmml-run.log",
        "python plot.py  # what xmml-run left",
    ],
)
def test_a_command_that_does_not_run_it_is_an_ordinary_one(command: str | None) -> None:
    assert coupled_run(command) is None


@pytest.mark.parametrize(
    ("command", "because"),
    [
        ("xmml-run model.xmml | grep -v step", "| grep -v step"),
        ("xmml-run model.xmml | tee log | tail -1 > last", "| tee log | tail"),
        ("xmml-run model.xmml > a | tee b", "| tee b"),
        ("xmml-run model.xmml && touch done", "&& touch done"),
        ("xmml-run model.xmml || true", "|| true"),
        ("xmml-run model.xmml; touch done", "touch done"),
        ("xmml-run a.xmml\nxmml-run b.xmml", "xmml-run b.xmml"),
        ("xmml-run model.xmml &", "&"),
        ("cd there; xmml-run model.xmml", "cd"),
        ("set -e; mkdir -p out; xmml-run model.xmml", "mkdir"),
        ("set -- a; xmml-run model.xmml", "set"),
        ("time xmml-run model.xmml", "time"),
        ("OMP_NUM_THREADS=2 xmml-run model.xmml", "OMP_NUM_THREADS=2"),
        ("/opt/xmml/bin/xmml-run model.xmml", "/opt/xmml/bin/xmml-run"),
        ("bash -c 'xmml-run model.xmml'", "bash"),
        ("if [ -e model.xmml ]; then xmml-run model.xmml; fi", "if"),
        ("(xmml-run model.xmml)", "("),
        ("echo begins; xmml-run model.xmml", "echo"),
        ("xmml-run $MODEL", "$MODEL"),
        ("xmml-run case-$MODEL.xmml", "case-$MODEL.xmml"),
        ('xmml-run "$(ls)"', '"$(ls)"'),
        ("xmml-run *.xmml", "*.xmml"),
        ("xmml-run ~/model.xmml", "~/model.xmml"),
        ("xmml-run model.xmml < input", "< input"),
        ("xmml-run model.xmml 1>&2", "1>& 2"),
        ("xmml-run model.xmml >", ">"),
        ("xmml-run 'model.xmml", "'model.xmml"),
    ],
)
def test_what_needs_a_shell_is_refused_and_named(command: str, because: str) -> None:
    with pytest.raises(NeedsShell) as refusal:
        coupled_run(command)
    assert f"cannot be a coupled run because of: {because}" in str(refusal.value)


def test_a_refusal_says_what_to_write() -> None:
    with pytest.raises(NeedsShell) as refusal:
        coupled_run("xmml-run model.xmml | grep -v step")
    for word in ("> FILE", "| tee FILE", "rules of their own", "{params.NAME}", "localrules"):
        assert word in str(refusal.value)


def test_what_is_quoted_needs_no_shell() -> None:
    assert arguments("xmml-run model.xmml -p 'a.b=$x * 2'") == ["model.xmml", "-p", "a.b=$x * 2"]
    assert arguments(r'xmml-run model.xmml -p "a.b=\"\$x\"" c\*') == ["model.xmml", "-p", 'a.b="$x"', "c*"]


@given(st.text(max_size=60) | st.text("xmml-run ;&|<>2$\"'\\\n#~{tee}", max_size=60))
def test_any_text_is_taken_apart_or_refused(text: str) -> None:
    try:
        run = coupled_run(f"xmml-run {text}")
    except NeedsShell:
        return
    assert run is not None
    assert all(isinstance(each, str) for each in run.arguments)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)))
def test_words_that_are_quoted_arrive_as_they_are(words: list[str]) -> None:
    assert arguments(f"xmml-run {shlex.join(words)}") == words


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
    run = CoupledRun(("model.xmml", "--hosts", "1")).with_options(["--hosts", "2", "-p", "a.b=1 m"])
    assert run.arguments == ("--hosts", "2", "-p", "a.b=1 m", "model.xmml", "--hosts", "1")
