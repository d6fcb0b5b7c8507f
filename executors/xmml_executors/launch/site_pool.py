"""What all runs share that one process carries out: an event loop for what happens at sites, one login to each site,
and relays."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from xmml_planner.sites import Site

from xmml_executors.executor import Tell
from xmml_executors.launch.relays.entries import RelayEntries
from xmml_executors.launch.relays.local_relay import LocalRelay
from xmml_executors.launch.site.login import SiteLogin
from xmml_executors.launch.site.shared_folder import SharedFolder
from xmml_executors.run_folder import RunFolder, relay_log

#: How long a site may take to be left when there are no more runs [s].
LEFT_WITHIN_S = 20.0


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
        self._entries: dict[SiteLogin, RelayEntries] = {}
        self._relays: dict[tuple[str, bool, frozenset[str]], LocalRelay] = {}
        self._listeners: list[Tell] = []
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
                login = self._logins[key] = SiteLogin(site, is_kept=self._shared is not None)
                self._entries[login] = RelayEntries(login, self._shared, self.tell)
            return self._logins[key]

    def relay_entries(self, login: SiteLogin) -> RelayEntries:
        """Return the entries to relays that runs have over a login."""
        return self._entries[login]

    def open_relay(self, site: str, folder: RunFolder, *, is_open: bool, clear_from: frozenset[str]) -> LocalRelay:
        """Return the relay of this machine, which serves the run in a folder from now on.

        Args:
            site: the name of this machine's site.
            is_open, clear_from: see `LocalRelay`.

        Raises:
            SiteError: it cannot be started, or does not serve the run.
        """
        key = (site, is_open, clear_from)
        with self._opening:
            relay = self._relays.get(key)
            if relay is not None:
                if relay.has_ended:  # while no run looked after it
                    asyncio.run_coroutine_threadsafe(relay.start_again(), self.loop).result()
                relay.add_run(folder.run_id, folder.relay_key)
                return relay
            name, files = f"{site}-{folder.run_id[-8:]}", folder.files
            if self._shared is not None:
                name, files = f"{site}-{os.urandom(4).hex()}", self._shared.files
            log = relay_log(site)
            relay = LocalRelay(
                name, folder.run_id, folder.relay_key, files, log, is_open=is_open, clear_from=clear_from
            )
            self._relays[key] = relay
            return relay

    def join(self, tell: Tell) -> None:
        """A run begins: send it notices about what runs share."""
        self._listeners.append(tell)

    def leave(self, tell: Tell, run: str) -> None:
        """A run has ended.

        Args:
            tell: as it was given to `join`.
            run: its name.
        """
        self._listeners.remove(tell)
        with self._opening:
            for relay in self._relays.values():
                relay.remove_run(run)
        if self._shared is None:
            self.close()

    def tell(self, text: str, site: str = "") -> None:
        """Send a notice to all runs."""
        for tell in list(self._listeners):
            tell(text, site)

    def close(self) -> None:
        """End relays and connections, and the thread."""
        if self._shared is not None:
            left = asyncio.run_coroutine_threadsafe(self._close_logins(), self.loop).result()
            for text in left:
                print(f"xmml-run: {text}", file=sys.stderr)
            self._shared.close()
        for relay in self._relays.values():
            relay.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def _close_logins(self) -> list[str]:
        """Return why something may be left at sites."""
        closing = [asyncio.ensure_future(_close(login, entries)) for login, entries in self._entries.items()]
        if closing:
            _, late = await asyncio.wait(closing, timeout=LEFT_WITHIN_S)
            for each in late:
                each.cancel()
        ends = await asyncio.gather(*closing, return_exceptions=True)
        return [str(end) or f"a site does not answer within {LEFT_WITHIN_S:g} s" for end in ends if end is not None]


async def _close(login: SiteLogin, entries: RelayEntries) -> None:
    """End what runs have had together at a site, and close the connection."""
    try:
        await entries.close()
    finally:
        await login.transport.close()
