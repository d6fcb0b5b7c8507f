"""`xmml cp` over a real ssh connection."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import XMML
from copied_tree import content
from copy_messages import MOST_DATA_B
from copy_that_goes_over import BEFORE_B, support
from copy_that_goes_over import script as going_over
from copy_that_goes_over import words as words_going_over
from disclosed import Secret
from needs import needs
from sshd import Sshd, running_sshd
from waiting import LIMIT_S, wait_until

pytestmark = needs("sshd")

#: xmml as a shell calls it.
QUOTED = shlex.quote(XMML)
#: The remote end, which takes no more than so many bytes of files, and what has begun, before a file is there.
HELD = """
import os, sys, time
from copy_messages import FileMessage
from xmml_sites.transfer import server
take, room = server.take, [{most}]

class Held:
    def __init__(self, channel):
        self.inner, self.send = channel, channel.send

    def receive(self):
        message = self.inner.receive()
        if message[1] == FileMessage.CHUNK:
            while room[0] <= 0 and not os.path.exists({gate!r}):
                time.sleep(0.02)
            room[0] -= len(message)
        return message

server.take = lambda channel, *rest, **options: take(Held(channel), *rest, **options)
from xmml_run.main import xmml
sys.exit(xmml())
"""
#: This end, whose attempts to dial the host are answered by nobody before a file is there.
UNANSWERED = """
import os, sys, time
from xmml_sites.transfer import negotiation
from xmml_sites.transfer.message_stream import ConnectionBroken

def unanswered(*_):
    while not os.path.exists({there!r}):
        time.sleep(0.02)
    raise ConnectionBroken("nobody answers")

negotiation.dial = unanswered
from xmml_run.main import xmml
sys.exit(xmml())
"""
#: This end, if it waits for the end of another process as long as that takes.
PATIENT = """
import subprocess, sys
wait = subprocess.Popen.wait
subprocess.Popen.wait = lambda self, timeout=None: wait(self)
from xmml_run.main import xmml
sys.exit(xmml())
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd") / "server") as server:
        yield server


Command = Callable[..., list[str]]


@pytest.fixture
def command(server: Sshd) -> Command:
    """The words of `xmml cp` with these arguments, to the server."""

    def words(*arguments: str | Path, remote: str = XMML) -> list[str]:
        ssh = f"ssh -F {shlex.quote(str(server.config))}"
        return [XMML, "cp", "--ssh", ssh, "--remote", remote, *map(str, arguments)]

    return words


@dataclass
class Held:
    """A remote end that takes so many bytes of files, and at least one message of them, and then waits."""

    folder: Path
    most: int

    @property
    def gate(self) -> Path:
        return self.folder / "go-on"

    @property
    def command(self) -> str:
        """Its path, for `--remote`."""
        code = f"import sys; sys.path[:0] = {support()!r}\n" + HELD.format(most=self.most, gate=str(self.gate))
        return script(self.folder / "held", f'exec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"')


