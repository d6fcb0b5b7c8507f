"""How the processes at a site reach the coordinator, which runs where the run was launched, and instances elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from xmml_sites.ssh import TransportError

from xmml_executors.launch.local_relay import LocalRelay
from xmml_executors.launch.relay_links import RelayLinks
from xmml_executors.launch.remote_helpers import RemoteHelper
from xmml_executors.launch.remote_port_forwarder import RemotePortForwarder
from xmml_executors.launch.remote_relay import RemoteRelay
from xmml_executors.launch.run_site import RunSite
from xmml_executors.outcome import SiteError


async def addresses_at(
    site: RunSite,
    addresses: Sequence[str],
    relay: LocalRelay | None,
    links: RelayLinks,
    *,
    is_direct: bool,
) -> tuple[dict[str, str], RemoteHelper | None]:
    """Return the variables that tell the processes of a site where the coordinator and their relay are, and what was
    started at the site for that and must be kept.

    A port of the login node's loopback device leads back to us through the ssh connection that we have anyway. A site
    without a queue runs our programs there; a cluster has a relay of its own on its login node, which is linked to ours
    (or, if it cannot have one, a door to ours).

    Args:
        addresses: of the coordinator, as it gives them.
        relay: of this machine, if the run has one.
        links: what the plan says of the links of this site's relay.
        is_direct: every site can reach the addresses as they are; whoever launches the run has said so.

    Raises:
        TransportError: the site forbids the forwarding of ports.
        SiteError: the door does not open.
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
    coming = over_tcp if is_direct and over_tcp else [each for each in addresses if each.startswith("relay:")]
    coordinator = {"XMML_COORDINATOR": ",".join(coming)}
    if site.site.is_here:
        return {**coordinator, "XMML_RELAY": relay.at(relay.host, relay.port)}, None
    port_there = await forwarded_port(site, "127.0.0.1", relay.port)
    own = relay.at("127.0.0.1", port_there)
    started = None
    if site.site.has_queue:
        own, started = await relay_or_door(site, relay, port_there, links)
    return {**coordinator, "XMML_RELAY": own}, started


async def forwarded_port(site: RunSite, host: str, port: int) -> int:
    """Return a port of the login node's loopback device that leads to one of ours. The site chooses it, and sometimes
    finds at first that somebody else has just taken it."""
    for pause_s in (0.2, 0.5):
        try:
            return (await site.transport.forward_remote(host, port)).port
        except TransportError:
            await asyncio.sleep(pause_s)
    return (await site.transport.forward_remote(host, port)).port


async def relay_or_door(site: RunSite, relay: LocalRelay, port: int, links: RelayLinks) -> tuple[str, RemoteHelper]:
    """Return where the compute nodes of a cluster find a relay, and what leads there: a relay on their login node, else
    a door to ours. `port` of the login node's loopback device leads to ours.

    Raises:
        SiteError: the door does not open.
    """
    options = links.words(f"127.0.0.1:{port}")
    there = RemoteRelay(site, f"{site.name}-{relay.run[-8:]}", options, relay.run, relay.secret, relay.certificates)
    has_one = await there.start()
    host = site.site.relay.host if site.site.relay is not None else None
    if host is None:
        host = (await site.transport.run("hostname")).stdout.strip()
    if has_one:
        return f"{host}:{there.port}/{there.name}", there
    through = RemotePortForwarder(site, port)
    if not await through.start_on(0):
        raise SiteError(f"site {site.name}: compute nodes cannot come through its login node: the door has ended")
    return relay.at(host, through.port), through
