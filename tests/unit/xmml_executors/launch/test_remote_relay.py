"""The relay that a run starts at a site: it takes the place of the one before, and of nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest
from commands import MTO
from site_here import site_at
from waiting import LIMIT_S, until
from xmml_executors.launch.relays import remote_relay
from xmml_executors.launch.relays.certificates import Certificates
from xmml_executors.launch.relays.entries import RelayEntry
from xmml_executors.launch.relays.remote_relay import RemoteRelay
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.outcome import SiteError


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


def test_a_relay_that_is_not_wanted_any_more_when_it_begins_leaves_the_former_alone(tmp_path: Path) -> None:
    async def work() -> None:
        site = site_at(tmp_path)
        try:
            first = relay_named(site, "first")
            assert await first.start()
            note = tmp_path / "relay"
            noted = note.read_text()
            words = [MTO, "--site", f"{first.name}-late", "--stdin", "--lease", "60", "--note", str(note)]
            assert subprocess.run(words, stdin=subprocess.DEVNULL, check=False, timeout=LIMIT_S).returncode == 0
            assert answers(first)
            assert note.read_text() == noted
        finally:
            await site.transport.close()

    asyncio.run(work())


def test_signs_of_life_keep_a_relay_and_are_no_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lease_s = 3.0
    monkeypatch.setattr(remote_relay, "lease_of_programs_s", lambda: lease_s)

    async def work() -> None:
        site = site_at(tmp_path)
        try:
            relay = relay_named(site, "kept")
            assert await relay.start()
            await asyncio.sleep(2 * lease_s)
            await relay.add_run("polar", b"the secret of polar")
            assert answers(relay)
            status = subprocess.run([MTO, "status", "--json", "--site", relay.name], capture_output=True, check=True)
            assert set(json.loads(status.stdout)["runs"]) == {"canal", "polar"}
        finally:
            await site.transport.close()

    asyncio.run(work())


def test_a_relay_that_ends_is_started_again_on_its_port(tmp_path: Path) -> None:
    async def work() -> list[str]:
        site, told = site_at(tmp_path), list[str]()
        try:
            relay = relay_named(site, "kept")
            assert await relay.start()
            keeping = asyncio.create_task(relay.keep(told.append))
            first, port = relay._process, relay.port
            assert first is not None
            await first.kill()
            await until(lambda: relay._process is not first and answers(relay), "it is not started again")
            keeping.cancel()
            assert relay.port == port
        finally:
            await site.transport.close()
        return told

    (told,) = asyncio.run(work())
    assert told.startswith("here: its relay has ended (exit status ")
    assert told.endswith(") and is started again")


def test_a_run_begins_and_ends_also_while_the_relay_is_away(tmp_path: Path) -> None:
    async def work() -> None:
        site = site_at(tmp_path)
        try:
            relay = relay_named(site, "away")
            assert await relay.start()
            assert relay._process is not None
            entry = RelayEntry("here:1/away", relay, lambda _: None, is_kept=True)
            await relay._process.kill()
            await entry.add_run("second", b"the secret of the second")
            await entry.remove_run("canal", is_given_up=False)
            await until(lambda: answers(relay), "it is not started again")
            await entry.close()
        finally:
            await site.transport.close()

    asyncio.run(work())


def test_a_relay_that_cannot_be_started_again_is_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_relay, "AGAIN_WITHIN_S", 0.5)

    async def work() -> None:
        site = site_at(tmp_path)
        try:
            relay = relay_named(site, "lost")
            assert await relay.start()
            assert relay._process is not None
            (tmp_path / "mto").unlink()
            await relay._process.kill()
            with pytest.raises(SiteError, match=r"the relay of here has ended .* and cannot be started again: port"):
                await asyncio.wait_for(relay.keep(lambda _: None), LIMIT_S)
        finally:
            await site.transport.close()

    asyncio.run(work())
