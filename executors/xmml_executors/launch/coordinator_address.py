"""How the processes at a site reach the coordinator, which runs where the run was launched, and instances elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from xmml_sites.ssh import TransportError

from xmml_executors.launch.local_relay import LocalRelay
from xmml_executors.launch.relay_links import RelayLinks
from xmml_executors.launch.remote_helpers import RemoteHelper
from xmml_executors.launch.remote_relay import RemoteRelay
from xmml_executors.launch.run_site import RunSite
from xmml_executors.launch.site_pool import SiteLogin
from xmml_executors.outcome import SiteError


async def addresses_at(
    site: RunSite,
    addresses: Sequence[str],
    relay: LocalRelay | None,
    links: RelayLinks,
    *,
    is_direct: bool,
    secret: bytes,
) -> tuple[dict[str, str], RelayEntry | None]:
    """Return the variables that tell the processes of a site where the coordinator and their relay are, and the entry
    to that relay, if they need one.

    A port of the login node's loopback device leads back to us through the ssh connection that we have anyway. A site
    without a queue runs our programs there; a cluster has a relay of its own on its login node, which is linked to ours
    (or, if it cannot have one, a door to ours).

    Args:
        addresses: of the coordinator, as it gives them.
        relay: of this machine, if the run has one.
        links: what the plan says of the links of this site's relay.
        secret: of the run.
        is_direct: every site can reach the addresses as they are; whoever launches the run has said so.

    Raises:
        TransportError: the site forbids the forwarding of ports.
        SiteError: the relay of the site does not begin.
    """
    over_tcp = [each for each in addresses if each.startswith("tcp:")]
    if relay is None:
        if site.site.is_here:
            return {"XMML_COORDINATOR": ",".join(addresses)}, None
        if is_direct or not over_tcp:
            return {"XMML_COORDINATOR": ",".join(over_tcp)}, None
        place, _, run = over_tcp[0].partition("?")
        host, _, port = place.removeprefix("tcp:").rpartition(":")
        return {
            "XMML_COORDINATOR": f"tcp:127.0.0.1:{await forwarded_port(site, host.strip('[]'), int(port))}?{run}"
        }, None
    # Who can come directly needs no relay for that, and is not away while one is started again.
    is_near = is_direct or site.shares_files
    coming = over_tcp if is_near and over_tcp else [each for each in addresses if each.startswith("relay:")]
    coordinator = {"XMML_COORDINATOR": ",".join(coming)}
    if site.site.is_here:
        return {**coordinator, "XMML_RELAY": relay.at(relay.host, relay.port)}, None
    entry = await relay_entry(site, relay, links, secret)
    return {**coordinator, "XMML_RELAY": entry.address}, entry


class RelayEntry:
    """Where the processes of a site find a relay, and the program at the site that is kept alive for that, if any.

    Attributes:
        address: the value of XMML_RELAY.
    """

    def __init__(self, address: str, helper: RemoteHelper | None, login: SiteLogin) -> None:
        self.address = address
        self._helper = helper
        self._login = login
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

    async def add_run(self, run: str, secret: bytes) -> None:
        """Let a run in, too.

        Raises:
            TransportError: the site cannot be reached.
        """
        if self._helper is not None:
            await self._helper.add_run(run, secret)

    async def remove_run(self, run: str, *, is_given_up: bool) -> None:
        """A run needs it no more; it ends, unless the login is kept for other runs.

        Args:
            is_given_up: nothing is heard of the site.
        """
        if not self._login.is_kept:
            await self.close(is_given_up=is_given_up)
        elif self._helper is not None and not is_given_up:
            with contextlib.suppress(TransportError):
                await self._helper.remove_run(run)

    async def close(self, *, is_given_up: bool = False) -> None:
        """End it."""
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        if self._helper is not None and not is_given_up:  # at a site that is silent it ends by itself
            await self._helper.end()

    async def _keep(self) -> None:
        if self._helper is None:
            await asyncio.Event().wait()
        else:
            await self._helper.keep(self._login.tell)


async def relay_entry(site: RunSite, relay: LocalRelay, links: RelayLinks, secret: bytes) -> RelayEntry:
    """Return the entry to the relay of a site. Runs that share the login share it, if their relays have the same links.

    Raises:
        TransportError: the site forbids the forwarding of ports.
        SiteError: the relay of the site does not begin.
    """
    login, key = site.login, (relay.address, *links.words(""))
    async with login.opening:
        place = await _place_of_helpers(site)
        entry = login.entries.get(key)
        if entry is not None and not entry.has_failed:
            await entry.add_run(site.run_id, secret)
            return entry
        port = await forwarded_port(place, "127.0.0.1", relay.port)
        address, helper = relay.at("127.0.0.1", port), None
        if site.site.has_queue:
            options = links.words(f"127.0.0.1:{port}")
            there = RemoteRelay(place, relay.name_at(site.name), options, site.run_id, secret, relay.certificates)
            address, helper = await relay_at(place, there)
        entry = login.entries[key] = RelayEntry(address, helper, login)
        return entry


async def _place_of_helpers(site: RunSite) -> RunSite:
    """Return the site with the folder in which the files of its relay lie: that of the run, or, where runs share the
    login, one of this process. The run notes it first, so that whoever cancels the run after us removes it, too."""
    login = site.login
    if login.shared is None:
        return site
    if login.place is None:
        login.place = RunSite(site.site, login.shared.name, login.shared.journal, login)
        await login.place.locate()
    site.journal.write("share", site=site.name, folder=login.place.folder)
    if not login.is_prepared:
        await login.place.prepare("")
        login.is_prepared = True
    return login.place


async def forwarded_port(site: RunSite, host: str, port: int) -> int:
    """Return a port of the login node's loopback device that leads to one of ours. The site chooses it, and sometimes
    finds at first that somebody else has just taken it."""
    for pause_s in (0.2, 0.5):
        try:
            return await site.forwarded_port(host, port)
        except TransportError:
            await asyncio.sleep(pause_s)
    return await site.forwarded_port(host, port)


async def relay_at(site: RunSite, there: RemoteRelay) -> tuple[str, RemoteHelper]:
    """Start the relay on the login node of a cluster, and return where its compute nodes find it, and the relay.

    Raises:
        SiteError: it does not begin.
    """
    if not await there.start():
        raise SiteError(f"the relay on the login node of {site.name} does not begin; its log: {there.log}")
    host = site.site.relay.host if site.site.relay is not None else None
    if host is None:
        host = (await site.transport.run("hostname")).stdout.strip()
    return f"{host}:{there.port}/{there.name}", there
