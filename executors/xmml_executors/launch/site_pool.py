"""What all runs share that one process carries out: an event loop for what happens at sites, one login to each site,
and relays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from xmml_planner.sites import Site
from xmml_sites.batch import of_site
from xmml_sites.job import JobQueue
from xmml_sites.ssh import Forwarding, Transport, TransportError, open_transport

from xmml_executors.launch.journal import Journal
from xmml_executors.launch.local_relay import LocalRelay
from xmml_executors.launch.site_session import ProxyConnection
from xmml_executors.launch.timeouts import lease_s
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder, relay_log

if TYPE_CHECKING:
    from xmml_executors.launch.coordinator_address import RelayEntry
    from xmml_executors.launch.run_site import RunSite

#: The least time between two questions to a queue about the jobs of several runs [s].
ASK_EVERY_S = 6.0
#: How long a site may take to be left when there are no more runs [s].
LEFT_WITHIN_S = 20.0


class SharedFolder:
    """A folder of a process that carries out several runs, for what belongs to none of them alone.

    Attributes:
        name: of the folder, here and at sites.
    """

    def __init__(self, parent: Path) -> None:
        """Make it.

        Args:
            parent: in which it lies, beside those of other processes.

        Raises:
            SiteError: it cannot be written.
        """
        self.name = f"shared-{os.urandom(4).hex()}"
        self.path = parent.absolute() / self.name
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SiteError(f"{self.path} cannot be made: {error.strerror}") from None
        self.journal = Journal(self.path)

    def close(self) -> None:
        """Remove the journal, since nothing is left at sites; logs stay."""
        self.journal.close()
        self.journal.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()


class SiteLogin:
    """A connection to a site, and what runs have there together.

    Attributes:
        queue: of the site.
        proxy: the connection to its login proxy.
        shared: the folder of this process, if it carries out several runs.
        tell: tells people something about the site.
        opening: held while an entry to a relay is made.
        entries: to relays, by what they lead to.
        place: the site with the folder there that belongs to no run alone; `is_prepared`: it is there.
    """

    def __init__(
        self,
        site: Site,
        transport: Transport | None = None,
        shared: SharedFolder | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """
        Args:
            transport: the way to the site; `None`: as its description says.

        Raises:
            ConfigurationProblem: the description of the site leads nowhere.
        """
        self.transport = transport or open_transport(site)
        self.scheduler = of_site(site)
        self.queue = JobQueue(self.transport, self.scheduler)
        self.proxy = ProxyConnection(site.name, self.transport, lease_s())
        self.shared = shared
        self.tell = tell
        self.opening = asyncio.Lock()
        self.entries: dict[Hashable, RelayEntry] = {}
        self.place: RunSite | None = None
        self.is_prepared = False
        if self.is_kept:
            self.queue.pause_s = ASK_EVERY_S

    @property
    def is_kept(self) -> bool:
        """Whether it is kept when a run leaves the site, for the next one."""
        return self.shared is not None

    async def leave(self, forwardings: Iterable[Forwarding] = ()) -> None:
        """A run has left the site, and needs its forwarded ports no more."""
        if not self.is_kept:
            await self.transport.close()
            return
        for forwarding in forwardings:
            with contextlib.suppress(TransportError):
                await self.transport.stop_forwarding(forwarding)

    async def close(self) -> None:
        """End what runs have had together, and close the connection."""
        try:
            with contextlib.suppress(TransportError, SiteError):
                await asyncio.gather(*(entry.close() for entry in self.entries.values()))
                if self.place is not None:
                    await self.place.clean()
        finally:
            await self.transport.close()


class SitePool:
    """Carries out what runs do at sites, in a thread of its own.

    Attributes:
        loop: the event loop of the thread.
    """

    def __init__(self, shared: SharedFolder | None = None) -> None:
        """
        Args:
            shared: the folder of a process that carries out several runs: connections and relays are kept until the
                pool is closed. `None`: for one run alone.
        """
        self._shared = shared
        self._logins: dict[tuple[str | None, ...], SiteLogin] = {}
        self._relays: dict[tuple[str, bool, bool], LocalRelay] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._opening = threading.Lock()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="xmml sites", daemon=True)
        self._thread.start()

    def login(self, site: Site) -> SiteLogin:
        """Return the login to a site. It is the same for all descriptions that differ only in what jobs ask for.

        Raises:
            ConfigurationProblem: the description of the site leads nowhere.
        """
        way = (site.name, site.ssh, site.transport, site.scheduler, site.dialect)
        key = (*way, site.work, site.python, repr(site.relay))
        with self._opening:
            if key not in self._logins:
                self._logins[key] = SiteLogin(site, None, self._shared, self.tell)
            return self._logins[key]

    def open_relay(self, site: str, folder: RunFolder, *, is_open: bool, takes_clear: bool) -> LocalRelay:
        """Return the relay of this machine, which serves the run in a folder from now on.

        Args:
            site: the name of this machine's site.
            is_open, takes_clear: see `LocalRelay`.

        Raises:
            SiteError: it cannot be started, or does not serve the run.
        """
        key = (site, is_open, takes_clear)
        with self._opening:
            relay = self._relays.get(key)
            if relay is not None:
                relay.add_run(folder.run_id, folder.secret)
                return relay
            name, log = f"{site}-{folder.run_id[-8:]}", folder.relay_log(site)
            if self._shared is not None:
                name, log = f"{site}-{self._shared.name[-8:]}", self._shared.path / relay_log(site)
            relay = LocalRelay(name, folder.run_id, folder.secret, log, is_open=is_open, takes_clear=takes_clear)
            self._relays[key] = relay
            return relay

    def listen(self, tell: Callable[[str], None]) -> None:
        """Tell a run what people should know of that which runs share."""
        self._listeners.append(tell)

    def leave(self, tell: Callable[[str], None], run: str) -> None:
        """A run has ended.

        Args:
            tell: as it was given to `listen`.
            run: its name.
        """
        self._listeners.remove(tell)
        with self._opening:
            for relay in self._relays.values():
                relay.remove_run(run)
        if self._shared is None:
            self.close()

    def tell(self, text: str) -> None:
        """Tell all runs something."""
        for tell in list(self._listeners):
            tell(text)

    def close(self) -> None:
        """End relays and connections, and the thread."""
        if self._shared is not None:
            asyncio.run_coroutine_threadsafe(self._close_logins(), self.loop).result()
            self._shared.close()
        for relay in self._relays.values():
            relay.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def _close_logins(self) -> None:
        with contextlib.suppress(TimeoutError):  # of a site that does not answer nothing is waited for
            async with asyncio.timeout(LEFT_WITHIN_S):
                closing = (each.close() for each in self._logins.values())
                await asyncio.gather(*closing, return_exceptions=True)
