"""What is told of files that cannot be brought to a site or back."""

from __future__ import annotations

import asyncio
import re
from typing import cast

import pytest
from example_programs import ROOT
from xmml_sites.ssh.conversation import Conversation
from xmml_sites.transfer.messages import Malformed
from xmml_sites.transfer.site_files import FileCommand, without_advice

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
