"""Mistakes that everybody makes at first: the text alone says what to mend.

Each document is `good.xmml` with one mistake, named after it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from xmml.check import check
from xmml.problems import render

DOCUMENTS = Path(__file__).parents[2] / "data" / "documents" / "newcomer"

#: What is told of each mistake: the code, the line, and the phrase by which one can mend it.
MISTAKES: dict[str, list[tuple[str, int, str]]] = {TABLE}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_so_that_one_can_mend_it(name: str) -> None:
    problems = check(DOCUMENTS / f"{name}.xmml").problems
    told = [(problem.code, problem.position.line) for problem in problems if problem.position]
    assert told == [(code, line) for code, line, _ in MISTAKES[name]]
    for problem, (_, _, phrase) in zip(problems, MISTAKES[name], strict=True):
        assert phrase in render(problem)


def test_every_document_is_a_mistake_or_the_good_one() -> None:
    assert {path.stem for path in DOCUMENTS.glob("*.xmml")} == {*MISTAKES, "good"}


def test_nothing_is_told_of_the_good_document() -> None:
    assert check(DOCUMENTS / "good.xmml").problems == ()
