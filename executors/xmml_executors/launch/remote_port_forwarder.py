"""The door of a site that has no relay of its own, through which its compute nodes come to ours."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from xmml_executors.launch import port_forwarder
from xmml_executors.launch.remote_helpers import RemoteHelper
from xmml_executors.launch.run_site import RunSite
from xmml_executors.launch.timeouts import lease_of_programs_s


class RemotePortForwarder(RemoteHelper):
    """`port_forwarder.py` on the login node of a site."""

    kind = "door"

    def __init__(self, site: RunSite, leads_to: int) -> None:
        """
        Args:
            leads_to: a port of the login node's loopback device, which leads to us.
        """
        super().__init__(site)
        self.leads_to = leads_to

    async def add_run(self, run: str, secret: bytes) -> None:
        """See `RemoteHelper`. What it leads to knows the run."""

    async def remove_run(self, run: str) -> None:
        """See `RemoteHelper`."""

    async def start_on(self, port: int) -> bool:
        """Start it. Beside one whose connection to us broke, until the lease of that one is over: both lead to us."""
        path = f"{self.site.folder}/port_forwarder.py"
        await self.site.transport.put_text(path, Path(port_forwarder.__file__).read_text(encoding="utf-8"))
        words = [self.site.python, "-I", "-S", path, "127.0.0.1", str(self.leads_to), str(port)]
        process = await self.site.transport.start(f"exec {shlex.join(words)}", lease_s=lease_of_programs_s())
        async for line in process.lines():
            try:
                self._process, self.port = process, int(json.loads(line)["port"])
            except (ValueError, KeyError, TypeError):
                await process.kill()  # something else has answered
                return False
            return True
        return False
