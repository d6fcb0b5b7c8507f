"""What is told of files that cannot be brought to a site or back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import cast

import pytest
import skipping_clock
from example_programs import ROOT
from xmml_sites.ssh import ConnectionLost
from xmml_sites.ssh.conversation import Conversation
from xmml_sites.transfer.messages import Malformed
from xmml_sites.transfer.site_files import ATTEMPTS, SILENT_S, FileCommand, fetched_patiently, without_advice

ADVICE = re.findall(r'\(libc::E[A-Z]+, "(.+)"\)', (ROOT / "native/transfer/src/target.rs").read_text())


def test_copies_are_advised_where_a_disk_takes_no_more() -> None:
    assert len(ADVICE) == 3


@pytest.mark.parametrize("advice", dict.fromkeys(ADVICE))
def test_a_run_does_not_give_the_advice_of_a_copy(advice: str) -> None:
    assert without_advice(f"mesh.nc: No space left on device; {advice}") == "mesh.nc: No space left on device"


class Answering:
    """A conversation with a site that answers this."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    async def send(self, _: bytes) -> None:
        """Take an order."""

    async def receive(self) -> bytes:
        return self.answer


@pytest.mark.parametrize("answer", [b"", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_an_answer_to_an_order_is_an_object_or_the_site_does_not_keep_to_the_protocol(answer: bytes) -> None:
    there = FileCommand(cast("Conversation", Answering(answer)), None)
    with pytest.raises(Malformed, match="the answer to an order is no JSON object"):
        asyncio.run(there.order({}))


class Fetching:
    """Fetches that begin late, after which something comes, and the connection is lost some times."""

    def __init__(self, losses: int, pause_s: float = SILENT_S / 2) -> None:
        self.losses, self.pause_s, self.attempts = losses, pause_s, 0

    async def __call__(self, on_piece: Callable[[], None]) -> str:
        self.attempts += 1
        await asyncio.sleep(3 * SILENT_S)
        on_piece()
        await asyncio.sleep(self.pause_s)
        if self.attempts <= self.losses:
            raise ConnectionLost("alpha", "cut")
        return "done"


def test_files_that_others_keep_waiting_are_waited_for_and_fetched_again_when_the_connection_was_lost() -> None:
    fetching = Fetching(ATTEMPTS - 1)
    assert skipping_clock.run(fetched_patiently(fetching, begins_within_s=None)) == "done"
    assert fetching.attempts == ATTEMPTS


def test_a_connection_that_is_lost_again_and_again_is_not_made_for_ever() -> None:
    fetching = Fetching(ATTEMPTS)
    with pytest.raises(ConnectionLost):
        skipping_clock.run(fetched_patiently(fetching, begins_within_s=None))
    assert fetching.attempts == ATTEMPTS


def test_a_site_that_is_silent_after_it_has_begun_is_waited_for_no_longer() -> None:
    with pytest.raises(TimeoutError):
        skipping_clock.run(fetched_patiently(Fetching(0, 2 * SILENT_S), begins_within_s=None))
