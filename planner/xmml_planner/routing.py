"""The ways of the conduits between sites: methods, routes, the relays on them and the paths between those."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from xmml.run_options import method_name
from xmml_planner.execution_plan import ConduitSpec, PlannedPath, PlannedRelay, Route
from xmml_planner.placement.prediction import Predictor
from xmml_planner.planning import Draft
from xmml_planner.ranks import RANK_MARK
from xmml_planner.sites.ways import Way


class Routing:
    """How messages go between the sites of a placement.

    Attributes:
        sites: on the ways, in the order in which they are met; the launcher's among them if others are reached by ssh.
    """

    def __init__(self, predictor: Predictor, site_of: Mapping[str, str], drawn: Draft) -> None:
        self._predictor, self._site_of = predictor, site_of
        self._ways, self._catalogue = predictor.ways, predictor.ways.catalogue
        self._channels = {
            (
                predictor.network.processes[channel.sender].name,
                channel.sender_port,
                predictor.network.processes[channel.receiver].name,
                channel.receiver_port,
            ): channel.index
            for channel in predictor.network.channels
        }
        self._of_conduit = _channels_of(drawn, self._channels)
        self._conduits = drawn.conduits
        far = [site for site in dict.fromkeys(site_of.values()) if not self._catalogue[site].is_here]
        hops: dict[tuple[str, str], None] = {}
        for conduit in drawn.conduits:
            way = self.way(conduit)
            if way is not None and way.method == "relay":
                hops.update(dict.fromkeys(self._hop(*step) for step in pairwise(way.sites)))
        for site in far:  # whoever is far joins the run through the relay of the launcher
            way = self._ways.way(self._ways.launch_site, site, only=("relay",))
            if way is not None:
                hops.update(dict.fromkeys(self._hop(*step) for step in pairwise(way.sites)))
        self._hops = [hop for hop in hops if hop[0] != hop[1]]
        self.sites = list(dict.fromkeys(site for hop in self._hops for site in hop))

    def _hop(self, one: str, other: str) -> tuple[str, str]:
        """Return the clusters at the ends of a hop, in an order that does not depend on the direction."""
        ends = sorted((self._catalogue.cluster(one), self._catalogue.cluster(other)), key=self._place)
        return ends[0], ends[1]

    def _place(self, site: str) -> int:
        return list(self._catalogue.sites).index(site)

    def way(self, conduit: ConduitSpec) -> Way | None:
        """Return the way of a conduit, `None` within a site."""
        sender, receiver = (self._site_of[end.partition(RANK_MARK)[0]] for end in (conduit.sender, conduit.receiver))
        if sender == receiver:
            return None
        channel = self._of_conduit.get(conduit.id)
        return self._ways.way(sender, receiver) if channel is None else self._predictor.way(channel, sender, receiver)

    def methods(self, conduit: ConduitSpec) -> tuple[str, ...]:
        """Return the methods that a conduit between sites may use, the one of its way first."""
        way = self.way(conduit)
        assert way is not None
        wished = tuple(each for each in map(method_name, conduit.methods) if each in ("tcp", "relay"))
        if wished:
            return wished
        if way.method == "relay":
            return ("relay",)
        relayed = self._ways.way(way.sites[0], way.sites[-1], only=("relay",))
        return ("tcp", "relay") if relayed is not None else ("tcp",)

    def size_bytes(self, conduit: ConduitSpec) -> float | None:
        """Return the size of the messages of a conduit, if it is known."""
        channel = self._of_conduit.get(conduit.id)
        return None if channel is None else self._predictor.network.channels[channel].size_bytes

    def fixed_capacity(self, conduit: ConduitSpec) -> int | None:
        """Return the capacity that the model fixes."""
        channel = self._of_conduit.get(conduit.id)
        return None if channel is None else self._predictor.network.channels[channel].capacity

    def routes(self, conduits: Sequence[ConduitSpec]) -> tuple[Route, ...]:
        """Return the route of each conduit that leads to another site."""
        found = []
        for conduit in conduits:
            way = self.way(conduit)
            if way is None:
                continue
            channel, size = self._of_conduit.get(conduit.id), self.size_bytes(conduit)
            messages = self._predictor.sent[channel] if channel is not None else None
            found.append(
                Route(
                    conduit.id,
                    way.sites,
                    way.method,
                    way.latency_s,
                    way.bandwidth,
                    messages,
                    round(messages * size) if messages is not None and size is not None else None,
                )
            )
        return tuple(found)

    def relays(self) -> tuple[PlannedRelay, ...]:
        """Return the relays that the run needs."""
        found = []
        for name in sorted(self.sites, key=self._place):
            relay = self._catalogue[name].relay
            assert relay is not None, "ways lead over sites with relays only"
            found.append(PlannedRelay(name, relay.host, relay.port, relay.listen, relay.through_ssh))
        return tuple(found)

    def paths(self) -> tuple[PlannedPath, ...]:
        """Return the paths between the relays."""
        found = []
        for one, other in self._hops:
            dialling = self._ways.dialling(one, other)
            assert dialling is not None, "ways lead over relays of which one can dial the other"
            link = self._catalogue.link(one, other)
            found.append(
                PlannedPath(
                    (dialling[0], dialling[1]),
                    dialling[2],
                    link.streams,
                    link.encrypt,
                    link.latency_s,
                    link.bandwidth,
                    math.ceil(2 * link.latency_s * link.bandwidth),
                )
            )
        return tuple(found)

    def guessed(self) -> tuple[str, ...]:
        """Return the pairs of sites of whose link nothing is known although messages go over it."""
        pairs: dict[str, None] = {}
        for conduit in self._conduits:
            way = self.way(conduit)
            for one, other in pairwise(way.sites) if way is not None else ():
                link = self._catalogue.link(one, other)
                if link.assumed and self._catalogue.cluster(one) != self._catalogue.cluster(other):
                    pairs[" - ".join(sorted((one, other)))] = None
        return tuple(pairs)


def _channels_of(drawn: Draft, channels: Mapping[tuple[str, str, str, str], int]) -> dict[int, int]:
    """Return by conduit the channel of the analyses that it is (a part of).

    A filter that runs by itself cuts a channel into several conduits: their names all begin with the sender's end and
    lead, one after the other, to the receiver's.
    """
    filters = {own.name for own in drawn.own_filters}
    following = {conduit.sender: conduit for conduit in drawn.conduits if conduit.sender in filters}
    found: dict[int, int] = {}
    for conduit in drawn.conduits:
        if conduit.sender in filters:
            continue
        chain = [conduit]
        while chain[-1].receiver in filters:
            chain.append(following[chain[-1].receiver])
        last = chain[-1]
        key = (
            conduit.sender.partition(RANK_MARK)[0],
            conduit.sender_port,
            last.receiver.partition(RANK_MARK)[0],
            last.receiver_port,
        )
        if key in channels:
            found.update(dict.fromkeys((each.id for each in chain), channels[key]))
    return found
