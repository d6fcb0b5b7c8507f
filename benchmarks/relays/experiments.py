"""The experiments: each gives the samples of one round."""

from __future__ import annotations

import contextlib
import re
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import ends
from chains import Figures, Host, Run, Way, relays, stands, through_relays
from harness.choice import rotated
from harness.processes import RunFailed
from sample import DIRECT, PING, Chain, Figure, Sample
from wan import Machine, Site, Wan

KIB, MIB = 1 << 10, 1 << 20
GIGABIT = 1e9
#: Many users' messages: what a step would show beside its neighbours.
SIZES = (
    *(0, 64, 256, KIB, 2 * KIB, 4 * KIB, 6 * KIB, 8 * KIB, 10 * KIB, 12 * KIB, 16 * KIB, 24 * KIB, 32 * KIB, 48 * KIB),
    *(64 * KIB, 96 * KIB, 128 * KIB, 192 * KIB, 256 * KIB, 384 * KIB, 512 * KIB, 768 * KIB, MIB),
)
#: The RTT of the paper on MUSCLE 2 between two of its sites, and that from Amsterdam to Tokyo in CosmoGrid.
BETWEEN_SITES_MS, ROUND_THE_WORLD_MS = 15.2, 273.0
#: Of links on which control goes beside bulk.
CONTROL_RTTS_MS = (1.0, BETWEEN_SITES_MS)
#: TCP streams of a link round the world.
STREAMS = 64
#: Pings, and round trips, of one pair.
PINGS = 20

Report = Callable[[str], None]


@dataclass(frozen=True)
class Extent:
    """How much is measured. Times are those of one size, or of one stream."""

    sizes_b: Sequence[int]
    latency_s: float
    stream_s: float
    pairs: int
    link_s: float
    haul_s: float


FULL = Extent(SIZES, 0.25, 2.0, 10, 8.0, 40.0)
QUICK = Extent((0, 64, KIB, 4 * KIB, 10 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB), 0.1, 0.7, 3, 3.0, 12.0)


def latency(round: int, extent: Extent, links: Sequence[str], say: Report) -> Iterator[Sample]:
    """One-way times of messages on loopback."""
    chains = [DIRECT]
    for count in (1, 2, 3):
        chains += [Chain("forwarders", count), *(Chain("relays", count, kind) for kind in links)]
    for chain in rotated(chains, round):
        with _failures_told(say, chain), ends.fresh_run() as run, stands(chain, run) as way:
            measured = ends.round_trips(run, way, extent.sizes_b, extent.latency_s)
            for size_b, trips in measured.items():
                yield _on_loopback(round, "latency", chain, size_b, "one way", trips.median_s / 2)
                yield _on_loopback(round, "latency", chain, size_b, "one way, p99", trips.p99_s / 2)
    say("latency")


def throughput(round: int, extent: Extent, links: Sequence[str], say: Report) -> Iterator[Sample]:
    """Streams on loopback through one and two of a kind."""
    chains = [DIRECT]
    for count in (1, 2):
        chains += [Chain("forwarders", count), *(Chain("relays", count, kind) for kind in links)]
    for size_b in (64 * KIB, MIB):
        for chain in rotated(chains, round):
            with _failures_told(say, chain), ends.fresh_run() as run, stands(chain, run) as way:
                came = ends.stream(run, way, size_b, extent.stream_s, extent.stream_s / 4)
                yield _on_loopback(round, "throughput", chain, size_b, "rate", came.bytes / came.seconds)
    say("throughput")