def script(path: Path, text: str, shell: str = "/bin/sh") -> str:
    """Write a script that stands in for xmml at the host; return its path."""
    path.write_text(f"#!{shell}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)


def done(words: list[str]) -> dict[str, Any]:
    finished = run([*words, "--json"])
    assert finished.returncode == 0, finished.stderr
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


def files_in(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_folder_goes_there_and_back(command: Command, server: Sshd, tree: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    report = done(command(tree, f"{server.name}:{there}/"))
    assert (report["failed"], report["files"]) == ([], 304)
    assert content(there / "tree") == content(tree)
    done(command(f"{server.name}:{there}/tree", tmp_path / "back"))
    assert content(tmp_path / "back") == content(tree)
    assert done(command(tree, f"{server.name}:{there}/"))["sent_b"] == 0


@pytest.mark.parametrize("way", ["auto", "dial", "ssh"])
def test_an_interrupted_copy_ends_at_both_ends_without_a_trace(
    command: Command, server: Sshd, tmp_path: Path, way: str
) -> None:
    (tmp_path / "file").write_bytes(os.urandom(2 * MOST_DATA_B))
    part = tmp_path / ".copy.xmml-part"
    held = Held(tmp_path, 1)
    words = command("--way", way, tmp_path / "file", f"{server.name}:{tmp_path}/copy", remote=held.command)
    copying = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(part.exists, "nothing is copied")
    copying.send_signal(signal.SIGINT)
    _, said = copying.communicate(timeout=LIMIT_S)
    assert (copying.returncode, said) == (130, "")
    held.gate.touch()
    assert server.wait_until_nothing_runs() == {}


@pytest.mark.parametrize(
    ("way", "words"), [("dial", "dialling the host"), ("dialled", "dialled by the host"), ("ssh", "through ssh")]
)
def test_every_way_leads_to_the_other_end(
    command: Command, server: Sshd, tree: Path, tmp_path: Path, way: str, words: str
) -> None:
    report = done(command("--way", way, "--streams", "3", tree, f"{server.name}:{tmp_path}/copy"))
    assert (report["way"], report["streams"]) == (words, 1 if way == "ssh" else 3)
    assert files_in(tmp_path / "copy") == files_in(tree)


@pytest.mark.parametrize("gives", [True, False])
def test_a_copy_logs_in_once_and_is_done_while_a_firewall_says_nothing(
    command: Command, server: Sshd, tmp_path: Path, gives: bool
) -> None:
    data = os.urandom(20_000_000)
    (tmp_path / "file").write_bytes(data)
    copy = tmp_path / "copy"
    places = (tmp_path / "file", f"{server.name}:{copy}") if gives else (f"{server.name}:{tmp_path}/file", copy)
    ssh = script(tmp_path / "ssh", f"echo login >> '{tmp_path}/logins'\nexec ssh -F '{server.config}' \"$@\"")
    _, *words = command(*places)
    words[words.index("--ssh") + 1] = shlex.quote(ssh)
    report = done([sys.executable, "-c", UNANSWERED.format(there=str(copy)), *words])
    assert report["way"] == "through ssh"
    assert copy.read_bytes() == data
    assert (tmp_path / "logins").read_text() == "login\n"


@pytest.mark.parametrize("gives", [True, False])
def test_a_copy_that_has_begun_through_ssh_goes_over_to_a_path(
    command: Command, server: Sshd, tmp_path: Path, gives: bool
) -> None:
    data = os.urandom(2 * BEFORE_B)
    (tmp_path / "file").write_bytes(data)
    if gives:
        report = done([*words_going_over(), *command(tmp_path / "file", f"{server.name}:{tmp_path}/copy")[1:]])
    else:
        remote = script(tmp_path / "remote", going_over())
        report = done(command(f"{server.name}:{tmp_path}/file", tmp_path / "copy", remote=remote))
    assert (report["failed"], report["way"], report["sent_b"]) == ([], "dialling the host", len(data))
    assert (tmp_path / "copy").read_bytes() == data
    assert server.wait_until_nothing_runs() == {}


@pytest.mark.parametrize(("way", "words"), [("dial", "dialling the host"), ("dialled", "dialled by the host")])
def test_ends_that_see_each_other_over_ipv6_open_a_path(
    command: Command, server: Sshd, tmp_path: Path, way: str, words: str
) -> None:
    need_ipv6()
    (tmp_path / "file").write_text("x")
    seen = script(tmp_path / "seen", f'SSH_CONNECTION="::1 40000 ::1 22" exec {QUOTED} "$@"')
    report = done(command("--way", way, tmp_path / "file", f"{server.name}:{tmp_path}/copy", remote=seen))
    assert report["way"] == words
    assert (tmp_path / "copy").read_text() == "x"


@pytest.mark.parametrize("address", ["::1", "[::1]", "127.0.0.1"])
def test_an_address_of_either_kind_may_be_given(command: Command, server: Sshd, tmp_path: Path, address: str) -> None:
    if address != "127.0.0.1":
        need_ipv6()
    (tmp_path / "file").write_text("x")
    words = command("--way", "dial", "--address", address, tmp_path / "file", f"{server.name}:{tmp_path}/copy")
    assert done(words)["way"] == "dialling the host"


def need_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no loopback device of IPv6: {error}")


def test_a_way_that_is_closed_is_told(command: Command, server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        words = command("--way", "dialled", "--port", str(port), tmp_path / "file", f"{server.name}:{tmp_path}/copy")
        finished = run(words)
    assert finished.returncode == 5
    assert "dialled by the host" in finished.stderr
    assert str(port) in finished.stderr


def test_a_copy_that_is_killed_goes_on_where_it_was(command: Command, server: Sshd, tmp_path: Path) -> None:
    data = os.urandom(120_000_000)
    (tmp_path / "file").write_bytes(data)
    part = tmp_path / ".copy.xmml-part"
    held = Held(tmp_path, 40_000_000)
    words = command(tmp_path / "file", f"{server.name}:{tmp_path}/copy", remote=held.command)
    first = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: part.exists() and part.stat().st_blocks * 512 > 20_000_000, "nothing is copied")
    first.send_signal(signal.SIGKILL)
    first.wait(LIMIT_S)
    held.gate.touch()
    assert server.wait_until_nothing_runs() == {}, "the remote end ends with its connection"
    report = done(words)
    assert 0 < report["sent_b"] <= len(data) - 16_000_000
    assert (tmp_path / "copy").read_bytes() == data
    assert not part.exists()


def test_files_that_fail_are_named_and_the_others_are_copied(command: Command, server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "good").write_text("x")
    os.mkfifo(tmp_path / "from" / "pipe")
    finished = run(command(tmp_path / "from", f"{server.name}:{tmp_path}/to"))
    assert finished.returncode == 5
    assert "pipe: it is neither a file nor a folder nor a link" in finished.stderr
    assert (tmp_path / "to" / "good").read_text() == "x"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["a"], 2, "a source and a destination are needed"),
        (["a", "b"], 2, "within this machine cp does it"),
        (["one:a", "two:b"], 2, "ssh one xmml cp"),
        (["a/x", "b/x", "one:c"], 2, "two sources are called x"),
        (["a", "one:b", "c"], 2, "all sources must be at one place"),
        (["-q", "-oProxyCommand=x:y", "z"], 2, ""),
        (["--streams", "0", "a", "one:b"], 2, "neither a number from 1 to 128 nor auto"),
        (["--port", "9-3", "a", "one:b"], 2, "the smaller one first"),
    ],
)
def test_wrong_usage_is_explained(command: Command, words: list[str], status: int, said: str) -> None:
    finished = run(command(*words))
    assert (finished.returncode, "Traceback" in finished.stderr) == (status, False)
    assert said in finished.stderr


