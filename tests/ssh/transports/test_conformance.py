"""Every transport keeps the same promises, whatever carries the commands."""

import asyncio
import contextlib
import hashlib
import os
import time

import pytest
from processes import is_running
from ssh_transports import OVER_SSH, make
from waiting import LIMIT_S, until
from xmml_sites.ssh import CommandExited, NoAnswer, RemoteFileError, TooMuchOutput, TransportError
from xmml_sites.ssh.openssh_transport import OpensshTransport
from xmml_sites.transfer.conversation_stream import ConversationStream
from xmml_sites.transfer.message_stream import ConnectionBroken

LARGE = os.urandom(2**20) * 18 + b"and a rest"


def test_a_command_gives_its_status_and_both_outputs(using):
    async def work(transport):
        answer = await transport.run("echo out; echo err >&2; exit 7")
        assert (answer.status, answer.stdout, answer.stderr) == (7, "out\n", "err\n")

    using(work)


def test_a_command_reads_what_it_is_given_and_may_leave_the_rest(using):
    async def work(transport):
        text = "ä line\n" * 100_000
        assert (await transport.run("cat", text)).stdout == text
        assert (await transport.run("true", text)).status == 0
        assert (await transport.run("cat", None)).stdout == ""

    using(work)


def test_quotes_line_breaks_and_dollars_reach_the_shell_as_they_are(using):
    async def work(transport):
        answer = await transport.run("x='a  \"b\" $c'\nprintf '%s|' \"$x\" `echo d` # the end")
        assert answer.stdout == 'a  "b" $c|d|'

    using(work)


def test_a_command_killed_by_a_signal_says_so(using):
    async def work(transport):
        assert (await transport.run("kill -KILL $$")).status == 137

    using(work)


def test_a_status_of_255_is_the_commands_own(using):
    async def work(transport):
        assert (await transport.run("exit 255")).status == 255

    using(work)


def test_a_command_that_does_not_end_in_time_is_given_up_and_ends_there(using, tmp_path, monkeypatch):
    limits = []
    real = asyncio.timeout

    def timeout(limit_s):
        if limit_s != 2:
            return real(limit_s)
        limits.append(real(None))  # it is over when we say so
        return limits[-1]

    async def work(transport):
        monkeypatch.setattr(asyncio, "timeout", timeout)
        running = asyncio.ensure_future(transport.run(f"echo $$ > '{tmp_path}/pid'; exec sleep 1000", timeout_s=2))
        pid = int(await until(lambda: written(tmp_path / "pid"), "it does not begin"))
        limits[0].reschedule(asyncio.get_running_loop().time())
        with pytest.raises(NoAnswer, match=r"no answer within 2 s from: echo"):
            await running
        await until(lambda: not is_running(pid), "it does not end there")

    using(work)


def written(file):
    """What somebody has written into a file; nothing, if it is not there."""
    return file.read_text().strip() if file.exists() else ""


def test_more_output_than_anybody_wants_is_refused(using):
    async def work(transport):
        with pytest.raises(TooMuchOutput):
            await transport.run("head -c 20000000 /dev/zero")

    using(work)


def test_more_commands_than_channels_wait_for_each_other(using):
    async def work(transport):
        answers = await asyncio.gather(*(transport.run(f"echo {number}") for number in range(20)))
        assert [answer.stdout for answer in answers] == [f"{number}\n" for number in range(20)]

    using(work)


def test_no_more_than_eight_commands_use_a_connection_at_a_time(using, tmp_path):
    def begun():
        return len(list(tmp_path.glob("begun.*")))

    async def work(transport):
        command = f"cd '{tmp_path}'; touch begun.$$; while [ ! -e end.{{0}} ]; do sleep 0.02; done"
        going = [asyncio.ensure_future(transport.run(command.format(number))) for number in range(12)]
        for ended in range(4):
            await until(lambda most=8 + ended: begun() >= most, "no more commands have begun")
            assert begun() == 8 + ended
            (tmp_path / f"end.{ended}").touch()
            await going[ended]
        for number in range(12):
            (tmp_path / f"end.{number}").touch()
        await asyncio.gather(*going)

    using(work)


def test_a_longer_command_is_talked_with_line_by_line(using):
    async def work(transport):
        process = await transport.start('while read line; do echo "got $line"; done; exit 3')
        lines = process.lines()
        for word in ("one", "two"):
            await process.write(f"{word}\n".encode())
            assert await anext(lines) == f"got {word}"
        await process.close_stdin()
        assert await process.wait() == 3

    using(work)


