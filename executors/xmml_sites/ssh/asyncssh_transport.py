"""ssh within this process: one connection, all channels in it, made again when it was lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncssh

from xmml_sites.ssh.channel import CommandChannel
from xmml_sites.ssh.channel_transport import ChannelTransport
from xmml_sites.ssh.destination import Destination, configuration_files, read_jumps
from xmml_sites.ssh.failure import (
    AuthenticationFailed,
    ConfigurationProblem,
    ConnectionLost,
    HostKeyChanged,
    HostKeyProblem,
    HostKeyUnknown,
    SiteUnreachable,
    TransportError,
)
from xmml_sites.ssh.host_keys import is_known, known_hosts, known_hosts_files
from xmml_sites.ssh.openssh_transport import FASTEST_CIPHERS, OpensshTransport
from xmml_sites.ssh.transport import Forwarding

CONNECT_S = 20.0
#: A connection over which nothing comes for this long is lost.
KEEPALIVE_S = 10
KEEPALIVES = 3
#: What is taken in advance of a reader [bytes]: 20 ms at 400 MB/s.
WINDOW = 8 * 2**20
#: How long to wait before asking again for a session that was refused [s].
REFUSED_WAITS_S = (0.05, 0.1, 0.2, 0.5, 1.0)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a warning of asyncio tells people something. One comes for each piece that forwarded ports still write to
    a connection that has just been lost, thousands in a moment; the loss itself is noticed and reported."""
    return record.msg != "socket.send() raised exception."


logging.getLogger("asyncio").addFilter(_is_news)