def added(round: int, extent: Extent, links: Sequence[str], say: Report) -> Iterator[Sample]:
    """How much longer than a ping a small message takes there and back, over a link between two sites: in pairs."""
    size_b = 64
    with _two_sites(BETWEEN_SITES_MS) as wan, contextlib.ExitStack() as standing:
        ways: dict[Chain, tuple[Run, Way, ends.Places]] = {}
        login_a, login_b = (_login(wan, site) for site in ("a", "b"))
        direct = Way("tcp", {"XMML_LISTEN": f"{login_a.address}:0"}, {"XMML_LISTEN": f"{login_b.address}:0"})
        ways[DIRECT] = (standing.enter_context(ends.fresh_run()), direct, ends.Places(login_a, login_b, login_a))
        node_a, node_b = (Host(wan[site].node_address(1), wan[site].node(1)) for site in ("a", "b"))
        for chain, logins, last in (
            (Chain("relays", count, kind), logins, last)
            for kind in links
            for count, logins, last in (
                (1, [login_a], login_b),  # which dials the relay of the other site
                (2, [login_a, login_b], node_b),
                (3, [login_a, login_b, login_b], node_b),  # two at one site
            )
        ):
            run = standing.enter_context(ends.fresh_run())
            way = through_relays(standing.enter_context(relays(logins, run, chain.links)))
            ways[chain] = (run, way, ends.Places(node_a, last, login_a))
        for pair in range(extent.pairs):
            for chain in rotated(list(ways), round + pair):
                run, way, places = ways[chain]
                with _failures_told(say, chain):
                    wan.link("a", "b").clear()
                    ping_s = _ping_s(wan["a"].login, wan["b"].address)
                    trips = ends.round_trips(run, way, [size_b], PINGS * BETWEEN_SITES_MS / 1e3, places)
                    late = _late_us(wan)
                    added_s = trips[size_b].median_s - ping_s
                    yield _between_sites(round, "added", PING, size_b, "round trip", ping_s, late)
                    yield _between_sites(round, "added", chain, size_b, "round trip", trips[size_b].median_s, late)
                    yield _between_sites(round, "added", chain, size_b, "added", added_s, late)
    say("added")


def control(round: int, extent: Extent, links: Sequence[str], say: Report) -> Iterator[Sample]:
    """Small messages of class control there and back through two relays, alone and beside a stream of class bulk."""
    size_b = 64
    for rtt_ms in CONTROL_RTTS_MS:
        for kind in rotated([Chain("relays", 2, kind) for kind in links], round):
            with _two_sites(rtt_ms) as wan, ends.fresh_run() as run, _failures_told(say, kind):
                with relays([_login(wan, site) for site in ("a", "b")], run, kind.links) as addresses:
                    way, places = through_relays(addresses), _on_nodes(wan)
                    alone = ends.round_trips(run, way, [size_b], extent.link_s / 2, places)[size_b]
                    loaded, bulk = ends.round_trips_beside_a_stream(run, way, size_b, MIB, extent.link_s, places)
                late, rate = _late_us(wan), bulk.bytes / bulk.seconds
                yield _between_sites(round, "control", kind, size_b, "p99 alone", alone.p99_s, late, rtt_ms)
                yield _between_sites(round, "control", kind, size_b, "p99 beside bulk", loaded.p99_s, late, rtt_ms)
                yield _between_sites(round, "control", kind, MIB, "rate", rate, late, rtt_ms)
    say("control")


def near_link(round: int, extent: Extent, links: Sequence[str], say: Report) -> Iterator[Sample]:
    """A stream through two relays over a link of 1 Gbit/s whose ends are near each other."""
    return _over_a_link(round, "near link", 1.0, 0.0, None, extent.link_s, links, say)


def long_haul(round: int, extent: Extent, links: Sequence[str], say: Report) -> Iterator[Sample]:
    """The same round the world, where a packet in ten thousand is lost, with 64 TCP streams.

    Once relays know nothing of the link, once they are told of it, as those of a launched run are.
    """
    where = (ROUND_THE_WORLD_MS, 1e-4, STREAMS, extent.haul_s, links, say)
    yield from _over_a_link(round, "long haul", *where)
    figures = Figures(ROUND_THE_WORLD_MS / 2e3, GIGABIT / 8)
    yield from _over_a_link(round, "long haul, told", *where, figures)


