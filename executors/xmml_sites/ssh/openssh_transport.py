"""ssh by OpenSSH's own program: for second factors, Kerberos and every setting that only ssh itself understands.

One master holds the connection; each command is a client of it. If you have a master of your own running (ControlPath
in ~/.ssh/config, logged in once by hand), that one is used and left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import shutil
import signal
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xmml_sites.ssh.channel import CommandChannel, send_signal, wait_until_ended
from xmml_sites.ssh.channel_transport import ChannelTransport
from xmml_sites.ssh.destination import CONNECT_S, CONNECTION_OPTIONS, Destination, chosen_configuration
from xmml_sites.ssh.failure import (
    AuthenticationFailed,
    ConfigurationProblem,
    ConnectionLost,
    HostKeyChanged,
    HostKeyUnknown,
    SiteUnreachable,
    TransportError,
)
from xmml_sites.ssh.transport import Forwarding

FASTEST_CIPHERS = "aes128-gcm@openssh.com,aes256-gcm@openssh.com"
#: A command whose master has just ended would log in by itself: one login more, which the site may ask a code for, and
#: a connection that nobody knows. The command that would lead to the host fails instead.
_ONLY_THROUGH_MASTER = ["-o", "ProxyCommand=false"]
#: ssh ends so when it could not do its part.
_SSH_FAILED = 255

_CHANGED = re.compile(r"HOST IDENTIFICATION HAS CHANGED|host key for .* has changed", re.IGNORECASE)
_UNKNOWN = re.compile(r"host key is known|Host key verification failed|no matching host key type", re.IGNORECASE)
_REFUSED = re.compile(
    r"^.*(Permission denied|Too many authentication failures|No more authentication).*$", re.MULTILINE
)
_CONFIGURATION = re.compile(r"Bad configuration option|bad configuration options|Bad owner or permissions")
_FINGERPRINT = re.compile(r"\b(\w+) key sent by the remote host is\s+(SHA256:\S+?)\.?\s", re.IGNORECASE)


class OpensshTransport(ChannelTransport):
    """A site over OpenSSH's client."""

    def __init__(
        self,
        site: str,
        destination: Destination,
        configuration: Sequence[Path] | None = None,
        *,
        may_ask: bool = False,
    ) -> None:
        """Prepare a connection; `may_ask`: ssh may ask for a password or a code at the terminal."""
        super().__init__(site)
        self.destination = destination
        files = chosen_configuration() if configuration is None else configuration
        self._options = ["-F", str(files[0])] if files else []
        self._options += ["-o", "StrictHostKeyChecking=yes", *CONNECTION_OPTIONS]
        self._options += [] if may_ask else ["-o", "BatchMode=yes"]
        self._options += ["-p", str(destination.port)] if destination.port else []
        self._options += ["-l", destination.user] if destination.user else []
        self._folder: Path | None = None
        self._master: asyncio.subprocess.Process | None = None
        self._guard: asyncio.subprocess.Process | None = None
        self._socket: list[str] = []
        self._own = False
        self._forwardings: dict[Forwarding, list[str]] = {}

    @property
    def is_own(self) -> bool:
        return self._own

    async def connect(self) -> None:
        async with self._connecting:
            if self._socket and await self._stands():
                return
            await self._end_master()
            if shutil.which("ssh") is None:
                raise ConfigurationProblem(self.site, "OpenSSH's ssh is not installed here")
            self._socket = []
            status, said = await self._control("check")
            if status == 0:
                self._socket, self._own = ["-o", "ControlMaster=no"], False
                await self.reopen(list(self._forwardings))
                return
            if "No ControlPath specified" not in said and _CONFIGURATION.search(said):
                raise ConfigurationProblem(self.site, f"the OpenSSH configuration cannot be used: {_last(said)}")
            await self._start_master()
            await self.reopen(list(self._forwardings))

    async def reconnect(self, forwarding: Forwarding) -> bool:
        words = self._forwardings.get(forwarding)
        if words is None or not self._socket:
            return True
        again = [words[0], words[1].replace(":0:", f":{forwarding.port}:", 1)]
        self._forwardings[forwarding] = again
        return (await self._control("forward", *again))[0] == 0 or not await self._stands()

    async def _start_master(self) -> None:
        ciphers = await self._fastest_ciphers()
        self._folder = Path(tempfile.mkdtemp(prefix="xmml-ssh-"))
        path = str(self._folder / "master")
        try:
            # ssh runs the local command as soon as it is logged in: no need to look again and again.
            self._master = await asyncio.create_subprocess_exec(
                "ssh",
                *self._options,
                *ciphers,
                *["-M", "-N", "-S", path, "-o", "ControlPersist=no", "-o", "ForkAfterAuthentication=no"],
                *["-o", "PermitLocalCommand=yes", "-o", "LocalCommand=echo ready"],
                "--",
                self.destination.host,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session="BatchMode=yes" in self._options,  # Ctrl-C is ours to handle
            )
            self._guard = await _guarding(self._master.pid, self._folder)
            assert self._master.stdout is not None
            assert self._master.stderr is not None
            async with asyncio.timeout(600 if "BatchMode=yes" not in self._options else CONNECT_S + 10):
                ready = await self._master.stdout.readline()
                said = "" if ready else (await self._master.stderr.read(2**16)).decode(errors="replace")
        except TimeoutError:
            await self._end_master()
            raise SiteUnreachable(self.site, self.destination, "no answer in time") from None
        except BaseException:
            await self._end_master()
            raise
        if ready.strip() != b"ready":
            await self._end_master()
            raise await self._explained(said)
        self._socket, self._own = ["-S", path], True

    async def _fastest_ciphers(self) -> list[str]:
        """Put the ciphers first that processors have instructions for, unless the configuration says which to take."""
        shown = (
            _output("ssh", *self._options, "-G", "--", self.destination.host),
            _output("ssh", "-F", "none", "-G", "--", self.destination.host),
        )
        configured, usual = (
            [line for line in each.splitlines() if line.startswith("ciphers ")] for each in await asyncio.gather(*shown)
        )
        if not usual or configured != usual:
            return []
        # The whole list: not every ssh knows `^`, nor all of these.
        known = usual[0].split()[1].split(",")
        fast = [cipher for cipher in FASTEST_CIPHERS.split(",") if cipher in known]
        return ["-o", "Ciphers=" + ",".join([*fast, *(cipher for cipher in known if cipher not in fast)])]

    async def _explained(self, said: str) -> TransportError:
        """Why ssh could not log in, by what it said."""
        destination = self.destination
        if _CHANGED.search(said):
            found = _FINGERPRINT.search(said)
            return HostKeyChanged(self.site, destination, f"{found[1]} {found[2]}" if found else "")
        if _UNKNOWN.search(said):
            # With another kind of key than the known one ssh says that it knows none of this kind.
            is_known = await self._knows_another_key()
            return (HostKeyChanged if is_known else HostKeyUnknown)(self.site, destination)
        if found := _REFUSED.search(said):
            return AuthenticationFailed(self.site, destination, found[0].strip())
        if _CONFIGURATION.search(said):
            return ConfigurationProblem(self.site, f"the OpenSSH configuration cannot be used: {_last(said)}")
        return SiteUnreachable(self.site, destination, _last(said) or "ssh gave no reason")

    async def _knows_another_key(self) -> bool:
        shown = await _output("ssh", *self._options, "-G", "--", self.destination.host)
        facts: dict[str, str] = {}
        for line in shown.splitlines():
            key, _, value = line.partition(" ")
            facts.setdefault(key, value)
        host, port = facts.get("hostkeyalias") or facts.get("hostname", ""), facts.get("port", "22")
        name = host if port == "22" or "hostkeyalias" in facts else f"[{host}]:{port}"
        for file in f"{facts.get('userknownhostsfile', '')} {facts.get('globalknownhostsfile', '')}".split():
            path = Path(file).expanduser()
            if path.is_file() and await _output("ssh-keygen", "-F", name, "-f", str(path)):
                return True
        return False

    async def _stands(self) -> bool:
        return (await self._control("check"))[0] == 0

    async def _control(self, what: str, *words: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            "ssh",
            *self._options,
            *self._socket,
            "-O",
            what,
            *words,
            "--",
            self.destination.host,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        said = (out + err).decode(errors="replace")
        return (process.returncode if process.returncode is not None else _SSH_FAILED), said

    async def open_channel(self, command: str, *, for_bulk: bool = False) -> CommandChannel:
        if not self._socket or (self._own and (self._master is None or self._master.returncode is not None)):
            await self.connect()
        connection = self._socket
        process = await asyncio.create_subprocess_exec(
            "ssh",
            *self._options,
            *connection,
            *["-T", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", *_ONLY_THROUGH_MASTER],
            "--",
            self.destination.host,
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return _OpensshChannel(self, process, connection)

    async def is_lost(self, connection: list[str]) -> bool:
        """Whether a failure of ssh was the connection's, rather than the command's own 255.

        Args:
            connection: what the command went through; by now there may be another one.
        """
        if self._socket is not connection or (
            self._own and (self._master is None or self._master.returncode is not None)
        ):
            return True
        return not await self._stands()

    async def forward_local(self, host: str, port: int) -> Forwarding:
        await self.connect()
        for _ in range(5):  # somebody may take the port between our looking and ssh's
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                at = int(probe.getsockname()[1])
            words = ["-L", f"127.0.0.1:{at}:{_bracketed(host)}:{port}"]
            status, said = await self._control("forward", *words)
            if status == 0:
                forwarding = Forwarding(at, object())
                self._forwardings[forwarding] = words
                return forwarding
        raise self._not_forwarded(host, port, said)

    async def forward_remote(self, host: str, port: int) -> Forwarding:
        await self.connect()
        words = ["-R", f"127.0.0.1:0:{_bracketed(host)}:{port}"]  # the master knows it by this 0, also to end it
        status, said = await self._control("forward", *words)
        found = re.search(r"^(?:Allocated port )?(\d+)\b", said, re.MULTILINE)
        if status != 0 or not found:
            raise self._not_forwarded(host, port, said)
        forwarding = Forwarding(int(found[1]), object())
        self._forwardings[forwarding] = words
        return forwarding

    def _not_forwarded(self, host: str, port: int, said: str) -> TransportError:
        return TransportError(
            self.site, f"no port can be forwarded to {host}:{port}: {_last(said)}; the site may forbid it"
        )

    async def stop_forwarding(self, forwarding: Forwarding) -> None:
        words = self._forwardings.pop(forwarding, None)
        if words and words not in self._forwardings.values():  # the master makes one of two that are the same
            await self._control("cancel", *words)
            if words[0] == "-R":
                # The master does not wait until sshd has closed the port. Sshd answers requests in their order.
                with contextlib.suppress(TransportError):
                    await self.run("true")

    async def disconnect(self) -> None:
        for words in self._forwardings.values():
            await self._control("cancel", *words)
        self._forwardings.clear()
        await self._end_master()
        self._socket = []

    async def _end_master(self) -> None:
        master, self._master = self._master, None
        guard, self._guard = self._guard, None
        try:
            if master is not None:
                send_signal(master, signal.SIGTERM)
                try:
                    await asyncio.wait_for(master.communicate(), 5)
                except TimeoutError:
                    send_signal(master, signal.SIGKILL)
                    await master.communicate()
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None
            if guard is not None:  # last: whenever we are killed, somebody ends what is left
                send_signal(guard, signal.SIGKILL)
                await guard.wait()


class _OpensshChannel:
    """A command as a client of the master."""

    def __init__(self, transport: OpensshTransport, process: asyncio.subprocess.Process, connection: list[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._transport = transport
        self._process = process
        self._connection = connection
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr

    async def wait(self) -> int:
        status = await self._process.wait()
        if (status == _SSH_FAILED and await self._transport.is_lost(self._connection)) or status < 0:
            raise ConnectionLost(self._transport.site, "ssh ended")
        return status

    async def abandon(self) -> None:
        send_signal(self._process, signal.SIGKILL)
        await wait_until_ended(self._process)


async def _guarding(master: int, folder: Path) -> asyncio.subprocess.Process:
    """Start a shell that ends the master, and removes its folder, when its input closes: when we are gone, also by
    SIGKILL. By then the number may be that of another process, which began later."""
    began = f'$(cut -d " " -f 22 /proc/{master}/stat)'
    return await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        f'began="{began}"; read line; [ "{began}" != "$began" ] || kill {master}; rm -rf {shlex.quote(str(folder))}',
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # whoever ends our process group does not end it
    )


async def _output(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate()
    return out.decode(errors="replace")


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
