"""Problems as SARIF 2.1.0, the format in which code hosts and editors take the findings of checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import xmml
from xmml.explanations import has_page, page
from xmml.problems import CODES, Problem, Severity

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(problems: Sequence[Problem]) -> dict[str, Any]:
    """Return a SARIF log with one run; its rules are the codes that occur, with their pages as help."""
    codes = sorted({problem.code for problem in problems})
    places = {code: number for number, code in enumerate(codes)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "xmml check",
                        "version": xmml.__version__,
                        "rules": [_rule(code) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(problem, places) for problem in problems],
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": _sentence(CODES.get(code, code))},
        "defaultConfiguration": {"level": "warning" if code.startswith("W") else "error"},
    }
    if has_page(code):
        rule["help"] = {"text": page(code), "markdown": page(code)}
    return rule


def _result(problem: Problem, places: Mapping[str, int]) -> dict[str, Any]:
    text = _sentence(problem.message)
    if problem.help:
        text += f" Help: {_sentence(problem.help)}"
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": places[problem.code],
        "level": "error" if problem.severity is Severity.ERROR else "warning",
        "message": {"text": text},
        "locations": [],
    }
    place = problem.mark.position if problem.mark is not None else problem.position
    if place is not None:
        region: dict[str, Any] = {"startLine": place.line, "startColumn": place.column}
        if problem.mark is not None:
            region["endColumn"] = place.column + problem.mark.length
        if problem.quote:
            region["snippet"] = {"text": problem.quote}
        uri = quote(place.file.replace("\\", "/"))
        result["locations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": f"file://{uri}" if uri.startswith("/") else uri},
                    "region": region,
                }
            }
        ]
    return result


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."
