"""A direct connection between two sites that breaks goes over two relays, and returns: every message is counted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from measured import Record
from relayed import PORT, Chain, RelayAt, memory_bounded, standing
from timers import RETURN_S
from wan import Site, Wan, why_not
from wan.soak import LONG, long_form

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(900),
]

#: How often the firewall is changed.
TURNS = 5 if LONG else 1
#: Login nodes that see each other, and relays that need only one port.
SITES = (
    Site("a", open_ports=None),
    Site("b", open_ports=(PORT,)),
    Site("c", open_ports=None),
    Site("home", open_ports=None),
)


@pytest.fixture(scope="module")
def wan() -> Iterator[Wan]:
    with Wan(SITES, rtt_s=0.01, rate_bit_s=200e6) as wan:
        yield wan


@contextlib.contextmanager
def closed_to(here: RelayAt, there: RelayAt, verdict: str) -> Iterator[None]:
    """Within the block nothing leaves a login node for another one, also on connections that stand."""
    here.login.configure_firewall(f"""
table ip closed {{
    chain outbound {{
        type filter hook output priority -10; policy accept;
        ip daddr {there.site.address} ip protocol tcp {verdict}
    }}
}}
""")
    try:
        yield
    finally:
        here.login.configure_firewall("delete table ip closed")


@pytest.mark.parametrize(
    "verdict",
    [
        "reject with tcp reset",
        pytest.param("drop", marks=long_form("half a minute until silence is noticed")),
    ],
)
def test_messages_go_over_two_relays_while_a_firewall_closes_the_direct_way_and_back(
    wan: Wan, tmp_path: Path, verdict: str, record_property: Record
) -> None:
    with standing(wan, tmp_path) as chain:
        a, c = chain.relay("a"), chain.relay("c")
        flows = [chain.run.flow(*ends, methods=("tcp", "relay")) for ends in ((a, c), (c, a))]
        await_all(chain, "tcp")
        with memory_bounded(chain, record_property):
            for _ in range(TURNS):
                opened = streams_opened(a)
                with closed_to(a, c, verdict), closed_to(c, a, verdict):
                    record_property("over_s", await_all(chain, "relay"))
                    record_property("recovery_s", max(flow.await_fresh() for flow in flows))
                    assert streams_opened(a) > opened
                record_property("back_s", await_all(chain, "tcp"))
                for flow in flows:
                    flow.await_fresh()
        counted = [flow.counted() for flow in flows]
    record_property("faults", TURNS)
    record_property("messages", sum(each.messages for each in counted))
    record_property("longest_gap_s", max(each.longest_gap_s for each in counted))


def await_all(chain: Chain, method: str) -> float:
    """Wait until all messages travel by a method; how long that took [s]."""
    return max(chain.run.await_method(flow, method, 2 * RETURN_S) for flow in chain.run.flows)


def streams_opened(relay: RelayAt) -> int:
    return sum(int(run["opened"]) for run in relay.status()["runs"].values())
