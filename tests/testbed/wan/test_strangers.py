"""Strangers at a relay, at several hosts at once: refused, mentioned once for each host and reason, and harmless."""

from __future__ import annotations

import collections
import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from measured import Record
from relayed import HOME, PORT, RUN, SITES, Chain, RelayAt, memory_bounded, standing, strangers
from waiting import LIMIT_S, wait_until
from wan import Machine, PlacedSite, Site, Wan, why_not
from wan.soak import LONG

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(900),
]

#: Connections that say nothing, and how many of them a relay has at once (mto/src/relay/admission.rs).
HALF_OPEN = 10_000 if LONG else 1200
MOST_ARRIVALS = 1024
#: Ports that a scan touches at a host, and how often.
SCANNED = range(PORT - 1000, PORT + 1000)
SCANS = 3
GARBAGE = (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 3000, bytes(3000), b"\x16\x03\x01\x02\x00\x01\x00")
MENTIONED = re.compile(r"turned away source=(\S+) (.*)")
ELSEWHERE = Site("elsewhere")


@pytest.fixture(scope="module")
def wan() -> Iterator[Wan]:
    with Wan([*SITES, HOME, ELSEWHERE], rtt_s=0.01, rate_bit_s=200e6) as wan:
        yield wan


@pytest.fixture
def chain(wan: Wan, tmp_path: Path) -> Iterator[Chain]:
    with standing(wan, tmp_path) as chain:
        yield chain


def mentioned(relay: RelayAt) -> dict[str, list[str]]:
    """The reasons for which each source was turned away, as often as the log has them."""
    reasons = collections.defaultdict(list)
    for source, reason in MENTIONED.findall(relay.logged()):
        reasons[source].append(reason)
    return reasons


def test_connections_that_say_nothing_are_bounded_and_harm_nobody(chain: Chain, record_property: Record) -> None:
    flows = chain.both_ways()
    b = chain.relay("b")
    most = 0

    def have_come() -> bool:
        nonlocal most
        status = b.status()
        most = max(most, status["arrivals"])
        return int(status["arrivals"] + status["refused"]) >= HALF_OPEN

    with memory_bounded(chain, record_property), strangers(chain.wan["home"], b, HALF_OPEN):
        wait_until(have_come, "all have come")
        assert most <= MOST_ARRIVALS
        assert any("while others came" in reason for reason in mentioned(b)[chain.wan["home"].address]), (
            "the oldest gave way, not only those whose time was over"
        )
        for flow in flows:
            flow.await_fresh()
        wait_until(lambda: b.status()["arrivals"] == 0, "all strangers are gone")
    record_property("refused", b.status()["refused"])
    record_property("most_arrivals", most)
    counted = [flow.counted() for flow in flows]
    record_property("messages", sum(each.messages for each in counted))
    record_property("longest_gap_s", max(each.longest_gap_s for each in counted))


def test_attacks_from_several_hosts_are_mentioned_once_for_each_and_harm_nobody(
    chain: Chain, record_property: Record
) -> None:
    """A scan of many ports, garbage, and a relay with another secret, each several times, from two sites and from
    within."""
    flows = chain.both_ways()
    b, wan = chain.relay("b"), chain.wan
    sites = [wan["home"], wan["elsewhere"]]
    with memory_bounded(chain, record_property):
        for site in sites:
            send_garbage(site.login, b.site.address)
        scan(wan["b"].node(1), b.site.login_address)  # nothing is closed to a compute node
        for site in sites:
            dial_with_another_secret(chain, site)
        for flow in flows:
            flow.await_fresh()
    # What a site mentions of its own hosts, and others: nothing more is to come.
    wait_until(lambda: b.status()["arrivals"] == 0, "all strangers are gone")
    reasons = mentioned(b)
    assert set(reasons) == {*(site.address for site in sites), b.site.node_address(1)}
    for source, given in reasons.items():
        assert len(given) == len(set(given)), f"{source} is mentioned more than once: {given}"
    for site in sites:
        assert any("another secret" in reason or "proof" in reason for reason in reasons[site.address])
        assert len(reasons[site.address]) >= 3, "garbage, silence, and another secret"
    assert len(reasons[b.site.node_address(1)]) == 1
    record_property("refused", b.status()["refused"])
    counted = [flow.counted() for flow in flows]
    record_property("messages", sum(each.messages for each in counted))
    record_property("longest_gap_s", max(each.longest_gap_s for each in counted))


def send_garbage(machine: Machine, address: str) -> None:
    with machine.network():
        for garbage in GARBAGE * SCANS:
            with socket.create_connection((address, PORT), timeout=LIMIT_S) as stranger:
                stranger.sendall(garbage)
        for _ in range(20):
            socket.create_connection((address, PORT), timeout=LIMIT_S).close()


def scan(machine: Machine, address: str) -> None:
    """Touch many ports; one of them is the relay's."""
    open_ports = []
    with machine.network():
        for port in [*SCANNED] * SCANS:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((address, port), timeout=LIMIT_S).close()
                open_ports.append(port)
    assert open_ports == [PORT] * SCANS


def dial_with_another_secret(chain: Chain, site: PlacedSite) -> None:
    """Twice, as a relay of the site that is started again."""
    wrong = chain.run.folder / f"{site.name}.secret"
    wrong.touch(mode=0o600)
    wrong.write_text("00" * 32)
    for attempt in range(2):
        folder = chain.run.folder / f"{site.name}{attempt}"
        folder.mkdir()
        false = RelayAt(site, wrong, [chain.relay("b").address], folder)
        try:
            wait_until(lambda false=false: "proof" in false.logged(), "the false relay is told why it is refused")
            assert false.status()["runs"][RUN]["sites"] == [site.name]
        finally:
            false.kill()
