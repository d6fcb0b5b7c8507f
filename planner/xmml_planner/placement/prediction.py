"""When everything happens if instances are at these sites: the measure by which placements are compared.

The self-timed execution of the model, with run times divided by the speed of the site, messages that take the way
between the sites, and instances that can begin when the jobs of their group have come through the queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise, permutations

from xmml.analysis.network import Network
from xmml.analysis.path_weights import PathWeights, path_weights
from xmml.analysis.self_timed import SelfTimed, simulate
from xmml.late_dataclass import dataclass
from xmml_planner.placement.demands import Demands
from xmml_planner.sites.ways import WITHIN_SITE_S, Way, Ways

SECOND_NS = 1_000_000_000
#: Nothing is taken to last longer [s].
_LONGEST_S = 1e9
#: Operators that are simulated for one placement.
EVENT_LIMIT = 500_000


@dataclass(frozen=True)
class Prediction:
    """What happens with one placement; all times from the launch.

    Attributes:
        sites: by process, where it is.
        releases_ns: by group, when its jobs have come through the queues.
        load_ns: what the busiest link needs for everything that goes over it.
    """

    sites: tuple[str, ...]
    releases_ns: tuple[int, ...]
    load_ns: int
    simulated: SelfTimed

    @property
    def makespan_ns(self) -> int:
        """When the last process is done, and no link has anything left to carry."""
        return max(self.simulated.makespan_ns, self.load_ns)

    @cached_property
    def ends_ns(self) -> Sequence[int]:
        """By process, when it is done."""
        return self.simulated.end_ns

    def path_to(self, process: int) -> PathWeights:
        """Return the chain that the end of a process had to wait for."""
        return path_weights(self.simulated.history.last[process])


class Predictor:
    """Predicts what happens with the instances of one model at the sites of one catalogue."""

    def __init__(self, network: Network, wanted: Demands, ways: Ways, capacities: Sequence[int], sent: Sequence[int]):
        """
        Args:
            capacities: by channel, messages that it may hold.
            sent: by channel, messages that are sent over it in all (0: not known).
        """
        self.network, self.demands, self.ways = network, wanted, ways
        self.sent = sent
        self._capacities = capacities
        self._group_of = [wanted.group_of[wanted.unit_of[process.index]] for process in network.processes]
        self._only = {
            channel.index: methods
            for channel in network.channels
            if (methods := wanted.only.get((wanted.unit_of[channel.sender], wanted.unit_of[channel.receiver])))
        }

    def with_ways(self, ways: Ways) -> Predictor:
        """Return a predictor for the same model and other sites."""
        return Predictor(self.network, self.demands, ways, self._capacities, self.sent)

    def way(self, channel: int, sender: str, receiver: str) -> Way | None:
        """Return the way of a channel's messages between two different sites."""
        return self.ways.way(sender, receiver, only=self._only.get(channel, ()))

    def delay_ns(self, channel: int, sender: str, receiver: str) -> int:
        """Return how long a message of a channel is on its way from site to site.

        Raises:
            ValueError: there is no way.
        """
        if sender == receiver:
            return round(WITHIN_SITE_S * SECOND_NS)
        way = self.way(channel, sender, receiver)
        if way is None:
            raise ValueError(f"there is no way from {sender} to {receiver}")
        return round(min(way.delay_s(self.network.channels[channel].size_bytes or 0), _LONGEST_S) * SECOND_NS)

    def wait_ns(self, site: str) -> int:
        """Return how long jobs wait at a site."""
        return round((self.ways.catalogue[site].queue_wait_s or 0) * SECOND_NS)

    def speed(self, site: str) -> float:
        """Return how fast a site is."""
        return self.ways.catalogue[site].speed

    def releases_ns(self, sites: Sequence[str]) -> tuple[int, ...]:
        """Return by group when its last job comes through the queue."""
        releases = [0] * len(self.demands.groups)
        for process, site in enumerate(sites):
            group = self._group_of[process]
            releases[group] = max(releases[group], self.wait_ns(site))
        return tuple(releases)

    def longest_ns(self, sites: Sequence[str]) -> int:
        """Return what no placement at some of these sites exceeds: everything slow at once."""
        slowest = min(self.speed(site) for site in sites)
        slow_ways: dict[tuple[str, ...], list[Way]] = {}
        delays, load = [], 0.0
        for channel in self.network.channels:
            only, size = self._only.get(channel.index, ()), channel.size_bytes or 0
            if only not in slow_ways:
                slow_ways[only] = self._slow_ways(sites, only)
            ways = slow_ways[only]
            delay = max((way.delay_s(size) for way in ways), default=WITHIN_SITE_S)
            delays.append(round(min(delay, _LONGEST_S) * SECOND_NS))
            load += max((self.sent[channel.index] * size / way.bandwidth for way in ways), default=0.0)
        wait = max(self.wait_ns(site) for site in sites)
        run = self._simulated(lambda process: self.network.processes[process].runtime_ns / slowest, delays, [wait])
        return max(run.makespan_ns, round(min(load, _LONGEST_S) * SECOND_NS)) + 1

    def _slow_ways(self, sites: Sequence[str], only: tuple[str, ...]) -> list[Way]:
        """Return those ways between sites than which no other is slower for messages of any size: from the longest
        latency on, each has a smaller bandwidth than all before it."""
        ways = (self.ways.way(*pair, only=only) for pair in permutations(sites, 2))
        found: list[Way] = []
        for way in sorted(filter(None, ways), key=lambda way: (-way.latency_s, way.bandwidth)):
            if not found or way.bandwidth < found[-1].bandwidth:
                found.append(way)
        return found

    def alone(self, site: str) -> Prediction:
        """Return what happens if everything is at one site, whatever its size, without a queue."""
        sites = [site] * len(self.network.processes)
        delays = [self.delay_ns(channel.index, site, site) for channel in self.network.channels]
        speed = self.speed(site)
        run = self._simulated(lambda process: self.network.processes[process].runtime_ns / speed, delays, [0])
        return Prediction(tuple(sites), (0,) * len(self.demands.groups), 0, run)

    def predict(self, sites: Sequence[str]) -> Prediction:
        """Return what happens with the processes at these sites, between all of which there must be a way."""
        delays = [
            self.delay_ns(channel.index, sites[channel.sender], sites[channel.receiver])
            for channel in self.network.channels
        ]
        releases = self.releases_ns(sites)
        simulated = self._simulated(
            lambda process: self.network.processes[process].runtime_ns / self.speed(sites[process]), delays, releases
        )
        return Prediction(tuple(sites), releases, max(self.loads_ns(sites).values(), default=0), simulated)

    def _simulated(
        self, runtime_ns: Callable[[int], float], delays: Sequence[int], releases: Sequence[int]
    ) -> SelfTimed:
        longest = _LONGEST_S * SECOND_NS
        placed = replace(
            self.network,
            processes=tuple(
                replace(process, runtime_ns=round(min(runtime_ns(process.index), longest)))
                for process in self.network.processes
            ),
        )
        return simulate(
            placed,
            self._capacities,
            delays_ns=delays,
            releases_ns=[releases[group % len(releases)] for group in self._group_of],
            event_limit=EVENT_LIMIT,
        )

    def loads_ns(self, sites: Sequence[str]) -> dict[tuple[str, str], int]:
        """Return by pair of neighbouring sites how long the link between them needs for all that goes over it."""
        loads: dict[tuple[str, str], float] = {}
        for channel, hop in self.crossings(range(len(self.network.channels)), sites):
            loads[hop] = loads.get(hop, 0.0) + self.carried_s(channel, hop)
        return {hop: round(min(load, _LONGEST_S) * SECOND_NS) for hop, load in loads.items()}

    def carried_s(self, channel: int, hop: tuple[str, str]) -> float:
        """Return how long a link is busy with all messages of a channel [s]."""
        size = self.network.channels[channel].size_bytes or 0
        return self.sent[channel] * size / self.ways.catalogue.link(*hop).bandwidth

    def crossings(self, channels: Iterable[int], sites: Sequence[str]) -> Iterable[tuple[int, tuple[str, str]]]:
        """Yield each channel between two sites with each of the links it goes over, by the sites in sorted order."""
        for number in channels:
            channel = self.network.channels[number]
            sender, receiver = sites[channel.sender], sites[channel.receiver]
            if sender == receiver:
                continue
            way = self.way(number, sender, receiver)
            assert way is not None
            for one, other in pairwise(way.sites):
                yield number, (min(one, other), max(one, other))
