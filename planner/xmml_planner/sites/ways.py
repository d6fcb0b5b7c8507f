"""How messages get from one site to another: directly, from relay to relay, or over relays between.

Two relays join when one can dial the other: it listens where others reach it (`listen`). Any relay that is reached
through ssh (`through_ssh`) joins that of the machine the run is launched from, which so is the meeting point of those
that can only dial out.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, pairwise

import networkx

from xmml.late_dataclass import dataclass
from xmml_planner.sites.catalogue import HERE, Link, Site, SiteCatalogue

#: What a message between two instances of one site needs; there is no figure for it in the catalogue.
WITHIN_SITE_S = 2e-6
#: The size for which the best way is chosen: latency counts for small messages, bandwidth for large ones.
TYPICAL_BYTES = 65_536


@dataclass(frozen=True)
class Way:
    """A way from one site to another.

    Attributes:
        sites: from end to end, those whose relays forward between them.
        method: `tcp` or `relay`.
        latency_s: one way, all hops together [s].
        bandwidth: that of the narrowest hop, bytes per second.
        assumed: some figure of it is a guess.
    """

    sites: tuple[str, ...]
    method: str
    latency_s: float
    bandwidth: float
    assumed: bool

    def delay_s(self, size: float) -> float:
        """Return how long a message of so many bytes is on its way [s]."""
        return self.latency_s + size / self.bandwidth


class Ways:
    """The ways between all sites of a catalogue.

    Attributes:
        catalogue: with the site that the run is launched from, if the file has none.
        launch_site: its name.
    """

    def __init__(self, catalogue: SiteCatalogue) -> None:
        self.launch_site, self.catalogue = _with_launch_site(catalogue)
        self._hops = self._relay_hops()
        self._relayed: Mapping[str, Mapping[str, list[str]]] = {
            site: networkx.single_source_dijkstra_path(self._hops, site, weight="weight")
            for site in self.catalogue.sites
        }
        self._found: dict[tuple[str, str], Way | None] = {}

    def way(self, one: str, other: str, *, only: tuple[str, ...] = ()) -> Way | None:
        """Return the way between two different sites, `None` if there is none.

        Args:
            only: the methods that may be used; empty: any.
        """
        key = one, other
        if not only:
            if key not in self._found:
                self._found[key] = self._best(one, other, ())
            return self._found[key]
        return self._best(one, other, only)

    def _best(self, one: str, other: str, only: tuple[str, ...]) -> Way | None:
        link = self.catalogue.link(one, other)
        if "tcp" in link.methods and (not only or "tcp" in only):
            return Way((one, other), "tcp", link.latency_s, link.bandwidth, link.assumed)
        path = [one, other] if self._are_plain_parts(one, other) else self._relayed[one].get(other)
        if path is None or (only and "relay" not in only):
            return None
        links = [self.catalogue.link(first, second) for first, second in pairwise(path)]
        return Way(
            tuple(path),
            "relay",
            sum(link.latency_s for link in links),
            min(link.bandwidth for link in links),
            any(link.assumed for link in links),
        )

    def links(self) -> list[Link]:
        """Return what lies between all pairs of sites."""
        return [self.catalogue.link(*pair) for pair in combinations(self.catalogue.sites, 2)]

    def dialling(self, one: str, other: str) -> tuple[str, str, str | None] | None:
        """Return which relay dials which, and at what address (`None`: through ssh); `None` if neither can."""
        sites = self.catalogue.sites
        for dialler, dialled in ((one, other), (other, one)):
            relay = sites[dialled].relay
            if relay is not None and relay.listen is not None:
                return dialler, dialled, relay.listen
        for dialler, dialled in ((one, other), (other, one)):
            if dialler == self.launch_site and self._is_reached_by_ssh(sites[dialled]):
                return dialler, dialled, None
            if self.catalogue.cluster(dialler) == self.catalogue.cluster(dialled):
                return dialler, dialled, None
        return None

    def _is_reached_by_ssh(self, site: Site) -> bool:
        return site.relay is not None and (site.relay.through_ssh or site.is_here)

    def _are_plain_parts(self, one: str, other: str) -> bool:
        """Whether two sites are parts of one cluster that differ in nothing on the way to others: no way leads from one
        over the other. Hops between all the parts of a large cluster would make the search for ways take the cube of
        their number."""
        catalogue = self.catalogue
        return (
            catalogue.is_plain_part(one)
            and catalogue.is_plain_part(other)
            and catalogue.cluster(one) == catalogue.cluster(other)
            and None not in (catalogue[one].relay, catalogue[other].relay)
        )

    def _relay_hops(self) -> networkx.Graph:
        graph = networkx.Graph()
        graph.add_nodes_from(self.catalogue.sites)
        for one, other in combinations(self.catalogue.sites, 2):
            link = self.catalogue.link(one, other)
            if None in (self.catalogue[one].relay, self.catalogue[other].relay) or self._are_plain_parts(one, other):
                continue
            if "relay" in link.methods and self.dialling(one, other) is not None:
                graph.add_edge(one, other, weight=link.latency_s + TYPICAL_BYTES / link.bandwidth)
        return graph


def _with_launch_site(catalogue: SiteCatalogue) -> tuple[str, SiteCatalogue]:
    """Return the site of this machine, and the catalogue with it."""
    for site in catalogue.sites.values():
        if site.is_here:
            return catalogue.cluster(site.name), catalogue
    name = HERE
    while name in catalogue.sites:
        name += "-too"
    launch = Site(name, cores=1)
    return name, SiteCatalogue({**catalogue.sites, name: launch}, catalogue.links, catalogue.path)