EXPERIMENTS = {
    "latency": latency,
    "throughput": throughput,
    "added": added,
    "control": control,
    "near-link": near_link,
    "long-haul": long_haul,
}
#: Those that need an emulated network.
BETWEEN_SITES = ("added", "control", "near-link", "long-haul")


def _over_a_link(
    round: int,
    experiment: str,
    rtt_ms: float,
    loss: float,
    streams: int | None,
    seconds: float,
    links: Sequence[str],
    say: Report,
    figures: Figures | None = None,
) -> Iterator[Sample]:
    for kind in rotated([Chain("relays", 2, kind) for kind in links], round):
        with _two_sites(rtt_ms, loss) as wan, ends.fresh_run() as run, _failures_told(say, kind):
            logins = [_login(wan, site) for site in ("a", "b")]
            with relays(logins, run, kind.links, streams, figures) as addresses:
                way = through_relays(addresses)
                came = ends.stream(run, way, MIB, seconds, seconds / 3, _on_nodes(wan))
            if came.bytes == 0:
                raise RunFailed("nothing came once it was warm")
            late = _late_us(wan)
            came_b_s = came.bytes / came.seconds
            yield _between_sites(round, experiment, kind, MIB, "rate", came_b_s, late, rtt_ms, loss)
            yield _between_sites(round, experiment, kind, MIB, "longest gap", came.longest_gap_s, late, rtt_ms, loss)
    say(experiment)


@contextlib.contextmanager
def _two_sites(rtt_ms: float, loss: float = 0.0) -> Iterator[Wan]:
    """Two sites with a node each, whose link carries 1 Gbit/s."""
    sites = [Site(name, nodes=1, open_ports=None, nat=True) for name in ("a", "b")]
    # Kernels remember how fast a host was; every connection shall begin alike.
    kernel = {"ipv4/tcp_no_metrics_save": "1"}
    with Wan(sites, rtt_s=rtt_ms / 1e3, rate_bit_s=GIGABIT, loss=loss, kernel=kernel) as wan:
        yield wan


def _login(wan: Wan, site: str) -> Host:
    return Host(wan[site].address, wan[site].login)


def _on_nodes(wan: Wan) -> ends.Places:
    """The instances on compute nodes, their coordinator on the login node of the first."""
    first, second = (Host(wan[site].node_address(1), wan[site].node(1)) for site in ("a", "b"))
    return ends.Places(first, second, _login(wan, "a"))


def _ping_s(machine: Machine, address: str) -> float:
    done = machine.run(["ping", "-n", "-c", str(PINGS), "-i", "0.02", address], check=False)
    times = [float(each) for each in re.findall(r"time=([\d.]+) ms", done.stdout)]
    if not times:
        raise RunFailed(f"ping: {(done.stderr or done.stdout).strip()[-300:]}")
    return statistics.median(times) / 1e3


def _late_us(wan: Wan) -> float:
    """How much later than they should packets came: the mean of the worse direction [us]."""
    link = wan.link("a", "b")
    return 1e6 * max(link.towards(site).figures().mean_late_s for site in ("a", "b"))


def _on_loopback(round: int, experiment: str, chain: Chain, size_b: int, figure: Figure, value: float) -> Sample:
    return Sample(round, experiment, chain.peer, chain.count, chain.links, 0.0, 0.0, size_b, figure, value)


def _between_sites(
    round: int,
    experiment: str,
    chain: Chain,
    size_b: int,
    figure: Figure,
    value: float,
    late_us: float,
    rtt_ms: float = BETWEEN_SITES_MS,
    loss: float = 0.0,
) -> Sample:
    return Sample(round, experiment, chain.peer, chain.count, chain.links, rtt_ms, loss, size_b, figure, value, late_us)


@contextlib.contextmanager
def _failures_told(say: Report, chain: Chain) -> Iterator[None]:
    """A peer that fails is told, and the others go on."""
    try:
        yield
    except (RunFailed, subprocess.TimeoutExpired) as failure:
        say(f"{chain.label}: {failure}")
