"""What only the transport over asyncssh has to see to."""

import asyncio
import contextlib
import socket
import time

import pytest
from ssh_transports import make
from waiting import LIMIT_S, until
from xmml_sites.ssh import ConnectionLost


def test_files_go_also_where_no_ssh_is_installed(own_server, tmp_path, monkeypatch):
    local, remote = tmp_path / "here", tmp_path / "there"
    local.write_bytes(bytes(3 * 2**20))
    monkeypatch.setenv("PATH", str(tmp_path))

    async def work():
        transport = make("asyncssh", own_server)
        await transport.put(local, str(remote))
        await transport.close()

    asyncio.run(work())
    assert remote.read_bytes() == local.read_bytes()
    assert own_server.opened() == 2


@pytest.mark.parametrize("direction", ["local", "remote"])
def test_a_port_that_is_closed_while_it_is_opened_again_stays_closed(own_server, monkeypatch, direction):
    async def work():
        transport = make("asyncssh", own_server)
        forward = transport.forward_local if direction == "local" else transport.forward_remote
        forwarding = await forward("127.0.0.1", 9)
        listen, is_open, may_go_on = transport._listen, asyncio.Event(), asyncio.Event()

        async def listen_slowly(*words):
            listener = await listen(*words)
            is_open.set()
            await may_go_on.wait()
            return listener

        transport._listeners.pop(forwarding).close()
        monkeypatch.setattr(transport, "_listen", listen_slowly)
        opening = asyncio.create_task(until(lambda: transport.reconnect(forwarding), "it is not opened again"))
        await asyncio.wait_for(is_open.wait(), LIMIT_S)
        await transport.stop_forwarding(forwarding)
        may_go_on.set()
        await opening
        assert transport._listeners == {}
        await until(lambda: not listens(forwarding.port), "somebody still listens")
        await transport.close()

    asyncio.run(work())


def test_what_is_still_written_to_a_lost_connection_fills_no_terminal(own_server, caplog):
    async def work():
        transport = make("asyncssh", own_server)
        await transport.connect()
        own_server.cut()
        time.sleep(0.5)  # the loop must not notice before everything is written
        for _ in range(100):
            transport._connection.send_debug("x")
        with contextlib.suppress(ConnectionLost):
            await transport.run("true")  # the loop notices
        await transport.close()

    asyncio.run(work())
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def listens(port):
    """Whether somebody listens at a port."""
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("settings", "cipher"), [("", "aes128-gcm@openssh.com"), ("Ciphers aes256-ctr\n", "aes256-ctr")]
)
def test_the_cipher_that_processors_have_instructions_for_is_taken_unless_the_configuration_says_which(
    own_server, settings, cipher
):
    """With the usual one a port that is forwarded takes far more of the launcher's processor time."""
    own_server.config.write_text(own_server.config.read_text() + settings)

    async def work():
        transport = make("asyncssh", own_server)
        await transport.connect()
        taken = transport._connection.get_extra_info("send_cipher")
        await transport.close()
        return taken

    assert asyncio.run(work()) == cipher
