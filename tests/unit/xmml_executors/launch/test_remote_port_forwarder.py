"""The door of a site: it leads to us, and is started again on its port when it ends, also beside one that lingers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from site_here import site_at
from waiting import LIMIT_S, until
from xmml_executors.launch import remote_helpers
from xmml_executors.launch.remote_port_forwarder import RemotePortForwarder
from xmml_executors.outcome import SiteError


async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()


async def await_word(port: int) -> None:
    """Wait until somebody greets at a port."""

    async def is_greeted() -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return False
        word = await reader.read()
        writer.close()
        return word == b"hello"

    await until(is_greeted, "nobody greets")


def test_a_door_that_ends_is_opened_again_on_its_port(tmp_path: Path) -> None:
    async def work() -> list[str]:
        site, told = site_at(tmp_path), list[str]()
        us = await asyncio.start_server(greet, "127.0.0.1", 0)
        try:
            door = RemotePortForwarder(site, us.sockets[0].getsockname()[1])
            assert await door.start_on(0)
            await await_word(door.port)
            keeping = asyncio.create_task(door.keep(told.append))
            first, port = door._process, door.port
            assert first is not None
            await first.kill()
            await await_word(port)
            keeping.cancel()
            assert door.port == port
        finally:
            us.close()
            await site.transport.close()
        return told

    (told,) = asyncio.run(work())
    assert told.startswith("here: its door has ended (exit status ")
    assert told.endswith(") and is started again")


def test_a_door_opens_beside_one_of_ours_that_has_not_noticed_its_end(tmp_path: Path) -> None:
    async def work() -> None:
        site = site_at(tmp_path)
        us = await asyncio.start_server(greet, "127.0.0.1", 0)
        try:
            first, second = (RemotePortForwarder(site, us.sockets[0].getsockname()[1]) for _ in range(2))
            assert await first.start_on(0)
            assert await second.start_on(first.port)
            assert first._process is not None
            await first._process.kill()
            await await_word(second.port)
            assert second.port == first.port
        finally:
            us.close()
            await site.transport.close()

    asyncio.run(work())


def test_a_door_that_cannot_be_opened_again_is_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_helpers, "AGAIN_WITHIN_S", 0.5)

    async def work() -> None:
        site = site_at(tmp_path)
        try:
            door = RemotePortForwarder(site, 1)
            assert await door.start_on(0)
            assert door._process is not None
            site.python = "/nowhere/python"
            await door._process.kill()
            with pytest.raises(SiteError, match=r"the door of here has ended .* and cannot be started again: port"):
                await asyncio.wait_for(door.keep(lambda _: None), LIMIT_S)
        finally:
            await site.transport.close()

    asyncio.run(work())