@pytest.mark.parametrize("options", [(), ("-q",)])
def test_a_bar_is_shown_on_a_terminal(command: Command, server: Sshd, tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "file").write_bytes(os.urandom(8 << 20))
    words = command(*options, tmp_path / "file", f"{server.name}:{tmp_path}/copy")
    screen, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=terminal, env=environment) as copying:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # the last program has closed it
            while some := os.read(screen, 4096):
                shown += some
        assert copying.wait(LIMIT_S) == 0
    os.close(screen)
    said = shown.decode()
    if options:
        assert said == ""
    else:
        assert "8.4/8.4 MB" in said
        assert "━" in said
        assert "1 file" in said.splitlines()[-1]


def test_a_missing_source_and_a_missing_folder_are_named(command: Command, server: Sshd, tmp_path: Path) -> None:
    missing = run(command(tmp_path / "no", f"{server.name}:{tmp_path}"))
    assert (missing.returncode, f"{tmp_path}/no: No such file or directory" in missing.stderr) == (5, True)
    nowhere = run(command(f"{server.name}:{tmp_path}/no", tmp_path / "a" / "b"))
    assert (nowhere.returncode, f"{tmp_path}/a: there is no such folder" in nowhere.stderr) == (5, True)
    (tmp_path / "file").touch()
    there = run(command(tmp_path / "file", f"{server.name}:{tmp_path}/c/d"))
    assert (there.returncode, f"{tmp_path}/c: there is no such folder" in there.stderr) == (5, True)


