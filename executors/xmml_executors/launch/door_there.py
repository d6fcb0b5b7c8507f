"""The door of a site that has no relay of its own, through which its compute nodes come to ours."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from xmml_executors.launch import door
from xmml_executors.launch.kept_there import KeptThere
from xmml_executors.launch.run_site import RunSite
from xmml_executors.launch.silence import lease_of_programs_s


class DoorThere(KeptThere):
    """`door.py` on the login node of a site."""

    kind = "door"

    def __init__(self, site: RunSite, leads_to: int) -> None:
        """
        Args:
            leads_to: a port of the login node's loopback device, which leads to us.
        """
        super().__init__(site)
        self.leads_to = leads_to

    async def start_on(self, port: int) -> bool:
        """Start it. Beside one whose connection to us broke, until the lease of that one is over: both lead to us."""
        path = f"{self.site.folder}/door.py"
        await self.site.transport.put_text(path, Path(door.__file__).read_text(encoding="utf-8"))
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
