"""The relay that a run starts at a site: it takes the place of the one before, and of nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import MTO
from processes import is_running
from site_here import site_at
from waiting import LIMIT_S, until
from xmml_executors.launch.relays import remote_relay
from xmml_executors.launch.relays.certificates import Certificates, RelayTrust
from xmml_executors.launch.relays.entries import RelayEntry
from xmml_executors.launch.relays.remote_relay import RemoteRelay
from xmml_executors.launch.site.login import SiteLogin
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.outcome import SiteError
from xmml_native.mto import relay_key
from xmml_sites.ssh import TransportError
from xmml_sites.ssh.local import LocalTransport

KEY = relay_key(b"the secret of the runs")


def relay_named(site: RunSite, name: str) -> RemoteRelay:
    return RemoteRelay(site, f"t{os.getpid()}-{name}", (), "canal", KEY, Certificates())


def answers(relay: RemoteRelay) -> bool:
    done = subprocess.run([MTO, "status", "--site", relay.name], capture_output=True, check=False, timeout=LIMIT_S)
    return done.returncode == 0


def by_another_login(site: RunSite) -> RunSite:
    """The same site over a login of its own, and so with a gateway of its own."""
    again = RunSite(site.site, site.run_id, site.journal, SiteLogin(site.site, LocalTransport(site.name)))
    again.folder = site.folder
    return again


def process_noted(folder: Path) -> int:
    """The process of the relay that began last."""
    return int((folder / "relay").read_text().split()[0])


def test_a_relay_that_was_started_earlier_makes_room(tmp_path: Path) -> None:
    async def both() -> None:
        site = site_at(tmp_path)
        again = by_another_login(site)
        try:
            # Of one name: the second cannot begin while the first is there.
            first, second = relay_named(site, "again"), relay_named(again, "again")
            assert await first.start()
            assert await second.start(), second.problem
            assert first._channel is not None
            with pytest.raises(TransportError, match=r"the site gateway has ended with status \d+"):
                await asyncio.wait_for(first._channel.wait(), LIMIT_S)
            assert answers(second)
        finally:
            await site.transport.close()
            await again.transport.close()

    asyncio.run(both())


@pytest.mark.parametrize("other", ["another host", "another process"])
def test_a_relay_that_only_has_the_number_of_the_former_is_left_alone(tmp_path: Path, other: str) -> None:
    async def both() -> None:
        site = site_at(tmp_path)
        again = by_another_login(site)
        try:
            first, second = relay_named(site, "first"), relay_named(again, "second")
            assert await first.start()
            note = tmp_path / "relay"
            number, began, host = note.read_text().split()
            if other == "another host":
                note.write_text(f"{number} {began} {host}-2\n")
            else:
                note.write_text(f"{number} {int(began) - 1} {host}\n")
            assert await second.start(), second.problem
            assert answers(first)
            assert answers(second)
        finally:
            await site.transport.close()
            await again.transport.close()

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


def test_signs_of_life_keep_a_relay_that_was_started_manually_and_are_no_requests() -> None:
    name = f"t{os.getpid()}-kept"
    words = [MTO, "--site", name, "--stdin", "--lease", "8"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as relay:
        assert relay.stdin is not None
        assert relay.stdout is not None
        assert json.loads(relay.stdout.readline())["site"] == name
        for _ in range(20):
            time.sleep(0.5)
            relay.stdin.write(b"\n")
            relay.stdin.flush()
        relay.stdin.write(b'{"command": "status"}\n')
        relay.stdin.flush()
        assert json.loads(relay.stdout.readline())["status"]["site"] == name
        relay.wait(LIMIT_S)  # its lease ends


def test_relays_share_a_process_and_one_that_ends_is_started_again_on_its_port_beside_the_other(
    tmp_path: Path,
) -> None:
    async def work() -> list[tuple[str, str]]:
        site, told = site_at(tmp_path), list[tuple[str, str]]()
        try:
            relay, other = relay_named(site, "kept"), relay_named(site, "other")
            assert await relay.start()
            assert await other.start()
            process, port, channel = process_noted(tmp_path), relay.port, relay._channel
            keeping = asyncio.create_task(relay.keep(lambda *words: told.append(words)))
            subprocess.run([MTO, "stop", "--site", relay.name], check=True, capture_output=True, timeout=LIMIT_S)
            await until(lambda: relay._channel is not channel and answers(relay), "it is not started again")
            keeping.cancel()
            assert relay.port == port
            assert process_noted(tmp_path) == process
            assert answers(other)
        finally:
            await site.transport.close()
        return told

    assert asyncio.run(work()) == [("its relay has ended (it was told to) and is started again", "here")]


def test_relays_whose_process_is_killed_are_started_again_on_their_ports(tmp_path: Path) -> None:
    async def work() -> list[tuple[str, str]]:
        site, told = site_at(tmp_path), list[tuple[str, str]]()
        try:
            relays = [relay_named(site, "kept"), relay_named(site, "other")]
            assert [await relay.start() for relay in relays] == [True, True]
            keeping = [asyncio.create_task(relay.keep(lambda *words: told.append(words))) for relay in relays]
            process, ports = process_noted(tmp_path), [relay.port for relay in relays]
            os.kill(process, signal.SIGKILL)
            await until(lambda: len(told) == 2 and all(map(answers, relays)), "they are not started again")
            for each in keeping:
                each.cancel()
            assert [relay.port for relay in relays] == ports
        finally:
            await site.transport.close()
        return told

    ended = "its relay has ended (site here: the site gateway has ended with status 137) and is started again"
    assert asyncio.run(work()) == [(ended, "here"), (ended, "here")]


def test_a_run_begins_and_ends_also_while_the_relay_is_away(tmp_path: Path) -> None:
    async def work() -> None:
        site = site_at(tmp_path)
        try:
            relay = relay_named(site, "away")
            assert await relay.start()
            assert relay._channel is not None
            entry = RelayEntry("here:1/away", relay, lambda *_: None, is_kept=True)
            await relay._channel.end()
            await entry.add_run("second", KEY)
            await entry.remove_run("canal", is_given_up=False)
            await until(lambda: answers(relay), "it is not started again")
            await entry.close()
        finally:
            await site.transport.close()

    asyncio.run(work())


class DeafTo(Certificates):
    """Certificates of which one relay is never shown."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = asyncio.Event()

    async def show(self, relay: RelayTrust, certificate: str) -> None:
        self.is_asked.set()
        await asyncio.Event().wait()


