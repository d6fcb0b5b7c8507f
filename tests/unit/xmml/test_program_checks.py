"""What is missing beside a document: programs, scripts, modules, interpreters, files of sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmml.problems import Problem

TOPOLOGY = '<instance id="a" submodel="A"/>'


def submodel(implementation: str, attributes: str = "") -> str:
    return f'<submodel id="A" {attributes}><timescale delta="1 s" total="1 s"/><ports/>{implementation}</submodel>'


@pytest.fixture
def told(check_parts, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Check a model of one submodel beside some files; return what is told."""
    (tmp_path / "script.py").write_text("class Model:\n    pass\n\n\ndef run():\n    pass\n")
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "no_program").write_text("")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from .inner import *\n")

    def run(implementation: str, attributes: str = "") -> tuple[Problem, ...]:
        return tuple(check_parts(submodel(implementation, attributes), TOPOLOGY).problems)

    return run


@pytest.mark.parametrize(
    ("implementation", "attributes"),
    [
        ('<implementation path="program"/>', ""),
        ('<implementation language="python" path="script.py"/>', ""),
        ('<implementation path="script.py"><interpreter path="python3"/></implementation>', ""),
        ('<implementation path="made/later" run:build="make"/>', ""),
        ('<implementation path="program" run:stage-in="script.py data/* p?ogram"/>', ""),
        ('<implementation path="made/later" run:build="make" run:stage-in="made/grid.nc"/>', ""),
        ("", 'class="script:Model"'),
        ("", 'class="package:Anything"'),
        ("", 'class="json:JSONDecoder"'),
        ("", 'class="org.example.Model"'),
        ("", ""),
    ],
)
def test_nothing_is_told_of_what_is_there_or_will_be_made(told, implementation: str, attributes: str) -> None:  # type: ignore[no-untyped-def]
    assert told(implementation, attributes) == ()


@pytest.mark.parametrize(
    ("implementation", "attributes", "text"),
    [
        ('<implementation path="progam"/>', "", 'did you mean "program"'),
        ('<implementation path="bin/program"/>', "", 'no folder "bin" beside the document'),
        ('<implementation path="data"/>', "", "is a folder"),
        ('<implementation path="data/no_program"/>', "", "chmod +x"),
        ('<implementation path="script.py"><interpreter path="pyhton"/></implementation>', "", "not an executable"),
        ('<implementation path="script.py"><interpreter/></implementation>', "", "neither path nor name"),
        ('<implementation path="program" run:stage-in="scirpt.py"/>', "", 'did you mean "script.py"'),
        ('<implementation path="program" run:stage-in="data/*.nc"/>', "", 'no file matches run:stage-in "data/*.nc"'),
        ('<implementation run:stage-in="grid.nc"/>', 'class="script:Model"', "correct its path"),
        ("", 'class="scirpt:Model"', 'did you mean "script"'),
        ("", 'class="script:Modle"', 'did you mean "Model"'),
        ("", 'class="a-b:Model"', "no name of a Python module"),
    ],
)
def test_what_is_missing_is_a_warning_with_a_suggestion(  # type: ignore[no-untyped-def]
    told, implementation: str, attributes: str, text: str
) -> None:
    (problem,) = told(implementation, attributes)
    assert problem.code == "W14"
    assert text in f"{problem.message} / {problem.help}"


@pytest.mark.parametrize("ending", [".c", ".cpp", ".cc", ".cxx", ".f90", ".F90", ".rs", ".java"])
def test_of_a_missing_program_with_a_source_it_is_said_how_to_build_it(told, tmp_path: Path, ending: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / f"heater{ending}").write_text("")
    (problem,) = told('<implementation path="heater"/>')
    assert problem.message == 'the program "heater" does not exist'
    assert problem.help == f'it looks as if it must be built from heater{ending}: add run:build="make heater"'


def test_a_source_is_no_program_but_what_is_built_from_it(told, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "heater.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "heater.c").chmod(0o755)
    (problem,) = told('<implementation language="c" path="heater.c"/>')
    assert problem.message == 'the program "heater.c" is a source file, which cannot be started'
    assert problem.help == 'it looks as if it must be built: write path="heater" run:build="make heater"'


def test_a_script_in_a_compiled_language_is_a_program(told, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "heater.rs").write_text("#!/usr/bin/env rust-script\n")
    (tmp_path / "heater.rs").chmod(0o755)
    assert told('<implementation path="heater.rs"/>') == ()


def test_a_source_is_not_suggested_for_a_misspelt_program(told, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "heater.c").write_text("")
    (problem,) = told('<implementation path="heatr"/>')
    assert "heater.c" not in problem.help


def test_a_build_in_a_misspelt_namespace_is_told_once(told) -> None:  # type: ignore[no-untyped-def]
    (problem,) = told('<implementation path="heater" xmlns:run="urn:xmml:run" run:build="make heater"/>')
    assert problem.code == "E02"


def source(params: str) -> str:
    return (
        f'<terminal id="T" type="source" class="csv">{params}<ports><out id="o"/></ports></terminal>'
        '<submodel id="A"><timescale delta="1 s" total="1 s"/><ports><in id="i" operator="finit"/></ports></submodel>'
    )


ENDS = '<instance id="t" terminal="T"/><instance id="a" submodel="A"/><coupling from="t.o" to="a.i"/>'


@pytest.mark.parametrize(
    ("params", "codes"),
    [
        ('<param id="file" value="wave.*.csv"/>', []),
        ('<param id="file" value="other.*.csv"/>', ["W14"]),
        ("", ["W14"]),
        ('<param id="file" value="wave.1.csv"/><param id="messages" value="row"/>', ["E24"]),
    ],
)
def test_a_source_has_a_file_that_is_there(check_parts, tmp_path: Path, params: str, codes: list[str]) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "wave.1.csv").write_text("1\n")
    assert [problem.code for problem in check_parts(source(params), ENDS).problems] == codes


def test_the_file_of_a_source_may_come_from_the_command_line(check_parts, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "wave.csv").write_text("1\n")
    assert check_parts(source(""), ENDS, overrides={"t.file": "wave.csv"}).problems == ()
