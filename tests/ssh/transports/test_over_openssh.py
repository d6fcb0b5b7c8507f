"""What only the transport over OpenSSH has to see to."""

import asyncio
import contextlib
import subprocess
import sys
import time

import pytest
from processes import is_running, parent, state
from ssh_transports import make
from waiting import number_in, until
from xmml_sites.ssh import ConnectionLost

#: Stands in for an older `ssh`, as far as it is asked which ciphers it would take.
OLDER = """#!/bin/sh
case "$*" in
*"-F none"*) echo ciphers USUAL;;
*) echo ciphers CONFIGURED;;
esac
"""


@pytest.mark.parametrize(
    ("usual", "configured", "chosen"),
    [
        ("chacha20,aes128-ctr,aes256-gcm@openssh.com,aes128-gcm@openssh.com", "", "{0[3]},{0[2]},{0[0]},{0[1]}"),
        ("chacha20,aes256-gcm@openssh.com,aes128-ctr", "", "{0[1]},{0[0]},{0[2]}"),
        ("chacha20,aes256-gcm@openssh.com", "aes256-ctr", None),
        ("", "", None),
    ],
)
def test_the_fastest_ciphers_that_ssh_knows_come_first(server, tmp_path, monkeypatch, usual, configured, chosen):
    ssh = tmp_path / "ssh"
    ssh.write_text(OLDER.replace("CONFIGURED", configured or usual).replace("USUAL", usual) if usual else "#!/bin/sh\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    expected = ["-o", f"Ciphers={chosen.format(usual.split(','))}"] if chosen else []
    assert asyncio.run(make("openssh", server)._fastest_ciphers()) == expected


def test_a_command_that_is_abandoned_just_when_it_has_ended_keeps_its_exit_status(server, caplog):
    async def work():
        transport = make("openssh", server)
        channel = await transport.open_channel("exit 3")
        process = channel._process
        while state(process.pid) != "Z":
            time.sleep(0.001)  # the loop of asyncio hears of nothing meanwhile
        await channel.abandon()
        assert process.returncode == 3
        await transport.close()

    with watched_by_the_loop():
        asyncio.run(work())
    assert not caplog.records


@contextlib.contextmanager
def watched_by_the_loop():
    """Has asyncio wait for processes in its loop, as it does from Python 3.12 on, not in a thread for each."""
    if sys.version_info >= (3, 12):
        yield
        return
    usual = asyncio.get_child_watcher()
    watcher = asyncio.PidfdChildWatcher()
    asyncio.set_child_watcher(watcher)
    yield
    asyncio.set_child_watcher(usual)


def test_a_lease_that_is_over_leaves_a_connection_alone_that_is_not_ours(own_server, tmp_path):
    socket, pid = own_server.folder / "of-the-user", tmp_path / "pid"
    own_server.config.write_text(f"{own_server.config.read_text()}  ControlPath {socket}\n")
    command = ["ssh", "-F", str(own_server.config), "-M", "-N", own_server.name]
    master = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    async def work():
        await until(socket.exists, "there is no connection")
        transport = make("openssh", own_server)
        await transport.start(f"echo $$ > '{pid}'; exec sleep 1000", lease_s=15)
        shell = parent(await asyncio.to_thread(number_in, pid))
        transport._leases._renewing.cancel()  # as if we were killed
        await until(lambda: not is_running(shell), "it does not end with its lease")
        assert (await transport.run("echo in")).stdout == "in\n"
        assert own_server.opened() == 1
        await transport.close()

    try:
        asyncio.run(work())
        assert master.poll() is None
    finally:
        master.kill()
        master.wait()


def test_a_command_whose_master_has_just_ended_does_not_log_in_by_itself(own_server):
    """The configuration leads through another host, as for many sites: that way is none for it, either."""
    text = own_server.config.read_text()
    jump = text.replace(f"Host {own_server.name}\n", "Host gate\n")
    own_server.config.write_text(text + "  ProxyJump gate\n" + jump)

    async def work():
        async with connected(own_server) as transport:
            opened = own_server.opened()
            (transport._folder / "master").unlink()  # as a master does that ends, after it was asked whether it stands
            channel = await transport.open_channel("true")
            with pytest.raises(ConnectionLost):
                await channel.wait()
            assert own_server.opened() == opened
            assert (await transport.run("echo in")).stdout == "in\n"
            assert own_server.opened() == 2 * opened

    asyncio.run(work())


def test_a_command_of_an_earlier_connection_was_lost_although_another_one_stands(own_server):
    async def work():
        async with connected(own_server) as transport:
            channel = await transport.open_channel("exec sleep 1000")
            await transport.disconnect()
            assert (await transport.run("echo in")).stdout == "in\n"
            with pytest.raises(ConnectionLost):
                await channel.wait()

    asyncio.run(work())


@contextlib.asynccontextmanager
async def connected(server):
    transport = make("openssh", server)
    await transport.connect()
    try:
        yield transport
    finally:
        await transport.close()
