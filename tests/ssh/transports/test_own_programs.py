"""A program of ours is one process at a site, and ends by itself when nobody is there any more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from processes import is_running
from ssh_transports import OVER_SSH, leases, make
from sshd import Sshd
from waiting import until
from xmml_native import mto
from xmml_sites.ssh import ConnectionLost

#: Of programs for which a test waits longer than their lease lasts, and of those that must not end [s].
SHORT_S, LONG_S = 10.0, 3600.0


def talk(folder: Path) -> str:
    """The command of a site gateway."""
    return f"exec {shlex.quote(str(mto.PROGRAM))} site --run {shlex.quote(str(folder))} talk"


def gateways(folder: Path) -> list[int]:
    """The site gateways of a folder that run."""
    words = [str(mto.PROGRAM), "site", "--run", str(folder), "talk"]
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_text().split("\0")[:5] == words and is_running(int(entry.name)):
                found.append(int(entry.name))
    return found


async def begun(program: Any, folder: Path) -> tuple[int, AsyncIterator[str]]:
    """Wait until a site gateway has begun; return its number and what it says."""
    lines = program.lines()
    assert (await said(lines))["is"] == "talking"
    (pid,) = gateways(folder)
    return pid, lines


async def said(lines: AsyncIterator[str]) -> Any:
    """What it says next, besides signs of life."""
    while not (line := await anext(lines)):
        pass
    return json.loads(line)


@pytest.mark.parametrize("kind", OVER_SSH)
def test_it_is_the_only_process_at_the_site(kind: str, own_server: Sshd, tmp_path: Path) -> None:
    async def work() -> None:
        transport = make(kind, own_server)
        try:
            pid, _ = await begun(await transport.start_program(talk(tmp_path), lease_s=LONG_S), tmp_path)
            there = {each: line for each, line in own_server.processes().items() if not line.startswith("sshd")}
            assert list(there) == [pid], there
            assert leases(own_server.temporary) == []
        finally:
            await transport.close()

    asyncio.run(work())
    assert own_server.wait_until_nothing_runs(besides="sshd") == {}


def test_signs_of_life_keep_it_alive(using: Any, tmp_path: Path) -> None:
    async def work(transport: Any) -> None:
        program = await transport.start_program(talk(tmp_path), lease_s=SHORT_S)
        _, lines = await begun(program, tmp_path)
        await asyncio.sleep(SHORT_S + 2.0)
        await program.write(b'{"lease": 1, "s": 1, "runs": []}\n')
        assert await said(lines) == {"is": "alive", "lease": 1}

    using(work)


@pytest.mark.parametrize("kind", OVER_SSH)
def test_it_ends_with_its_lease_and_so_do_the_ports_of_its_connection(
    kind: str, own_server: Sshd, tmp_path: Path
) -> None:
    async def work() -> None:
        transport = make(kind, own_server)
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            forwarding = await transport.forward_remote("127.0.0.1", nobody.getsockname()[1])
            program = await transport.start_program(talk(tmp_path), lease_s=SHORT_S)
            pid, _ = await begun(program, tmp_path)
            own_server.stop_listening()
            silence(program)
            await until(lambda: not is_running(pid), "it does not end with its lease")
            await until(lambda: own_server.connections() == 0, "its connection stays")
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", forwarding.port)) != 0, "its port stays"
        with pytest.raises(ConnectionLost):
            await program.wait()
        await transport.close()

    asyncio.run(work())
    assert own_server.wait_until_nothing_runs(besides="sshd") == {}


def test_its_lease_leaves_a_connection_alone_that_is_not_ours(own_server: Sshd, tmp_path: Path) -> None:
    master_socket = own_server.folder / "of-the-user"
    own_server.config.write_text(f"{own_server.config.read_text()}  ControlPath {master_socket}\n")
    command = ["ssh", "-F", str(own_server.config), "-M", "-N", own_server.name]

    async def work() -> None:
        await until(master_socket.exists, "there is no connection")
        transport = make("openssh", own_server)
        program = await transport.start_program(talk(tmp_path), lease_s=SHORT_S)
        pid, _ = await begun(program, tmp_path)
        silence(program)
        await until(lambda: not is_running(pid), "it does not end with its lease")
        assert (await transport.run("echo in")).stdout == "in\n"
        assert own_server.opened() == 1
        await transport.close()

    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as master:
        try:
            asyncio.run(work())
            assert master.poll() is None
        finally:
            master.kill()


@pytest.mark.parametrize("kind", OVER_SSH)
def test_it_ends_with_its_connection(kind: str, own_server: Sshd, tmp_path: Path) -> None:
    async def work() -> None:
        transport = make(kind, own_server)
        pid, _ = await begun(await transport.start_program(talk(tmp_path), lease_s=LONG_S), tmp_path)
        own_server.cut()
        await until(lambda: not is_running(pid), "it does not end")
        await transport.close()

    asyncio.run(work())


def test_killing_it_ends_it_at_once(using: Any, tmp_path: Path) -> None:
    async def work(transport: Any) -> None:
        program = await transport.start_program(talk(tmp_path), lease_s=LONG_S)
        await begun(program, tmp_path)
        await program.kill()
        assert gateways(tmp_path) == []

    using(work)


def test_killing_ends_also_one_that_is_stopped(using: Any, tmp_path: Path) -> None:
    async def work(transport: Any) -> None:
        program = await transport.start_program(talk(tmp_path), lease_s=LONG_S)
        pid, _ = await begun(program, tmp_path)
        os.kill(pid, signal.SIGSTOP)
        await program.kill()
        assert not is_running(pid)

    using(work)


def test_one_that_was_stopped_for_longer_than_its_lease_goes_on(using: Any, tmp_path: Path) -> None:
    async def work(transport: Any) -> None:
        program = await transport.start_program(talk(tmp_path), lease_s=SHORT_S)
        pid, lines = await begun(program, tmp_path)
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(SHORT_S + 1.0)
        os.kill(pid, signal.SIGCONT)
        await program.write(b'{"lease": 1, "s": 1, "runs": []}\n')
        assert await said(lines) == {"is": "alive", "lease": 1}

    using(work)


@pytest.mark.parametrize("part", range(8))
def test_a_start_that_is_given_up_at_any_moment_leaves_nothing(using: Any, tmp_path: Path, part: int) -> None:
    async def work(transport: Any) -> None:
        await transport.run("true")
        start = time.monotonic()
        program = await transport.start_program(talk(tmp_path), lease_s=LONG_S)
        await program.kill()
        takes_s = time.monotonic() - start
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(takes_s * part / 8):
                await transport.start_program(talk(tmp_path), lease_s=LONG_S)

    using(work)
    assert gateways(tmp_path) == []


def test_one_that_is_killed_before_it_has_begun_does_nothing(using: Any, tmp_path: Path) -> None:
    async def work(transport: Any) -> None:
        for _ in range(5):
            # It begins when its input has ended.
            program = await transport.start_program(f"cat >/dev/null; {talk(tmp_path)}", lease_s=LONG_S)
            await program.kill()
            assert [line async for line in program.lines()] == []

    using(work)


def test_closing_ends_it(using: Any, tmp_path: Path) -> None:
    async def work(transport: Any) -> None:
        await begun(await transport.start_program(talk(tmp_path), lease_s=LONG_S), tmp_path)

    using(work)
    assert gateways(tmp_path) == []


def silence(program: Any) -> None:
    """Say nothing more, as if we were killed and the site did not know."""
    program._living.cancel()
