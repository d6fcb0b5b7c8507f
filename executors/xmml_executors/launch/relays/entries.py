"""Entries to relays: where the processes of a site find one, and what is kept alive at the site for that."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Hashable

from xmml_executors.executor import Tell
from xmml_executors.launch.jobs.site_plan import RelayLinks
from xmml_executors.launch.relays.local_relay import LocalRelay
from xmml_executors.launch.relays.remote_relay import RemoteRelay
from xmml_executors.launch.site.login import SiteLogin
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.launch.site.shared_folder import SharedFolder
from xmml_executors.outcome import SiteError


class RelayEntry:
    """Where the processes of a site find a relay, and the one at the site that is kept alive for that, if any.

    Attributes:
        address: the value of XMML_RELAY.
    """

    def __init__(self, address: str, relay: RemoteRelay | None, tell: Tell, *, is_kept: bool) -> None:
        """
        Args:
            tell: says to people what happens.
            is_kept: it is kept when a run leaves the site.
        """
        self.address = address
        self._relay = relay
        self._tell = tell
        self._is_kept = is_kept
        self._keeping = asyncio.create_task(self._keep())

    @property
    def has_failed(self) -> bool:
        """Whether it leads nowhere any more."""
        return self._keeping.done()

    async def watch(self) -> None:
        """Return never.

        Raises:
            SiteError: it has failed.
        """
        await asyncio.shield(self._keeping)

    async def add_run(self, run: str, relay_key: str) -> None:
        """Let a run in, too."""
        if self._relay is not None:
            await self._relay.add_run(run, relay_key)

    async def remove_run(self, run: str, *, is_given_up: bool) -> None:
        """A run needs it no more; it ends, unless the login is kept for other runs.

        Args:
            is_given_up: nothing is heard of the site.
        """
        if not self._is_kept:
            await self.close(is_given_up=is_given_up)
        elif self._relay is not None and not is_given_up:
            await self._relay.remove_run(run)

    async def close(self, *, is_given_up: bool = False) -> None:
        """End it."""
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        if self._relay is not None:
            await self._relay.end(is_given_up=is_given_up)

    async def _keep(self) -> None:
        if self._relay is None:
            await asyncio.Event().wait()
        else:
            await self._relay.keep(self._tell)


class RelayEntries:
    """The entries to relays that runs have over one login. Runs whose relays have the same links share an entry."""

    def __init__(self, login: SiteLogin, shared: SharedFolder | None, tell: Tell) -> None:
        """
        Args:
            shared: the folder of this process, if it carries out several runs.
            tell: tells people something about the site.
        """
        self._login = login
        self._shared = shared
        self._tell = tell
        self._entries: dict[Hashable, RelayEntry] = {}
        self._opening = asyncio.Lock()
        self._places: dict[Hashable, RunSite] = {}
        self._prepared: set[Hashable] = set()

    async def open(self, site: RunSite, relay: LocalRelay, links: RelayLinks, relay_key: str) -> RelayEntry:
        """Return the entry to the relay of a site for a run.

        Args:
            site: as the run has it.
            relay: of this machine.
            links: of the relay of the site.
            relay_key: of the run.

        Raises:
            TransportError: the site forbids the forwarding of ports.
            SiteError: the relay of the site does not begin.
        """
        key = (relay.address, *links.words(""), links.clear_from)
        async with self._opening:
            place = await self._place_of_files(site, key)
            entry = self._entries.get(key)
            if entry is not None and not entry.has_failed:
                await entry.add_run(site.run_id, relay_key)
                return entry
            port = await place.forwarded_port("127.0.0.1", relay.port)
            address, there = relay.at("127.0.0.1", port), None
            if site.site.has_queue:
                options = links.words(f"127.0.0.1:{port}")
                # Relays of one host and user differ in their names, also those with other links.
                name = f"{site.name}-{os.urandom(4).hex()}" if self._login.is_kept else relay.name_at(site.name)
                there = RemoteRelay(place, name, options, site.run_id, relay_key, relay.certificates, links.clear_from)
                address = await _begun(place, there)
            entry = RelayEntry(address, there, self._tell, is_kept=self._login.is_kept)
            self._entries[key] = entry
            return entry

    async def close(self) -> None:
        """End all of them, and clean what they had at the site.

        Raises:
            SiteError: something may be left there.
        """
        ends = [entry.close() for entry in self._entries.values()]
        await asyncio.gather(*ends, return_exceptions=True)
        places = list(self._places.values())
        cleaned = await asyncio.gather(*(place.clean() for place in places), return_exceptions=True)
        left = [
            f"{place.name}: {place.folder} may be left there: {why}"
            for place, why in zip(places, cleaned, strict=True)
            if why is not None
        ]
        if left:
            raise SiteError("; ".join(left))

    async def _place_of_files(self, site: RunSite, key: Hashable) -> RunSite:
        """Return the site with the folder in which the files of a relay lie: that of the run, or, where runs share the
        login, one of this process for each relay. The run notes it first, so that whoever cancels the run after us
        removes it, too."""
        if self._shared is None:
            return site
        if key not in self._places:
            # Another login of this process may lead to the same site.
            folder = f"{self._shared.name}-{os.urandom(4).hex()}"
            place = RunSite(site.site, folder, self._shared.journal, self._login)
            await place.locate()
            self._places[key] = place
        place = self._places[key]
        site.journal.write("share", site=site.name, folder=place.folder)
        if key not in self._prepared:
            await place.prepare("")
            self._prepared.add(key)
        return place


async def _begun(site: RunSite, there: RemoteRelay) -> str:
    """Start the relay on the login node of a cluster, and return where its compute nodes find it.

    Raises:
        SiteError: it does not begin.
    """
    if not await there.start():
        raise SiteError(
            f"the relay on the login node of {site.name} does not begin: {there.problem}; its log: {there.log}"
        )
    host = site.site.relay.host if site.site.relay is not None else None
    if host is None:
        host = (await site.transport.run("hostname")).stdout.strip()
    return f"{host}:{there.port}/{there.name}"
