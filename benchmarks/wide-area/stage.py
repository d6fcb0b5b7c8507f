"""Puts a file at a site the way a run stages its inputs: stage.py asyncssh|openssh CONFIG HOST FILE TARGET."""

import asyncio
import sys
from pathlib import Path

from xmml_executors.transports.destination import Destination
from xmml_executors.transports.over_asyncssh import AsyncsshTransport
from xmml_executors.transports.over_openssh import OpensshTransport


async def stage(kind: str, config: str, host: str, file: str, target: str) -> None:
    """Put one file."""
    maker = {"asyncssh": AsyncsshTransport, "openssh": OpensshTransport}[kind]
    transport = maker(host, Destination(host), [Path(config)])
    try:
        await transport.put(Path(file), target)
    finally:
        await transport.close()


asyncio.run(stage(*sys.argv[1:6]))
