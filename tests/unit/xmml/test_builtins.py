"""The tables of built-ins are those of the runtime and of its documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xmml_native import Error, mappers, terminals
from xmml_native._native import filter_outputs
from xmml_native.archives import terminal as archive_terminal

from xmml.builtins import CLASSES, FILTERS, MAPPERS, TERMINAL_PARAMETERS, TERMINALS, TERMINALS_OF_OBJECTS

DOCS = Path(__file__).parents[3] / "docs" / "filters.md"


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_is_known_to_the_runtime(name: str) -> None:
    arguments = {"from": "m", "to": "km", "offset": "1 s"}
    factor: float | None = 2.0
    if name == "precision":  # it takes a type or a tolerance
        arguments, factor = {"to": "float32"}, None
    assert filter_outputs({"name": name, "factor": factor, "params": arguments}, 1) >= 0


def test_a_filter_that_is_not_in_the_table_is_unknown_to_the_runtime() -> None:
    with pytest.raises(Error, match="no filter of this name"):
        filter_outputs({"name": "every", "factor": 2.0, "params": {}}, 1)


def test_the_documentation_names_the_same_filters() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("| name | type |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(FILTERS)


def test_the_mappers_and_terminals_are_those_of_the_runtime() -> None:
    assert set(MAPPERS) == set(mappers.BUILT_IN)
    assert set(TERMINALS) == {*terminals.SUFFIXES, *TERMINALS_OF_OBJECTS}
    assert set(CLASSES) == {"filter", "mapper", "terminal"}


def test_the_parameters_of_terminals_are_those_that_they_ask_for() -> None:
    sources = [Path(module.__file__).read_text(encoding="utf-8") for module in (terminals, archive_terminal)]
    asked = {name for source in sources for name in re.findall(r'me\.param\("(\w+)"', source)}
    assert asked == TERMINAL_PARAMETERS["source"] | TERMINAL_PARAMETERS["sink"]
