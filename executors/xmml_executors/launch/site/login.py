"""The login to a site, which runs of one process share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from xmml_planner.sites import Site
from xmml_sites.batch import of_site
from xmml_sites.job import JobQueue
from xmml_sites.ssh import Forwarding, Transport, TransportError, open_transport

from xmml_executors.launch.site.session import GatewayConnection
from xmml_executors.launch.site.timeouts import lease_s

#: The least time between two questions to a queue about the jobs of several runs [s].
ASK_EVERY_S = 6.0


class SiteLogin:
    """A connection to a site, and what asks its queue and its gateway.

    Attributes:
        queue: of the site.
        gateway: the connection to its gateway.
        is_kept: it is kept when a run leaves the site, for the next one.
    """

    def __init__(self, site: Site, transport: Transport | None = None, *, is_kept: bool = False) -> None:
        """
        Args:
            transport: the way to the site; `None`: as its description says.

        Raises:
            ConfigurationProblem: the description of the site leads nowhere.
        """
        self.transport = transport or open_transport(site)
        self.scheduler = of_site(site)
        self.queue = JobQueue(self.transport, self.scheduler)
        self.gateway = GatewayConnection(site.name, self.transport, lease_s())
        self.is_kept = is_kept
        if is_kept:
            self.queue.pause_s = ASK_EVERY_S

    async def leave(self, forwardings: Iterable[Forwarding] = ()) -> None:
        """A run has left the site, and needs its forwarded ports no more."""
        if not self.is_kept:
            await self.transport.close()
            return
        for forwarding in forwardings:
            with contextlib.suppress(TransportError):
                await self.transport.stop_forwarding(forwarding)
