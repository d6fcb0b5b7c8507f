"""What sites tell of the way between them."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from xmml_planner.sites import Site
from xmml_sites.check.link_check import _asked
from xmml_sites.ssh import Transport
from xmml_sites.ssh.command_result import CommandResult


class Saying:
    """A transport to a site whose program says this."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def run(self, *_: object, **__: object) -> CommandResult:
        return CommandResult(0, self.text, "")


def told(text: str) -> dict[str, Any]:
    return asyncio.run(_asked(cast("Transport", Saying(text)), Site("alpha", ssh="alpha"), "", ""))


@pytest.mark.parametrize(
    "told_by_our_program", [{"round_trip_s": 0.01, "bandwidth": 1e6}, {"reached": True}, {"error": "no route"}]
)
def test_what_our_program_tells_is_believed(told_by_our_program: dict[str, object]) -> None:
    assert told(json.dumps(told_by_our_program)) == told_by_our_program


@pytest.mark.parametrize(
    "lie",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"bandwidth": 1}',
        '{"round_trip_s": "1", "bandwidth": 1}',
        '{"round_trip_s": 1, "bandwidth": NaN}',
        '{"round_trip_s": 1e999, "bandwidth": 1}',
        '{"round_trip_s": -1, "bandwidth": 1}',
        '{"error": 7}',
    ],
)
def test_anything_else_is_not_and_nothing_of_it_is_written_into_the_file_of_sites(lie: str) -> None:
    assert list(told(lie)) == ["unknown"]