def test_a_start_that_is_given_up_leaves_no_relay(tmp_path: Path) -> None:
    async def work() -> None:
        site = site_at(tmp_path)
        try:
            certificates = DeafTo()
            other, relay = relay_named(site, "other"), relay_named(site, "given-up")
            assert await other.start()  # keeps the process
            relay.certificates = certificates
            starting = asyncio.create_task(relay.start())
            await asyncio.wait_for(certificates.is_asked.wait(), LIMIT_S)
            assert answers(relay)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await until(lambda: not answers(relay), "it stays")
        finally:
            await site.transport.close()

    asyncio.run(work())


def take_its_log(folder: Path, relay: RemoteRelay) -> None:
    (folder / "relays").rename(folder / "gone")
    subprocess.run([MTO, "stop", "--site", relay.name], check=True, capture_output=True, timeout=LIMIT_S)


def take_its_program(folder: Path, relay: RemoteRelay) -> None:
    (folder / "mto").unlink()
    os.kill(process_noted(folder), signal.SIGKILL)


@pytest.mark.parametrize(
    ("take", "why"),
    [
        (take_its_log, "log: .* cannot be opened: No such file"),
        (take_its_program, "site here: the site gateway has ended with status 127: .*mto: not found"),
    ],
)
def test_a_relay_that_cannot_be_started_again_is_the_end_and_it_is_said_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take: Callable[[Path, RemoteRelay], None], why: str
) -> None:
    monkeypatch.setattr(remote_relay, "AGAIN_WITHIN_S", 5.0)

    async def work() -> None:
        site = site_at(tmp_path)
        try:
            relay = relay_named(site, "lost")
            assert await relay.start()
            take(tmp_path, relay)
            with pytest.raises(SiteError, match=f"the relay of here has ended .* cannot be started again: {why}"):
                await asyncio.wait_for(relay.keep(lambda *_: None), LIMIT_S)
        finally:
            await site.transport.close()

    asyncio.run(work())


@pytest.mark.parametrize("is_given_up", [False, True])
def test_the_process_ends_with_its_last_relay_if_no_run_needs_it(tmp_path: Path, is_given_up: bool) -> None:
    async def work() -> None:
        site = site_at(tmp_path)
        try:
            relay, other = relay_named(site, "one"), relay_named(site, "other")
            assert await relay.start()
            assert await other.start()
            process = process_noted(tmp_path)
            await relay.end(is_given_up=is_given_up)
            await until(lambda: not answers(relay), "it stays")
            assert answers(other)
            await other.end(is_given_up=is_given_up)
            await until(lambda: not is_running(process), "the process stays")
        finally:
            await site.transport.close()

    asyncio.run(work())
