"""Forwarded ports that are opened again after the connection was lost."""

from __future__ import annotations

import asyncio

import pytest
from waiting import until
from xmml_sites.ssh import Forwarding
from xmml_sites.ssh.local import LocalTransport


def test_the_ports_of_others_are_opened_again_also_if_who_has_made_the_connection_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ports = [Forwarding(number, object()) for number in (1, 2, 3)]
    opened: list[Forwarding] = []

    async def work() -> None:
        may_go_on = asyncio.Event()

        async def reconnect(forwarding: Forwarding) -> bool:
            if opened:
                await may_go_on.wait()
            opened.append(forwarding)
            return True

        transport = LocalTransport("here")
        monkeypatch.setattr(transport, "reconnect", reconnect)
        connecting = asyncio.create_task(transport.reopen(ports))
        await until(lambda: opened, "no port is opened again")
        connecting.cancel()
        await asyncio.wait([connecting])
        may_go_on.set()
        await until(lambda: len(opened) == 3, "a port stays closed")
        await transport.close()

    asyncio.run(work())
    assert opened == ports
