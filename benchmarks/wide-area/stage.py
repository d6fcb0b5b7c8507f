"""Brings a file to a site the way a run stages its inputs: stage.py asyncssh|openssh CONFIG HOST FILE WORK."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.staged_file import stage_file
from xmml_sites.ssh.asyncssh_transport import AsyncsshTransport
from xmml_sites.ssh.destination import Destination
from xmml_sites.ssh.openssh_transport import OpensshTransport


async def stage(kind: str, config: str, host: str, file: str, work: str) -> None:
    """Bring one file there."""
    maker = {"asyncssh": AsyncsshTransport, "openssh": OpensshTransport}[kind]
    transport = maker(host, Destination(host), [Path(config)])
    try:
        await stage_file(transport, work, Path(file))
    finally:
        await transport.close()


asyncio.run(stage(*sys.argv[1:6]))
