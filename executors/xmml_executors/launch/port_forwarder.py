"""A door on a login node: compute nodes, which can reach nothing beyond it, come through to a port on its loopback.

    door.py HOST PORT OWN

listens on every interface at port OWN (0: any), prints `{"port": N}`, and joins each connection to HOST:PORT. That end
is an ssh forwarding to the relay of the run, where everybody must prove that they know its secret. It is copied to the
site like the agent, and ends with the lease that it was started under.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys

#: So many connections at once; a run has two or three for each instance.
MOST_CONNECTIONS = 4096
READ_BYTES = 256 * 1024
#: How long the other side may take to answer.
CONNECT_WITHIN_S = 20.0


class PortForwarder:
    """Joins connections."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.count = 0

    async def on_connection(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Somebody has come."""
        if self.count >= MOST_CONNECTIONS:
            back.close()
            return
        self.count += 1
        try:
            there, on = await asyncio.wait_for(asyncio.open_connection(self.host, self.port), CONNECT_WITHIN_S)
            try:
                await asyncio.gather(self.pass_on(here, on), self.pass_on(there, back))
            finally:
                on.close()
        except (OSError, TimeoutError):
            pass  # whoever came sees that the connection closes, and comes again
        finally:
            self.count -= 1
            back.close()

    async def pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Copy until the source ends; then the target is told so."""
        while chunk := await source.read(READ_BYTES):
            target.write(chunk)
            await target.drain()
        with contextlib.suppress(OSError):
            target.write_eof()


async def serve(host: str, port: int, own: int) -> None:
    """Serve until terminated."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    server = await asyncio.start_server(
        PortForwarder(host, port).on_connection,
        "0.0.0.0",
        own,
        backlog=512,
        reuse_port=True,  # one that was started earlier, and whose lease is not over yet, may still be there
    )
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await ended.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
