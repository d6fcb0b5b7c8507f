"""This machine as a site: the same as over ssh, without ssh."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from xmml_sites.ssh.channel import CommandChannel, wait_until_ended
from xmml_sites.ssh.channel_transport import ChannelTransport
from xmml_sites.ssh.transport import Forwarding


class LocalTransport(ChannelTransport):
    """This machine."""

    def __init__(self, site: str) -> None:
        super().__init__(site)
        self._servers: dict[Forwarding, asyncio.Server] = {}

    async def connect(self) -> None:
        """Nothing to do."""

    async def open_channel(self, command: str, *, for_bulk: bool = False) -> CommandChannel:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return _LocalChannel(process)

    async def forward_local(self, host: str, port: int) -> Forwarding:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                far_reader, far_writer = await asyncio.open_connection(host, port)
            except OSError:
                writer.close()
                return
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

        server = await asyncio.start_server(meet, "127.0.0.1", 0)
        forwarding = Forwarding(int(server.sockets[0].getsockname()[1]), object())
        self._servers[forwarding] = server
        return forwarding

    async def forward_remote(self, host: str, port: int) -> Forwarding:
        return await self.forward_local(host, port)

    async def reconnect(self, forwarding: Forwarding) -> bool:
        return True

    async def stop_forwarding(self, forwarding: Forwarding) -> None:
        server = self._servers.pop(forwarding, None)
        if server is not None:
            server.close()

    async def disconnect(self) -> None:
        for forwarding in list(self._servers):
            await self.stop_forwarding(forwarding)


class _LocalChannel:
    """A command of this machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr

    async def wait(self) -> int:
        status = await self._process.wait()
        return 128 - status if status < 0 else status

    async def abandon(self) -> None:
        """End it: its own process group, and that of the time limit that it runs under."""
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            for group in [*map(int, children), self._process.pid]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)
        await wait_until_ended(self._process)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()