class AsyncsshTransport(ChannelTransport):
    """A site over asyncssh."""

    def __init__(self, site: str, destination: Destination, configuration: Sequence[Path] | None = None) -> None:
        super().__init__(site)
        self.destination = destination
        self._chosen_configuration = configuration
        self._configuration = [str(path) for path in (configuration or configuration_files())]
        self._connection: asyncssh.SSHClientConnection | None = None
        self._bulk: asyncssh.SSHClientConnection | OpensshTransport | None = None
        #: Connections to the machines on the way, of those for commands (False) and of those for files (True).
        self._jumps: dict[bool, list[asyncssh.SSHClientConnection]] = {False: [], True: []}
        self._forwardings: dict[Forwarding, tuple[str, str, int]] = {}
        self._listeners: dict[Forwarding, asyncssh.SSHListener] = {}

    async def connect(self) -> None:
        async with self._connecting:
            if _stands(self._connection):
                return
            self._connection = await self._open(self.destination)
            await self.reopen(list(self._forwardings))

    async def reconnect(self, forwarding: Forwarding) -> bool:
        wanted, connection = self._forwardings.get(forwarding), self._connection
        if wanted is None or not _stands(connection):
            return True  # the next connection opens it
        try:
            listener = await self._listen(*wanted, forwarding.port)
        except (asyncssh.Error, asyncssh.ChannelListenError, OSError):
            return not _stands(connection)
        if forwarding in self._forwardings and self._connection is connection:
            self._listeners[forwarding] = listener
        else:
            listener.close()  # nobody wants it any more, or another connection has opened it again
        return True

    async def _open(self, destination: Destination, *, for_bulk: bool = False) -> asyncssh.SSHClientConnection:
        options = await self._options(destination)
        await _close_all(self._jumps[for_bulk])  # those of the connection that this one comes after
        files = known_hosts_files(options)
        known = known_hosts(files)
        tunnel: asyncssh.SSHClientConnection | None = None
        if isinstance(options.tunnel, str) and options.tunnel != "none":
            try:
                jumps = read_jumps(options.tunnel)
            except ValueError as error:
                raise ConfigurationProblem(
                    self.site, f"ProxyJump in the configuration of ssh for {destination}: {error}"
                ) from None
            for jump in jumps:
                tunnel = await self._open_jump(jump, tunnel)
                self._jumps[for_bulk].append(tunnel)
        chooses = not options.config.get("Ciphers")
        arguments: dict[str, Any] = {"encryption_algs": f"^{FASTEST_CIPHERS}"} if chooses else {}
        try:
            async with asyncio.timeout(CONNECT_S + 10):
                return await asyncssh.connect(
                    destination.host,
                    **_address(destination),
                    **arguments,
                    config=self._configuration,
                    known_hosts=known,
                    tunnel=tunnel,
                    connect_timeout=CONNECT_S,
                    login_timeout=CONNECT_S,
                    keepalive_interval=KEEPALIVE_S,
                    keepalive_count_max=KEEPALIVES,
                )
        except asyncssh.PermissionDenied as error:
            raise AuthenticationFailed(self.site, destination, _text(error)) from None
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise AuthenticationFailed(self.site, destination, f"a key cannot be read ({_text(error)})") from None
        except (asyncssh.Error, OSError, TimeoutError, ValueError) as error:
            raise await self._explained(destination, options, known, tunnel, error) from None

    async def _open_jump(
        self, destination: Destination, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        options = await self._options(destination)
        known = known_hosts(known_hosts_files(options))
        try:
            return await asyncssh.connect(
                destination.host,
                **_address(destination),
                config=self._configuration,
                known_hosts=known,
                tunnel=tunnel or (() if options.tunnel and options.tunnel != "none" else None),
                connect_timeout=CONNECT_S,
                login_timeout=CONNECT_S,
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVES,
            )
        except asyncssh.PermissionDenied as error:
            raise AuthenticationFailed(self.site, destination, _text(error)) from None
        except (asyncssh.Error, OSError, TimeoutError, ValueError) as error:
            raise await self._explained(destination, options, known, tunnel, error) from None

    async def _options(self, destination: Destination) -> asyncssh.SSHClientConnectionOptions:
        try:
            options: asyncssh.SSHClientConnectionOptions = await asyncssh.SSHClientConnectionOptions.construct(
                host=destination.host, **_address(destination), config=self._configuration, client_keys=None
            )
            return options
        except (asyncssh.ConfigParseError, ValueError, OSError) as error:
            raise ConfigurationProblem(
                self.site,
                f"the OpenSSH configuration cannot be used ({_text(error)}); mend it, or use "
                'transport = "openssh", which leaves it to ssh itself',
            ) from None

    async def _explained(
        self,
        destination: Destination,
        options: asyncssh.SSHClientConnectionOptions,
        known: bytes,
        tunnel: asyncssh.SSHClientConnection | None,
        error: Exception,
    ) -> TransportError:
        """Why a connection did not come about.

        A server whose kinds of host key we do not know hangs up in the midst of the handshake, which looks like a
        broken network. So the server is asked which key it has whenever the network is not to blame for certain.
        """
        key: asyncssh.SSHKey | None = None
        if isinstance(error, asyncssh.Error | ConnectionError | ValueError) and not isinstance(
            error, ConnectionRefusedError
        ):
            with contextlib.suppress(asyncssh.Error, OSError, TimeoutError, ValueError):
                async with asyncio.timeout(CONNECT_S):
                    key = await asyncssh.get_server_host_key(
                        destination.host, options.port, config=self._configuration, tunnel=tunnel
                    )
        if key is not None:
            host = options.host_key_alias or options.host
            verdict = is_known(known, key, host, "", options.port)
            shown = f"{key.get_algorithm()} {key.get_fingerprint()}"
            if verdict is None:
                return HostKeyUnknown(self.site, destination, shown)
            if verdict is False:
                return HostKeyChanged(self.site, destination, shown)
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return HostKeyProblem(self.site, f"the host key of {destination} is not trusted: {_text(error)}")
        return SiteUnreachable(self.site, destination, _text(error))

    async def open_channel(self, command: str, *, for_bulk: bool = False) -> CommandChannel:
        await self.connect()
        connection = await self._bulk_connection() if for_bulk else self._connection
        assert connection is not None
        if isinstance(connection, OpensshTransport):
            return await connection.open_channel(command)
        try:
            process = await self._process(connection, command)
        except (asyncssh.Error, OSError) as error:
            if _stands(connection):
                raise TransportError(self.site, f"no command can be started there: {_text(error)}") from None
            raise ConnectionLost(self.site, _text(error)) from None
        return _AsyncsshChannel(self.site, process)

    async def _process(
        self, connection: asyncssh.SSHClientConnection, command: str
    ) -> asyncssh.SSHClientProcess[bytes]:
        """Open a session. A server that still puts those away that have just ended refuses for a moment."""
        for wait_s in REFUSED_WAITS_S:
            with contextlib.suppress(asyncssh.ChannelOpenError):
                return await connection.create_process(command, encoding=None, window=WINDOW)
            await asyncio.sleep(wait_s)
        return await connection.create_process(command, encoding=None, window=WINDOW)

    async def _bulk_connection(self) -> asyncssh.SSHClientConnection | OpensshTransport:
        """A second connection, so that commands need not wait behind files: by the installed `ssh`, which takes less
        processor time, else one like the first; the first if the site allows no other."""
        async with self._connecting:
            if isinstance(self._bulk, OpensshTransport):
                return self._bulk  # makes its connection again itself
            if not _stands(self._bulk):
                self._bulk = await self._open_bulk()
            assert self._bulk is not None
            return self._bulk

    async def _open_bulk(self) -> asyncssh.SSHClientConnection | OpensshTransport | None:
        with contextlib.suppress(TransportError):
            by_ssh = OpensshTransport(self.site, self.destination, self._chosen_configuration)
            await by_ssh.connect()
            return by_ssh
        with contextlib.suppress(TransportError):
            return await self._open(self.destination, for_bulk=True)
        return self._connection

    async def forward_local(self, host: str, port: int) -> Forwarding:
        return await self._forward("local", host, port)

    async def forward_remote(self, host: str, port: int) -> Forwarding:
        return await self._forward("remote", host, port)

    async def _forward(self, kind: str, host: str, port: int) -> Forwarding:
        await self.connect()
        connection = self._connection
        try:
            listener = await self._listen(kind, host, port, 0)
        except (asyncssh.Error, asyncssh.ChannelListenError, OSError) as error:
            raise TransportError(
                self.site, f"no port can be forwarded to {host}:{port}: {_text(error)}; the site may forbid it"
            ) from None
        forwarding = Forwarding(listener.get_port(), object())
        self._forwardings[forwarding] = (kind, host, port)
        self._listeners[forwarding] = listener
        if self._connection is not connection:  # the next one was made before it could know of this port
            await self.reconnect(forwarding)
        return forwarding

    async def _listen(self, kind: str, host: str, port: int, at: int) -> asyncssh.SSHListener:
        assert self._connection is not None
        if kind == "local":
            return await self._connection.forward_local_port("127.0.0.1", at, host, port)
        return await self._connection.forward_remote_port("127.0.0.1", at, host, port)

    async def stop_forwarding(self, forwarding: Forwarding) -> None:
        self._forwardings.pop(forwarding, None)
        listener = self._listeners.pop(forwarding, None)
        if listener is not None:
            listener.close()
            with contextlib.suppress(asyncssh.Error, OSError):
                await listener.wait_closed()

    async def disconnect(self) -> None:
        if isinstance(self._bulk, OpensshTransport):
            await self._bulk.disconnect()
            self._bulk = None
        connections = [connection for connection in (self._connection, self._bulk) if connection is not None]
        self._bulk = self._connection = None
        for those in (connections, *self._jumps.values()):
            await _close_all(those)


async def _close_all(connections: list[asyncssh.SSHClientConnection]) -> None:
    """End them, the last first, and empty the list."""
    while connections:
        connection = connections.pop()
        connection.close()
        with contextlib.suppress(asyncssh.Error, OSError, TimeoutError):
            await asyncio.wait_for(connection.wait_closed(), 5)


class _AsyncsshChannel:
    """A command in a channel of a connection."""

    def __init__(self, site: str, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._site = site
        self._process = process
        self.stdin = _Writer(site, process.stdin)
        self.stdout = _Reader(site, process.stdout)
        self.stderr = _Reader(site, process.stderr)

    async def wait(self) -> int:
        with contextlib.suppress(asyncssh.Error, OSError):
            await self._process.wait_closed()
        status = self._process.returncode
        if status is None:
            raise ConnectionLost(self._site, "the server is gone")
        return 128 - status if status < 0 else status

    async def abandon(self) -> None:
        self._process.channel.abort()


class _Writer:
    def __init__(self, site: str, writer: asyncssh.SSHWriter[bytes]) -> None:
        self._site = site
        self._writer = writer

    def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
        except asyncssh.Error as error:
            raise ConnectionLost(self._site, _text(error)) from None

    async def drain(self) -> None:
        try:
            await self._writer.drain()
        except asyncssh.Error as error:
            raise ConnectionLost(self._site, _text(error)) from None

    def write_eof(self) -> None:
        self._writer.write_eof()


class _Reader:
    def __init__(self, site: str, reader: asyncssh.SSHReader[bytes]) -> None:
        self._site = site
        self._reader = reader

    async def read(self, n: int = -1) -> bytes:
        try:
            return await self._reader.read(n)
        except (asyncssh.Error, OSError) as error:
            raise ConnectionLost(self._site, _text(error)) from None


def _stands(connection: asyncssh.SSHClientConnection | None) -> bool:
    return connection is not None and not connection.is_closed()


def _address(destination: Destination) -> dict[str, Any]:
    given: dict[str, Any] = {"username": destination.user} if destination.user else {}
    return {**given, "port": destination.port} if destination.port else given


def _text(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower() if error.errno > 0 else str(error.strerror)
    return " ".join(str(error).split())[:300] or type(error).__name__
