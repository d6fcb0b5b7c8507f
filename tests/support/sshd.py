"""A real sshd for one test: a port chosen by the kernel, its own host key, its own user key, gone with the test.

The listening socket is ours; each connection is handed to an `sshd -i` of its own. So the port is never guessed, and
the test holds every connection in its hand: it can count them, cut them, or change the host key between two of them.

Everything that runs because somebody logged in carries a mark in its environment, so that a test can ask what was left
behind.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import missing
from processes import command_line, processes
from waiting import wait_until
from wan.programs import found
from xmml_native.machine import descendants

SSHD = found("sshd")


class Sshd:
    """A running ssh server on the loopback device.

    Attributes:
        port: where it listens.
        name: how the client configuration calls it; `ssh -F config name` gets there.
        home: the home directory that logins see: none of the files of the person who runs the test are in it. Programs
            in its folder `bin` are found first.
        temporary: the folder for temporary files of logins.
        config: a client configuration in OpenSSH's form; nothing of the person who runs the test is in it.
        mark: stands in the environment of every process started over this server.
    """

    def __init__(
        self, folder: Path, *, name: str = "site", key_kind: str = "ed25519", settings: str = "", pam: str = ""
    ) -> None:
        """
        Args:
            settings: lines of the server's configuration that come before the usual ones, and so count.
            pam: what PAM does for this server: the text of its service. It takes root.
        """
        assert SSHD is not None, "sshd is not installed"
        folder.mkdir(parents=True, exist_ok=True)
        # OpenSSH cannot jump through a host with a configuration whose path has a space.
        self._link = Path(tempfile.mkdtemp(prefix="xmml-sshd-", dir="/tmp")) / name
        self._link.symlink_to(folder)
        self.folder = folder = self._link
        self.name = name
        self.mark = f"XMML_TEST_SSHD={secrets.token_hex(8)}"
        self.home = folder / "home"
        self.user_key = folder / "user_key"
        self.known_hosts = folder / "known_hosts"
        self.config = folder / "ssh_config"
        self.log = folder / "sshd.log"
        self._sshd_config = folder / "sshd_config"
        self._settings = settings
        self._begins: list[str] = []
        if pam:
            services = folder / "pam.d"
            services.mkdir()
            (services / "sshd").write_text(pam)
            # Nobody else on this machine sees these services.
            hidden = f'mount --bind {shlex.quote(str(services))} /etc/pam.d && exec "$0" "$@"'
            self._begins = ["unshare", "--mount", "--propagation", "private", "sh", "-c", hidden]
        self._children: list[subprocess.Popen[bytes]] = []
        self._accepting = True
        self._is_open = threading.Event()
        self._is_open.set()
        self._somebody_waits = threading.Event()
        self.temporary = folder / "tmp"
        self.home.mkdir()
        self.temporary.mkdir()
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd insists on it when root starts it
        _make_key(self.user_key, "ed25519")
        shutil.copy(self.user_key.with_suffix(".pub"), folder / "authorized_keys")
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self.change_host_key(key_kind)
        self.learn_host_key()
        self.config.write_text(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {self.port}\n  User {getpass.getuser()}\n"
            f"  IdentityFile {self.user_key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n"
            f"  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  BatchMode yes\n"
        )
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def change_host_key(self, kind: str = "ed25519") -> None:
        """Give the server another key; what clients know of it stays as it is."""
        key = self.folder / f"host_key_{secrets.token_hex(4)}"
        _make_key(key, kind)
        self._host_key = key
        self._sshd_config.write_text(
            f"{self._settings}\nHostKey {key}\nAuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
            f"UseDNS no\nPrintMotd no\nSubsystem sftp internal-sftp\n"
            f'SetEnv {self.mark} HOME="{self.home}" TMPDIR="{self.temporary}" '
            f'PATH="{self.home}/bin:/usr/local/bin:/usr/bin:/bin"\n'
        )

    def learn_host_key(self) -> None:
        """Let clients know the present key, and no other."""
        kind, key = self._host_key.with_suffix(".pub").read_text().split()[:2]
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    def forget_host_key(self) -> None:
        """Let clients know no key at all."""
        self.known_hosts.write_text("")

    def refuse_key(self) -> None:
        """Let nobody in any more."""
        (self.folder / "authorized_keys").write_text("")

    def stop_listening(self) -> None:
        """Refuse new connections; those that stand go on."""
        self._accepting = False
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def hold(self) -> threading.Event:
        """Let new connections wait, until `let_in`; the event tells that somebody does."""
        self._somebody_waits.clear()
        self._is_open.clear()
        return self._somebody_waits

    def let_in(self) -> None:
        """Let those in who wait, and everybody from now on."""
        self._is_open.set()

    def connections(self) -> int:
        """How many connections stand now."""
        return sum(child.poll() is None for child in self._children)

    def opened(self) -> int:
        """How many connections there have been."""
        return len(self._children)

    def cut(self) -> None:
        """End every connection; what was started over them goes on, as with a real sshd."""
        for child in self._children:
            if child.poll() is None:
                _end(child)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """The daemons that serve the connections do nothing, as long as the block lasts."""
        with contextlib.ExitStack() as stack:
            for child in self._children:
                if child.poll() is None:
                    for pid in [child.pid, *descendants(child.pid)]:
                        os.kill(pid, signal.SIGSTOP)
                        stack.callback(os.kill, pid, signal.SIGCONT)
            yield

    def cut_last(self) -> None:
        """End the connection that came last."""
        _end(self._children[-1])

    def processes(self) -> dict[int, str]:
        """Processes that logins have started and that still run: number and command line."""
        found = {}
        for entry in processes():
            with contextlib.suppress(OSError):  # it has ended, or is another's
                if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = command_line(entry)
        return {pid: line for pid, line in found.items() if line}

    def wait_until_nothing_runs(self, besides: str | None = None) -> dict[int, str]:
        """Wait until nothing that a login started runs any more; return what still does at the limit.

        Args:
            besides: command lines that begin so do not count.
        """

        def left() -> dict[int, str]:
            return {pid: line for pid, line in self.processes().items() if not (besides and line.startswith(besides))}

        with contextlib.suppress(AssertionError):
            wait_until(lambda: not left(), "something still runs")
        return left()

    def close(self) -> None:
        """End the server and everything that was started over it."""
        self.let_in()
        self.stop_listening()
        self._thread.join()
        self.cut()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError):  # it was closed before
            self._link.unlink()
            self._link.parent.rmdir()

    def _accept(self) -> None:
        assert SSHD is not None
        while self._accepting:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self._is_open.is_set():
                self._somebody_waits.set()
                self._is_open.wait()
            with connection:
                self._children.append(
                    subprocess.Popen(
                        [*self._begins, SSHD, "-i", "-f", str(self._sshd_config), "-E", str(self.log)],
                        stdin=connection.fileno(),
                        stdout=connection.fileno(),
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                )


@contextlib.contextmanager
def running_sshd(folder: Path, **options: str) -> Iterator[Sshd]:
    """A server for the length of a `with` statement; skips the test where there is no sshd."""
    if reason := missing("sshd"):
        pytest.skip(reason)
    server = Sshd(folder, **options)
    try:
        yield server
    finally:
        server.close()


def _end(child: subprocess.Popen[bytes]) -> None:
    # Where somebody else than root logs in, the connection is held by a second process in the group of the first.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _make_key(path: Path, kind: str) -> None:
    size = ["-b", "2048"] if kind == "rsa" else []
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, *size, "-N", "", "-C", "xmml test", "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