def test_who_writes_to_a_longer_command_that_has_ended_is_told(using):
    async def work(transport):
        process = await transport.start("exit 0")
        await process.wait()

        async def write():
            while True:
                await process.write(b"a line\n")

        with pytest.raises(TransportError):
            await asyncio.wait_for(write(), LIMIT_S)

    using(work)


def test_killing_a_longer_command_ends_all_of_its_group(using, tmp_path):
    async def work(transport):
        process = await transport.start(
            f"cd '{tmp_path}'; trap '' TERM; sleep 1000 & echo $! > part; mv part pid; wait; sleep 1000"
        )
        pid = int(await until(lambda: written(tmp_path / "pid"), "it does not begin"))
        assert is_running(pid)
        await process.kill()
        await until(lambda: not is_running(pid), "a process of the group goes on")
        assert await process.wait() == 137

    using(work)


def test_closing_ends_what_was_started(using, tmp_path):
    pid = tmp_path / "pid"

    async def work(transport):
        await transport.start(f"echo $$ > '{pid}'; exec sleep 1000")
        await until(lambda: written(pid), "it does not begin")

    using(work)
    assert not is_running(int(pid.read_text()))


@pytest.mark.parametrize("part", range(8))
def test_a_start_that_is_given_up_at_any_moment_leaves_nothing(using, tmp_path, part):
    begun = tmp_path / "begun"

    async def work(transport):
        await transport.run("true")
        start = time.monotonic()
        process = await transport.start("exec sleep 1000", lease_s=1000)
        await process.kill()
        takes_s = time.monotonic() - start
        await transport._leases.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(takes_s * part / 8):
                await transport.start(f"echo $$ > '{begun}'; exec sleep 1000", lease_s=1000)

    using(work)
    assert not written(begun) or not is_running(int(written(begun)))


def test_a_command_that_is_killed_before_it_has_begun_does_not_begin(using):
    async def work(transport):
        for _ in range(5):
            process = await transport.start("exec sleep 1000")
            await process.kill()
            assert await process.wait() != 0

    using(work)


def test_a_renewed_lease_keeps_a_command_alive(using, tmp_path):
    go_on = tmp_path / "go-on"

    async def work(transport):
        process = await transport.start(f"while [ ! -e '{go_on}' ]; do sleep 0.02; done; echo done", lease_s=15)
        # It is renewed every 5 s: by the fourth time more has passed than a lease lasts.
        await until(lambda: transport._leases._stamp > 3, "the lease is not renewed")
        go_on.touch()
        assert [line async for line in process.lines()] == ["done"]
        assert await process.wait() == 0

    using(work)


def test_a_command_that_speaks_in_messages_is_spoken_with(using):
    async def work(transport):
        message = os.urandom(3 * 2**20)
        async with transport.converse("exec cat", "echoing", timeout_s=LIMIT_S) as there:
            for sent in (message, b"", b"end"):
                _, received = await asyncio.gather(there.send(sent), there.receive())
                assert received == sent

    using(work)


def test_what_a_command_still_says_when_it_is_spoken_with_no_more_keeps_nobody_waiting(using):
    async def work(transport):
        async with transport.converse("head -c 9000000 /dev/zero; exec cat", "talking", timeout_s=LIMIT_S):
            pass

    using(work)


def test_a_conversation_that_is_cancelled_ends_also_for_a_thread_that_waits_in_it(using):
    conversations, ended = [], []

    def wait(stream):
        with pytest.raises(ConnectionBroken):
            stream.receive()
        ended.append(True)

    async def speak(transport):
        async with transport.converse("exec cat", "echoing", timeout_s=LIMIT_S) as there:
            conversations.append(there)
            await asyncio.to_thread(wait, ConversationStream(there))

    async def work(transport):
        speaking = asyncio.create_task(speak(transport))
        await until(lambda: conversations and len(conversations[0]._changed._waiters) > 1, "nobody waits")
        speaking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await speaking
        await until(lambda: ended, "the thread still waits")

    using(work)


def test_a_command_that_fails_while_it_is_spoken_with_says_why(using):
    async def speak(transport):
        async with transport.converse("echo no such thing >&2; exit 3", "echoing", timeout_s=LIMIT_S) as there:
            with pytest.raises(CommandExited):
                await there.receive()

    async def work(transport):
        with pytest.raises(RemoteFileError, match=r"echoing.*no such thing"):
            await speak(transport)

    using(work)


