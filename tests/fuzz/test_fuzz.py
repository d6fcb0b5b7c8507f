"""A small share of a campaign with a fixed seed, and every input that once failed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import xmml_schema
from bounds import bounded_memory
from campaign import SAVED, attempt, cases, shares
from inputs import corpus, restructured
from lxml import etree
from targets import TARGETS
from wan.soak import LONG

from xmml.check import check

#: Inputs of all targets together; with XMML_SOAK=1 a hundred times as many.
INPUTS = 2_000
TIMES_IF_LONG = 100


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("target", TARGETS)
def test_random_inputs_give_problems_and_nothing_else(target: str, tmp_path: Path) -> None:
    count = shares(INPUTS * (TIMES_IF_LONG if LONG else 1))[target]
    with bounded_memory():
        for seed, case in cases(target, 0, count):
            try:
                attempt(target, case, tmp_path)
            except BaseException as error:
                error.add_note(f"python tests/fuzz/campaign.py --remake {seed} writes this input")
                raise
            for path in tmp_path.iterdir():
                path.unlink()


@pytest.mark.parametrize("folder", sorted(SAVED.glob("*/*")), ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_inputs_that_once_failed_give_problems_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    with bounded_memory():
        attempt(folder.parent.name, _files(folder), tmp_path)


@pytest.mark.parametrize("name", ["restenosis.xml", "reaction.xml"])
def test_whatever_the_schema_refuses_has_errors(tmp_path: Path, name: str) -> None:
    schema = etree.XMLSchema(file=str(xmml_schema.MODEL))
    original = corpus()[f"tests/data/documents/{name}"]
    choose = random.Random(name)
    path = tmp_path / "model.xml"
    for _ in range(150):
        data = restructured(choose, original)
        path.write_bytes(data)
        result = check(path)
        if schema.validate(etree.fromstring(data)):
            assert all("run:" in problem.message for problem in result.problems if problem.code == "E02")
        else:
            assert result.errors
