"""Puts a file at a site the way a run stages its inputs: stage.py asyncssh|openssh CONFIG HOST FILE TARGET."""

import asyncio
import sys
from pathlib import Path

from xmml_sites.ssh.asyncssh_transport import AsyncsshTransport
from xmml_sites.ssh.destination import Destination
from xmml_sites.ssh.openssh_transport import OpensshTransport


async def stage(kind: str, config: str, host: str, file: str, target: str) -> None:
    """Put one file."""
    maker = {"asyncssh": AsyncsshTransport, "openssh": OpensshTransport}[kind]
    transport = maker(host, Destination(host), [Path(config)])
    try:
        await transport.put(Path(file), target)
    finally:
        await transport.close()


asyncio.run(stage(*sys.argv[1:6]))
