"""The relay that a run starts at a site: it takes the place of the one before, and of nothing else."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from commands import MTO
from site_here import site_at
from waiting import LIMIT_S
from xmml_executors.launch.certificates import Certificates
from xmml_executors.launch.remote_relay import RemoteRelay
from xmml_executors.launch.run_site import RunSite


def relay_named(site: RunSite, name: str) -> RemoteRelay:
    return RemoteRelay(site, f"t{os.getpid()}-{name}", (), "canal", b"the secret of canal", Certificates())


def answers(relay: RemoteRelay) -> bool:
    done = subprocess.run([MTO, "status", "--site", relay.name], capture_output=True, check=False, timeout=LIMIT_S)
    return done.returncode == 0


def test_a_relay_that_was_started_earlier_makes_room(tmp_path: Path) -> None:
    async def both() -> None:
        site = site_at(tmp_path)
        try:
            # Of one name: the second cannot begin while the first is there.
            first, second = relay_named(site, "again"), relay_named(site, "again")
            assert await first.start()
            assert await second.start()
            assert first._process is not None
            await asyncio.wait_for(first._process.wait(), LIMIT_S)
            assert answers(second)
        finally:
            await site.transport.close()

    asyncio.run(both())


@pytest.mark.parametrize("other", ["another host", "another process"])
def test_a_relay_that_only_has_the_number_of_the_former_is_left_alone(tmp_path: Path, other: str) -> None:
    async def both() -> None:
        site = site_at(tmp_path)
        try:
            first, second = relay_named(site, "first"), relay_named(site, "second")
            assert await first.start()
            note = tmp_path / "relay"
            number, began, host = note.read_text().split()
            if other == "another host":
                note.write_text(f"{number} {began} {host}-2\n")
            else:
                note.write_text(f"{number} {int(began) - 1} {host}\n")
            assert await second.start()
            assert answers(first)
            assert answers(second)
        finally:
            await site.transport.close()

    asyncio.run(both())
