"""How much the conduits of a plan hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_models import document
from xmml_planner import plan

from xmml.check import check

#: b may begin only when a has ended, and a sends to b all the while.
HELD_BACK = "a 40\nc\nb 40\na.Oi.flow -> b.S.flow{more}\na.Of.end -> c.finit.end\nc.Of.go -> b.finit.go"


@pytest.fixture
def capacities(tmp_path: Path) -> Callable[[str], dict[str, int]]:
    """Return a function that plans a small model and gives the capacities of its conduits."""

    def planned(text: str) -> dict[str, int]:
        (tmp_path / "program.py").write_text("")
        path = tmp_path / "model.xmml"
        inside = '<implementation language="python" path="program.py"/>'
        path.write_text(document(text, dict.fromkeys("abcms", inside)))
        return {conduit.name: conduit.capacity for conduit in plan(check(path).model_or_raise()).conduits}

    return planned


def test_a_conduit_holds_what_freedom_from_deadlock_needs_and_a_slack(
    capacities: Callable[[str], dict[str, int]],
) -> None:
    assert capacities(HELD_BACK.format(more=""))["a.flow -> b.flow"] == 40 + 15


def test_large_messages_get_no_slack_beyond_the_byte_budget(capacities: Callable[[str], dict[str, int]]) -> None:
    assert capacities("a 3\nb 3\na.Oi.x -> b.S.y size=20000000")["a.x -> b.y"] == 3


def test_freedom_from_deadlock_goes_beyond_the_byte_budget(capacities: Callable[[str], dict[str, int]]) -> None:
    assert capacities(HELD_BACK.format(more=" size=20000000"))["a.flow -> b.flow"] == 40


def test_each_pair_of_copies_has_a_conduit_with_room(capacities: Callable[[str], dict[str, int]]) -> None:
    found = capacities("a 3\ns mapper\nb x3\na.Oi.x -> s.in\ns.out -> b.finit.y\n")
    assert [found[f"s.out -> b[{copy}].y"] for copy in range(3)] == [16, 16, 16]
