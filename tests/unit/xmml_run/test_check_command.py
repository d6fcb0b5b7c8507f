"""`xmml check`: its formats, its exit status, and the pages it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xmml_schema
from jsonschema import Draft202012Validator
from xmml_run.xmml_command import xmml_command

from xmml.problems import CODES
from xmml.sarif import sarif

DOCUMENTS = Path(__file__).parents[2] / "data" / "documents"
CHECKS = DOCUMENTS / "checks"
RIGHT, ERROR, WARNING = (str(CHECKS / name) for name in ("E06/right.xmml", "E06/wrong.xmml", "W03/wrong.xmml"))

#: What SARIF 2.1.0 asks of the parts that we write; the whole schema is not at hand here.
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "$schema": {"type": "string", "format": "uri"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "additionalProperties": False,
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "additionalProperties": False,
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": {"$ref": "#/$defs/text"},
                                                "help": {"$ref": "#/$defs/text"},
                                                "defaultConfiguration": {
                                                    "type": "object",
                                                    "additionalProperties": False,
                                                    "properties": {"level": {"$ref": "#/$defs/level"}},
                                                },
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": {"$ref": "#/$defs/level"},
                                "message": {"$ref": "#/$defs/text"},
                                "locations": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["physicalLocation"],
                                        "additionalProperties": False,
                                        "properties": {
                                            "physicalLocation": {
                                                "type": "object",
                                                "required": ["artifactLocation"],
                                                "additionalProperties": False,
                                                "properties": {
                                                    "artifactLocation": {
                                                        "type": "object",
                                                        "required": ["uri"],
                                                        "additionalProperties": False,
                                                        "properties": {
                                                            "uri": {"type": "string", "pattern": "^[^ <>]+$"}
                                                        },
                                                    },
                                                    "region": {
                                                        "type": "object",
                                                        "additionalProperties": False,
                                                        "properties": {
                                                            "startLine": {"type": "integer", "minimum": 1},
                                                            "startColumn": {"type": "integer", "minimum": 1},
                                                            "endColumn": {"type": "integer", "minimum": 1},
                                                            "snippet": {"$ref": "#/$defs/text"},
                                                        },
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
    "$defs": {
        "level": {"enum": ["none", "note", "warning", "error"]},
        "text": {
            "type": "object",
            "required": ["text"],
            "additionalProperties": False,
            "properties": {"text": {"type": "string", "minLength": 1}, "markdown": {"type": "string"}},
        },
    },
}


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = xmml_command(["check", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_exit_status_is_1_if_there_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, RIGHT)[0] == 0
    assert told(capsys, WARNING)[0] == 0
    assert told(capsys, ERROR)[0] == 1


def test_with_strict_warnings_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = told(capsys, "--strict", WARNING)
    assert status == 1
    assert "error[W03]" in out
    assert "1 error, 0 warnings" in err
    assert told(capsys, "--strict", RIGHT)[0] == 0


def test_several_documents_are_checked_at_once_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = told(capsys, RIGHT, ERROR, WARNING, RIGHT)
    assert status == 1
    assert [line.split(": ")[1] for line in out.splitlines() if line.startswith(str(CHECKS))] == [
        "error[E06]",
        "warning[W03]",
    ]
    assert err.startswith("3 models checked: 1 error, 1 warning")


def test_problems_are_text_without_colours_unless_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in told(capsys, ERROR)[1]


def schema() -> Draft202012Validator:
    plain = json.loads(xmml_schema.CHECK_REPORT.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(plain)
    return Draft202012Validator(plain)


def test_the_problems_of_every_code_are_json_as_its_schema_says(capsys: pytest.CaptureFixture[str]) -> None:
    documents = sorted(str(path) for path in CHECKS.glob("*/wrong*.xmml"))
    status, out, _ = told(capsys, "--format", "json", *documents)
    assert status == 1
    report = json.loads(out)
    schema().validate(report)
    assert {problem["code"] for problem in report} >= set(CODES) - {"E22", "W13"}  # those are of parameter files


def test_a_model_without_problems_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(told(capsys, "--format", "json", RIGHT)[1]) == []


def results(log: dict[str, Any]) -> list[dict[str, Any]]:
    Draft202012Validator(SARIF).validate(log)
    found: list[dict[str, Any]] = log["runs"][0]["results"]
    return found


def test_sarif_has_rules_with_help_and_results_with_places(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = told(capsys, "--format", "sarif", ERROR, WARNING, "-p", "macro.d=1")
    log = json.loads(out)
    assert status == 1
    assert [result["ruleId"] for result in results(log)] == ["E06", "E22", "W03"]
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in results(log)] == ["E06", "E22", "W03"]
    assert rules[0]["help"]["markdown"].startswith("# E06")
    place = results(log)[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("checks/E06/wrong.xmml")
    assert (place["region"]["startLine"], place["region"]["startColumn"]) == (22, 15)
    assert results(log)[1]["locations"] == []


def test_sarif_of_nothing_is_a_log_without_results() -> None:
    assert results(sarif(())) == []


def test_a_page_is_printed_for_a_code_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = told(capsys, "--explain", "e06")
    assert status == 0
    assert out.startswith("# E06: a coupling runs from an in port or to an out port")


def test_an_unknown_code_or_no_document_at_all_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = told(capsys, "--explain", "E66")
    assert status == 2
    assert 'or "E06"?' in err
    assert told(capsys)[0] == 2


def test_a_misspelt_option_is_an_error_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = told(capsys, RIGHT, "-p", "marco.D=1")
    assert status == 1
    assert 'did you mean "macro"' in out


def test_checking_a_small_model_loads_nothing_heavy() -> None:
    code = (
        "import sys; from xmml_run.main import xmml; xmml(['check', sys.argv[1]]); "
        "print(sorted({'lxml', 'numpy', 'networkx', 'matplotlib', 'xmml_planner', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, RIGHT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[]\n", done.stderr
