"""What goes wrong on the way to a site is told by its cause, alike over both kinds of ssh."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from processes import is_running, parent
from ssh_transports import OVER_SSH, leases, make
from waiting import LIMIT_S, number_in, until
from xmml_sites.ssh import (
    AuthenticationFailed,
    ConnectionLost,
    HostKeyChanged,
    HostKeyUnknown,
    SiteUnreachable,
)

pytestmark = pytest.mark.parametrize("kind", OVER_SSH)

#: Sends a file, tells of its connection by OpenSSH (the process that holds it, its guard, its folder), and stays.
SENDER = """
import asyncio, sys
from pathlib import Path
from ssh_transports import OVER_SSH
from xmml_sites.ssh.destination import Destination

kind, name, configuration, local, remote = sys.argv[1:]

async def main():
    transport = OVER_SSH[kind]("alpha", Destination(name), [Path(configuration)])
    await transport.put(Path(local), remote)
    by_ssh = getattr(transport, "_bulk", transport)
    print(by_ssh._master.pid, by_ssh._guard.pid, by_ssh._folder, flush=True)
    if await asyncio.to_thread(sys.stdin.read, 1):
        await transport.close()

asyncio.run(main())
"""


def first_contact(kind, server):
    """Log in and run nothing."""

    async def work():
        transport = make(kind, server)
        try:
            async with asyncio.timeout(LIMIT_S):
                return await transport.run("echo in")
        finally:
            await transport.close()

    return asyncio.run(work())


def test_a_known_host_lets_in(kind, own_server):
    assert first_contact(kind, own_server).stdout == "in\n"


def test_one_connection_serves_all_commands(kind, own_server):
    async def work():
        transport = make(kind, own_server)
        for _ in range(5):
            await asyncio.gather(*(transport.run("true") for _ in range(10)))
        await transport.close()

    asyncio.run(work())
    assert own_server.opened() == 1


def test_an_unknown_host_key_is_not_accepted(kind, own_server):
    own_server.forget_host_key()
    with pytest.raises(HostKeyUnknown, match="accept it with: xmml sites check"):
        first_contact(kind, own_server)


def test_a_changed_host_key_is_not_accepted(kind, own_server):
    own_server.change_host_key()
    with pytest.raises(HostKeyChanged, match="is not the one in your known_hosts"):
        first_contact(kind, own_server)


def test_a_host_key_of_another_kind_is_a_changed_host_key(kind, own_server):
    own_server.change_host_key("rsa")
    with pytest.raises(HostKeyChanged):
        first_contact(kind, own_server)


def test_switching_the_check_off_in_the_configuration_does_not_switch_it_off(kind, own_server):
    own_server.change_host_key()
    text = own_server.config.read_text().replace("StrictHostKeyChecking yes", "StrictHostKeyChecking no")
    own_server.config.write_text(text)
    with pytest.raises(HostKeyChanged):
        first_contact(kind, own_server)


def test_naming_no_file_of_known_hosts_makes_every_host_unknown(kind, own_server):
    text = own_server.config.read_text().replace(str(own_server.known_hosts), "none")
    own_server.config.write_text(text)
    with pytest.raises(HostKeyUnknown):
        first_contact(kind, own_server)


def test_a_refused_key_says_what_to_do(kind, own_server):
    own_server.refuse_key()
    with pytest.raises(AuthenticationFailed, match="load your key with ssh-add"):
        first_contact(kind, own_server)


def test_a_server_that_is_down_is_unreachable(kind, own_server):
    own_server.stop_listening()
    with pytest.raises(SiteUnreachable, match=r"(?i)connection refused"):
        first_contact(kind, own_server)


def test_a_name_that_does_not_exist_is_unreachable(kind, own_server):
    own_server.config.write_text("Host site\n  HostName no-such-host.invalid\n  UserKnownHostsFile none\n")
    with pytest.raises(SiteUnreachable, match="site alpha: site cannot be reached"):
        first_contact(kind, own_server)


def test_a_login_that_prints_a_banner_does_not_disturb(kind, own_server):
    (own_server.home / ".profile").write_text("echo Welcome; echo Beware >&2\n")
    settings = own_server.folder / "sshd_config"
    settings.write_text(settings.read_text() + 'ForceCommand . ~/.profile; eval "$SSH_ORIGINAL_COMMAND"\n')
    answer = first_contact(kind, own_server)
    assert (answer.stdout, answer.stderr) == ("in\n", "")


def test_a_command_in_the_configuration_is_not_run_instead_of_ours(kind, own_server, tmp_path):
    """As of people whose logins go on in a terminal that stays (`tmux`, `screen`)."""
    local, remote = tmp_path / "here", tmp_path / "there"
    local.write_bytes(bytes(2 * 2**20))
    own_server.config.write_text(own_server.config.read_text() + "  RemoteCommand echo theirs\n  RequestTTY yes\n")

    async def work():
        transport = make(kind, own_server)
        try:
            await transport.put(local, str(remote))
            return (await transport.run("echo ours")).stdout
        finally:
            await transport.close()

    assert asyncio.run(work()) == "ours\n"
    assert remote.stat().st_size == local.stat().st_size


def test_after_a_lost_connection_the_next_command_connects_again(kind, own_server):
    async def work():
        transport = make(kind, own_server)
        lost = asyncio.ensure_future(transport.run("sleep 1000"))
        await until(lambda: "sleep 1000" in own_server.processes().values(), "it does not begin")
        own_server.cut()
        with pytest.raises(ConnectionLost):
            await lost
        assert (await transport.run("echo again")).stdout == "again\n"
        await transport.close()

    asyncio.run(work())


def test_ports_of_a_lost_connection_are_opened_again_also_where_they_are_not_free_at_once(kind, own_server):
    async def greet(reader, writer):
        writer.write(b"hello")
        writer.close()

    async def word_at(port):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return b""
        word = await reader.read()
        writer.close()
        return word

    async def is_greeted(port):
        return await word_at(port) == b"hello"

    async def work():
        transport = make(kind, own_server)
        there = await asyncio.start_server(greet, "127.0.0.1", 0)
        forwarding = await transport.forward_remote("127.0.0.1", there.sockets[0].getsockname()[1])
        assert await is_greeted(forwarding.port)
        own_server.cut()
        await until(lambda: is_free(forwarding.port), "somebody still listens")
        # As where a server has not noticed that the connection is gone: somebody holds the port.
        with socket.create_server(("127.0.0.1", forwarding.port)):
            await until(lambda: is_connected(transport), "it does not connect again")
        await until(lambda: is_greeted(forwarding.port), "its port does not open again")
        await transport.close()
        there.close()

    asyncio.run(work())


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_nothing_stays_here_of_a_connection_whose_process_has_ended(kind, own_server, tmp_path, end):
    local = tmp_path / "here"
    local.write_bytes(bytes(2 * 2**20))
    words = [kind, own_server.name, own_server.config, local, tmp_path / "there"]
    with subprocess.Popen(
        [sys.executable, "-c", SENDER, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as sender:
        master, guard, folder = sender.stdout.readline().split()
        assert is_running(int(master))
        assert is_running(int(guard))
        assert Path(folder).is_dir()
        if end == "closed":
            sender.communicate("x")
        else:
            sender.kill()
    assert sender.returncode == (0 if end == "closed" else -9)

    async def work():
        await until(lambda: not is_running(int(master)) and not is_running(int(guard)), "a process stays")
        await until(lambda: not Path(folder).exists(), "a folder stays")
        await until(lambda: own_server.connections() == 0, "a connection stays")

    asyncio.run(work())


def test_a_command_that_nobody_comes_back_for_ends_with_its_lease(kind, own_server, tmp_path):
    pid = tmp_path / "pid"

    async def work():
        transport = make(kind, own_server)
        await transport.start(f"echo $$ > '{pid}'; exec sleep 1000", lease_s=15)
        number = await asyncio.to_thread(number_in, pid)
        own_server.stop_listening()
        own_server.cut()
        assert is_running(number)
        await until(lambda: not is_running(number), "it does not end with its lease")
        await until(lambda: leases(own_server.temporary) == [], "the folder of its lease stays")
        await transport.close()

    asyncio.run(work())
    assert own_server.wait_until_nothing_runs(besides="sshd") == {}


def test_a_command_that_ends_after_its_connection_leaves_no_folder_and_the_next_has_one(kind, own_server, tmp_path):
    pid = tmp_path / "pid"

    async def work():
        transport = make(kind, own_server)
        try:
            await transport.start(f"echo $$ > '{pid}'; exec sleep 1000", lease_s=600)
            number = await asyncio.to_thread(number_in, pid)
            assert len(leases(own_server.temporary)) == 1
            shell = parent(number)
            server = parent(shell)
            own_server.cut()
            await until(lambda: parent(shell) != server, "its connection stays")
            os.kill(number, signal.SIGTERM)  # as who cleans up after us
            await until(lambda: leases(own_server.temporary) == [], "the folder of its lease stays")
            process = await again(transport)
            assert [line async for line in process.lines()] == ["again"]
        finally:
            await transport.close()

    async def again(transport):
        while True:  # until the loss of the connection is noticed
            with contextlib.suppress(ConnectionLost):
                return await transport.start("echo again", lease_s=600)

    asyncio.run(work())
    assert leases(own_server.temporary) == []


def test_the_configuration_leads_through_another_host(kind, own_server):
    text = own_server.config.read_text()
    jump = text.replace(f"Host {own_server.name}\n", "Host gate\n")
    own_server.config.write_text(text + "  ProxyJump gate\n" + jump)
    assert first_contact(kind, own_server).stdout == "in\n"
    assert own_server.opened() == 2


def test_a_connection_that_is_made_again_leaves_none_to_the_host_on_the_way(kind, own_server):
    text = own_server.config.read_text()
    jump = text.replace(f"Host {own_server.name}\n", "Host gate\n")
    own_server.config.write_text(text + "  ProxyJump gate\n" + jump)

    async def work():
        transport = make(kind, own_server)
        try:
            for _ in range(3):
                opened = own_server.opened()
                await until(lambda: is_connected(transport), "it does not connect again")
                assert own_server.opened() > opened
                await until(
                    lambda: own_server.connections() == 2,
                    lambda: f"{own_server.connections()} of {own_server.opened()} connections stand, not 2",
                )
                own_server.cut_last()
        finally:
            await transport.close()

    asyncio.run(work())


async def is_connected(transport):
    """Whether a command gets through; not before the loss of a connection was noticed."""
    try:
        return (await transport.run("true")).status == 0
    except ConnectionLost:
        return False


def test_the_key_of_a_host_on_the_way_is_checked_as_well(kind, own_server):
    text = own_server.config.read_text()
    jump = text.replace(f"Host {own_server.name}\n", "Host gate\n").replace(str(own_server.known_hosts), "none")
    own_server.config.write_text(text + "  ProxyJump gate\n" + jump)
    with pytest.raises((HostKeyUnknown, HostKeyChanged)):
        first_contact(kind, own_server)


def test_a_key_of_the_agent_lets_in(kind, own_server, monkeypatch, tmp_path):
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE)
    try:
        assert agent.stdout.readline()  # it says where it is when it listens there
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", str(own_server.user_key)], check=True)
        own_server.user_key.unlink()
        text = own_server.config.read_text().replace(f"  IdentityFile {own_server.user_key}\n", "")
        own_server.config.write_text(text.replace("  IdentitiesOnly yes\n", ""))
        assert first_contact(kind, own_server).stdout == "in\n"
    finally:
        agent.terminate()
        agent.communicate()
