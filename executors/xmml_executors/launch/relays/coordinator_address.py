"""How the processes at a site reach the coordinator, which runs where the run was launched, and instances elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from xmml_executors.launch.jobs.site_plan import RelayLinks
from xmml_executors.launch.relays.entries import RelayEntries, RelayEntry
from xmml_executors.launch.relays.local_relay import LocalRelay
from xmml_executors.launch.site.run_site import RunSite


async def addresses_at(
    site: RunSite,
    addresses: Sequence[str],
    relay: LocalRelay | None,
    links: RelayLinks,
    entries: RelayEntries,
    *,
    is_direct: bool,
    relay_key: str,
) -> tuple[dict[str, str], RelayEntry | None]:
    """Return the variables that tell the processes of a site where the coordinator and their relay are, and the entry
    to that relay, if they need one.

    A port of the login node's loopback device leads back to us through the ssh connection that we have anyway. A site
    without a queue runs our programs there; a cluster has a relay of its own on its login node, which is linked to
    ours.

    Args:
        addresses: of the coordinator, as it gives them.
        relay: of this machine, if the run has one.
        links: what the plan says of the links of this site's relay.
        entries: to relays, of the login to the site.
        relay_key: of the run.
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
            "XMML_COORDINATOR": f"tcp:127.0.0.1:{await site.forwarded_port(host.strip('[]'), int(port))}?{run}"
        }, None
    # Who can come directly needs no relay for that, and is not away while one is started again.
    is_near = is_direct or site.shares_files
    coming = over_tcp if is_near and over_tcp else [each for each in addresses if each.startswith("relay:")]
    coordinator = {"XMML_COORDINATOR": ",".join(coming)}
    if site.site.is_here:
        return {**coordinator, "XMML_RELAY": relay.at(relay.host, relay.port)}, None
    entry = await entries.open(site, relay, links, relay_key)
    return {**coordinator, "XMML_RELAY": entry.address}, entry