def test_small_and_large_files_get_there_with_their_permissions(using, tmp_path):
    files = {"empty": b"", "small": b"abc\0\n", "program": b"#!/bin/sh\n", "large": LARGE}
    here, there = tmp_path / "here", tmp_path / "the re's"
    here.mkdir()
    for name, data in files.items():
        (here / name).write_bytes(data)
    (here / "program").chmod(0o755)

    async def work(transport):
        for name in files:
            await transport.put(here / name, f"{there}/deep/{name}")
        answer = await transport.hash_files([f"{there}/deep/{name}" for name in files] + [f"{there}/none"])
        assert answer == {f"{there}/deep/{n}": hashlib.sha256(data).hexdigest() for n, data in files.items()}
        if using.kind == "asyncssh":
            assert isinstance(transport._bulk, OpensshTransport)

    using(work, 120)
    for name, data in files.items():
        assert (there / "deep" / name).read_bytes() == data
        assert (there / "deep" / name).stat().st_mode == (here / name).stat().st_mode
    assert {path.name for path in (there / "deep").iterdir()} == set(files)


def test_a_file_that_two_bring_at_once_comes_whole(using, tmp_path):
    versions = [LARGE, LARGE[::-1]]
    for number, data in enumerate(versions):
        (tmp_path / f"{number}").write_bytes(data)

    async def work(transport):
        await asyncio.gather(*(transport.put(tmp_path / f"{number}", str(tmp_path / "there")) for number in (0, 1)))

    using(work)
    assert (tmp_path / "there").read_bytes() in versions
    assert [path.name for path in tmp_path.glob("there*")] == ["there"]


def test_text_is_written_for_the_owner_alone_and_read_back(using, tmp_path):
    path = tmp_path / "a b" / "secret"

    async def work(transport):
        assert await transport.get_text(str(path)) is None
        await transport.put_text(str(path), "ünï\n")
        await transport.put_text(str(path), "another\n", mode=0o640)
        assert await transport.get_text(str(path)) == "another\n"
        with pytest.raises(TooMuchOutput):
            await transport.get_text(str(path), limit=3)

    using(work)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == ["secret"]


def test_folders_are_made_found_and_removed(using, tmp_path):
    async def work(transport):
        await transport.mkdir(f"{tmp_path}/a/b", f"{tmp_path}/c")
        assert await transport.exists(f"{tmp_path}/a/b")
        await transport.remove(f"{tmp_path}/a", f"{tmp_path}/c", f"{tmp_path}/never was")
        assert not await transport.exists(f"{tmp_path}/a")

    using(work)


def test_paths_may_begin_with_the_home_directory(using, tmp_path):
    local = tmp_path / "file"
    local.write_text("text")

    async def work(transport):
        home = await transport.home()
        name = f"xmml-test-{os.getpid()}"
        try:
            await transport.put(local, f"~/{name}/file")
            assert await transport.get_text(f"{home}/{name}/file") == "text"
            assert list(await transport.hash_files([f"~/{name}/file"])) == [f"~/{name}/file"]
        finally:
            await transport.remove(f"~/{name}")

    using(work)


@pytest.mark.parametrize("size", [100, len(LARGE)])
def test_a_file_that_cannot_be_written_is_named(using, tmp_path, size):
    local = tmp_path / "file"
    local.write_bytes(LARGE[:size])

    async def work(transport):
        with pytest.raises(RemoteFileError) as error:
            await transport.put(local, "/proc/no/such")
        assert "writing /proc/no/such failed" in str(error.value)

    using(work)


def test_a_local_port_leads_to_one_that_the_site_can_reach(using):
    async def work(transport):
        async def greet(reader, writer):
            writer.write(b"hello " + await reader.readline())
            writer.close()

        there = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = there.sockets[0].getsockname()[1]
        for forward in (transport.forward_local, transport.forward_remote):
            forwarding = await forward("127.0.0.1", port)
            reader, writer = await asyncio.open_connection("127.0.0.1", forwarding.port)
            writer.write(b"you\n")
            assert await reader.read() == b"hello you\n"
            writer.close()
            await transport.stop_forwarding(forwarding)
            with pytest.raises(OSError, match="Connect"):
                await asyncio.open_connection("127.0.0.1", forwarding.port)
        there.close()

    using(work)


@pytest.mark.parametrize("kind", OVER_SSH)
def test_the_site_has_closed_its_port_when_forwarding_has_stopped_however_slow_its_sshd_is(kind, own_server):
    async def work():
        transport = make(kind, own_server)
        there = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        forwarding = await transport.forward_remote("127.0.0.1", there.sockets[0].getsockname()[1])
        with own_server.stalled():
            stopping = asyncio.create_task(transport.stop_forwarding(forwarding))
            await asyncio.wait([stopping], timeout=1.0)
            assert not stopping.done()
        await stopping
        with pytest.raises(OSError, match="Connect"):
            await asyncio.open_connection("127.0.0.1", forwarding.port)
        there.close()
        await transport.close()

    asyncio.run(work())
