"""A program of ours on a login node that is started again whenever it ends, so that those who come back find it."""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import Callable

from xmml_sites.ssh import ConnectionLost, RemoteProcess, SiteUnreachable, TransportError

from xmml_executors.launch.run_site import RunSite
from xmml_executors.outcome import SiteError

#: How long it may take until it serves again: conduits through it are tried for half a minute, the coordinator for a
#: whole one.
AGAIN_WITHIN_S = 55.0
AGAIN_PAUSE_S = 0.3
#: What has served for so long has begun well.
BEGUN_WELL_S = 10.0


class RemoteHelper(abc.ABC):
    """A program that listens on a port at a site, for the runs of this process."""

    #: How people call it.
    kind: str

    def __init__(self, site: RunSite) -> None:
        self.site = site
        self.port = 0
        self._process: RemoteProcess | None = None

    @abc.abstractmethod
    async def start_on(self, port: int) -> bool:
        """Start it on a port (0: any), and note process and port; return whether it serves.

        Raises:
            TransportError: the site cannot be reached.
        """

    @abc.abstractmethod
    async def add_run(self, run: str, secret: bytes) -> None:
        """Serve another run, too.

        Raises:
            TransportError: the site cannot be reached.
        """

    @abc.abstractmethod
    async def remove_run(self, run: str) -> None:
        """Serve a run no more.

        Raises:
            TransportError: the site cannot be reached.
        """

    async def end(self) -> None:
        """End it, unless its site is out of reach: then it ends by itself."""
        if self._process is not None:
            with contextlib.suppress(TransportError):
                await self._process.kill()

    async def keep(self, tell: Callable[[str], None]) -> None:
        """Start it again, on its port, whenever it ends; return never.

        Args:
            tell: says to people what happens.

        Raises:
            SiteError: it has ended for good.
        """
        loop = asyncio.get_running_loop()
        began = failing_since = loop.time()
        while True:
            assert self._process is not None
            try:
                how = f"exit status {await self._process.wait()}"
            except TransportError:
                how = "its connection to us was lost"
            if loop.time() - began > BEGUN_WELL_S:
                failing_since = loop.time()
            elif loop.time() - failing_since > AGAIN_WITHIN_S:
                raise SiteError(f"the {self.kind} of {self.site.name} ends again and again ({how})")
            else:
                await asyncio.sleep(AGAIN_PAUSE_S)
            tell(f"{self.site.name}: its {self.kind} has ended ({how}) and is started again")
            await self._again(how)
            began = loop.time()

    async def _again(self, how: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + AGAIN_WITHIN_S
        why = how
        while loop.time() < until:
            try:
                if await self.start_on(self.port):
                    return
                why = f"port {self.port} is taken, or it does not begin"
            except (SiteUnreachable, ConnectionLost):
                until = loop.time() + AGAIN_WITHIN_S  # whoever speaks with the site says when it is given up
            except Exception as error:  # of ssh, of what it says: whatever it is, another try may do
                why = str(error) or type(error).__name__
            await asyncio.sleep(AGAIN_PAUSE_S)
        raise SiteError(f"the {self.kind} of {self.site.name} has ended ({how}) and cannot be started again: {why}")