def test_what_is_wrong_at_the_host_is_told(command: Command, server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    absent = run(command(tmp_path / "file", f"{server.name}:{tmp_path}/c", remote="/nowhere/xmml"))
    assert (absent.returncode, "say where it is with --remote" in absent.stderr) == (5, True)
    other = run(command(tmp_path / "file", f"{server.name}:{tmp_path}/c", remote="/bin/echo"))
    assert (other.returncode, "ended with status 0: cp --serve" in other.stderr) == (5, True)


def test_the_configuration_of_ssh_that_the_environment_names_leads_to_the_host(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("here")
    monkeypatch.setenv("XMML_SSH_CONFIG", str(server.config))
    done([XMML, "cp", "--remote", XMML, str(tmp_path / "file"), f"{server.name}:{tmp_path}/copy"])
    assert (tmp_path / "copy").read_text() == "here"
    unknown = run([XMML, "cp", str(tmp_path / "file"), "unknown.invalid:c"])
    assert f"Does `ssh -F {server.config} unknown.invalid true` work?" in unknown.stderr


def test_a_host_that_cannot_be_reached_is_told(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finished = run(command(tmp_path / "file", "unknown.invalid:c"))
    assert (finished.returncode, "ssh cannot reach unknown.invalid" in finished.stderr) == (5, True)


def test_the_remote_end_finds_what_it_is_told_when_it_begins(command: Command, server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    patient = script(tmp_path / "patient", f'until read -t 0; do sleep 0.02; done\nexec {QUOTED} "$@"', "/bin/bash")
    done(command(tmp_path / "file", f"{server.name}:{tmp_path}/copy", remote=patient))
    assert (tmp_path / "copy").read_text() == "x"


@pytest.mark.parametrize("way", ["dial", "ssh"])
def test_a_copy_that_is_done_does_not_wait_for_the_remote_end_to_leave(
    command: Command, server: Sshd, tmp_path: Path, way: str
) -> None:
    (tmp_path / "file").write_text("x")
    go = tmp_path / "go"
    lingers = f"{QUOTED} \"$@\"\nuntil [ -e '{go}' ]; do sleep 0.02; done"
    _, *words = command(
        *("--way", way, tmp_path / "file", f"{server.name}:{tmp_path}/copy"),
        remote=script(tmp_path / "lingers", lingers),
    )
    try:
        done([sys.executable, "-c", PATIENT, *words])
    finally:
        go.touch()
    assert (tmp_path / "copy").read_text() == "x"
    assert server.wait_until_nothing_runs() == {}


def test_a_greeting_of_the_remote_shell_does_no_harm(command: Command, server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    noisy = script(tmp_path / "noisy", f'echo "Welcome! Quota: 3 %"\nexec {QUOTED} "$@"')
    done(command(tmp_path / "file", f"{server.name}:{tmp_path}/copy", remote=noisy))
    assert (tmp_path / "copy").read_text() == "x"


def test_the_secret_of_a_copy_is_in_no_list_of_processes_and_in_no_file(
    command: Command, server: Sshd, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(bytes(2 * MOST_DATA_B))
    heard, there = tmp_path / "heard", tmp_path / "there"
    ssh = script(tmp_path / "ssh", f"tee '{heard}' | ssh -F '{server.config}' \"$@\"")
    there.mkdir()
    held = Held(tmp_path, 1)
    words = command("--way", "dial", tmp_path / "file", f"{server.name}:{there}/copy", remote=held.command)
    words[words.index("--ssh") + 1] = shlex.quote(ssh)
    copying = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_until(lambda: list(there.iterdir()), "nothing is copied")
    _, _, behind = heard.read_bytes().partition(b"\xc4\x20")  # the head of 32 bytes in MessagePack
    assert len(behind) >= 32, "the secret was told over ssh"
    secret = Secret(behind[:32])
    try:
        assert any("cp" in line.split() for line in server.processes().values()), "the other end was looked at"
        assert secret.shown_by_processes() == []
        assert secret.files_below(tmp_path) == [heard]
        assert secret.files_below(server.folder) == []
    finally:
        held.gate.touch()
    said, _ = copying.communicate(timeout=LIMIT_S)
    assert copying.returncode == 0, said
    assert not secret.is_in(said)
    assert secret.files_below(tmp_path) == [heard]
    assert secret.files_below(server.folder) == []
