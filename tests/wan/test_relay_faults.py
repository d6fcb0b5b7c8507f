"""Faults of relays and of the links between them, while instances exchange messages through three relays in a row.

Every message is numbered, its bytes are checked, and both ends count: nothing may be lost, doubled, reordered or
altered. The long form (XMML_SOAK=1) has faults as many and as long as in real life.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from promises import kept
from relayed import CAPACITY, HOME, LIMIT_S, LONG, PORT, RUN, SITES, Chain, Flow, RelayAt, shell, standing, wait_until
from wan import Wan, why_not

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(900),
]

RTT_S = 0.01
RATE_BIT_S = 200e6
#: How long a fault lasts.
FAULT_S = 30.0 if LONG else 3.0
#: So soon messages come again when a relay that was killed stands again, a link that was cut, a receiver that stopped.
RECOVERY_S = 5.0
#: After no kill of many later, whatever the machine does besides.
LATEST_S = 30.0
#: So soon when only packets are lost.
RESENT_S = 3.0
#: So soon when a stream of the link lets nothing through any more: when nothing was acknowledged on it for some round
#: trips, what it had taken goes by the others, long before its silence of ten seconds ends it.
TAKEN_OVER_S = 3.0
#: The coordinator takes an instance that is silent for much longer for lost, and rightly so.
STOPPED_S = 5.0
#: So much memory a relay may hold, whatever happens: docs/relay.md promises 256 MiB for streams.
MEMORY_KIB = 400 << 10
HALF_OPEN = 10_000 if LONG else 500
DESCRIPTORS = 64
#: Takes every page of a small file system, and what is left of the last page of the log in it.
FILL = 'cat /dev/zero > "$1"/filler; head -c $((4096 - $(stat -c %s "$1"/b.log) % 4096)) /dev/zero >> "$1"/b.log'
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def wan() -> Iterator[Wan]:
    with Wan([*SITES, HOME], rtt_s=RTT_S, rate_bit_s=RATE_BIT_S) as wan:
        yield wan


@pytest.fixture
def chain(wan: Wan, tmp_path: Path) -> Iterator[Chain]:
    with standing(wan, tmp_path) as chain:
        yield chain


def kill_again_and_again(
    chain: Chain, names: list[str], flows: tuple[Flow, ...], kills: int, for_s: float
) -> list[float]:
    """Kill the relays in turn and start them again; how long after each start fresh messages came everywhere [s]."""
    recoveries: list[float] = []
    until = time.monotonic() + for_s
    while len(recoveries) < kills or time.monotonic() < until:
        relay = chain.relay(names[len(recoveries) % len(names)])
        relay.kill()
        relay.start()
        began = time.monotonic()
        for flow in flows:
            flow.await_fresh()
        recoveries.append(time.monotonic() - began)
        if LONG:
            time.sleep(1.0)  # every few seconds, not as often as it can be
    return recoveries


@pytest.mark.parametrize("names", [["b"], ["a", "b", "c"]], ids=["the middle", "any"])
def test_relays_that_are_killed_and_started_again_lose_nothing(
    chain: Chain, names: list[str], record_property: Record
) -> None:
    flows = chain.both_ways()
    recoveries = kill_again_and_again(chain, names, flows, kills=3, for_s=120.0 if LONG else 0.0)
    assert statistics.median(recoveries) < RECOVERY_S, recoveries
    assert max(recoveries) < LATEST_S, recoveries
    counted = [flow.counted() for flow in flows]
    if "a" in names:
        assert "the other relay was started again" in chain.relay("b").logged(), "not only when patience ended"
    record_property("faults", len(recoveries))
    record_property("messages", sum(each.messages for each in counted))
    record_property("bytes", sum(each.bytes for each in counted))
    record_property("recovery_s", statistics.median(recoveries))
    record_property("recovery_most_s", max(recoveries))


def test_a_link_that_is_cut_costs_time_and_nothing_else(chain: Chain, record_property: Record) -> None:
    link = chain.wan.link("a", "b")

    def recovery_s() -> float:
        flows = chain.both_ways()
        link.clear()
        with link.severed():
            time.sleep(FAULT_S)
        mended_at = time.monotonic()
        for flow in flows:
            flow.await_fresh()
        took_s = time.monotonic() - mended_at
        counted = [flow.counted() for flow in flows]
        assert link.towards("a").figures().cut + link.towards("b").figures().cut > 0, "it was cut"
        assert min(each.longest_gap_s for each in counted) > FAULT_S / 2, "it was felt"
        record_property("messages", sum(each.messages for each in counted))
        return took_s

    record_property("recovery_s", kept(RECOVERY_S, recovery_s))
    record_property("faults", 1)


def test_a_stalled_stream_of_a_link_costs_time_and_nothing_else(
    wan: Wan, tmp_path: Path, record_property: Record
) -> None:
    """Of the TCP streams between two relays one after the other lets nothing through any more for a while; meanwhile
    the others carry what it had taken."""
    streams = 4 if LONG else 2
    link = wan.link("a", "b")
    with standing(wan, tmp_path, link=f",streams={streams}") as chain:
        a, b = chain.relay("a"), chain.relay("b")
        wait_until(lambda: len(streams_between(a, b)) == streams, "all streams stand")

        def gap_s() -> float:
            flows = chain.run.flow(a, b), chain.run.flow(b, a)
            for port in streams_between(a, b):
                link.clear()
                link.cut_flow(port)
                # As long as it takes: the stream is not mended before messages come.
                end = time.monotonic() + FAULT_S
                while time.monotonic() < end:
                    for flow in flows:
                        flow.await_fresh()
                link.mend_flow(port)
                assert link.towards("a").figures().cut + link.towards("b").figures().cut > 0, "the stream was in use"
            return max(flow.counted().longest_gap_s for flow in flows)

        record_property("longest_gap_s", kept(TAKEN_OVER_S, gap_s))


@pytest.mark.parametrize("loss", [0.001, 0.01])
def test_packets_that_a_link_loses_cost_time_and_nothing_else(
    chain: Chain, loss: float, record_property: Record
) -> None:
    a, b = chain.relay("a"), chain.relay("b")
    link = chain.wan.link("a", "b")

    def gap_s() -> float:
        flows = chain.run.flow(a, b), chain.run.flow(b, a)
        link.clear()
        link.set(loss=loss)
        try:
            end = time.monotonic() + (60.0 if LONG else 2.0)
            while time.monotonic() < end or lost() == 0:
                for flow in flows:
                    flow.await_fresh()
            counted = [flow.counted() for flow in flows]
        finally:
            link.set(loss=0)
        record_property("packets_lost", lost())
        record_property("messages", sum(each.messages for each in counted))
        return max(each.longest_gap_s for each in counted)

    def lost() -> int:
        return link.towards("a").figures().lost + link.towards("b").figures().lost

    record_property("longest_gap_s", kept(RESENT_S, gap_s))


def test_a_receiver_that_stops_holds_its_own_sender_and_nobody_else(chain: Chain, record_property: Record) -> None:
    """It neither reads nor answers; the relays keep what is on its way within bounds."""
    stopped, other = chain.both_ways()

    def recovery_s() -> float:
        stopped.receiver.send_signal(signal.SIGSTOP)
        end = time.monotonic() + min(FAULT_S, STOPPED_S)
        rounds = 0
        while time.monotonic() < end or rounds < 3:
            other.await_fresh()
            rounds += 1
        assert stopped.sent - stopped.came <= CAPACITY + 1
        memory_kib = max(relay.memory_kib for relay in chain.relays.values())
        record_property("memory_kib", memory_kib)
        assert memory_kib < MEMORY_KIB
        stopped.receiver.send_signal(signal.SIGCONT)
        return stopped.await_fresh()

    record_property("recovery_s", kept(RECOVERY_S, recovery_s))
    counted = [flow.counted().messages for flow in (stopped, other)]
    assert min(counted) > 0
    record_property("messages", sum(counted))
    record_property("faults", 1)


def test_a_relay_without_descriptors_carries_what_it_carries(wan: Wan, tmp_path: Path) -> None:
    """Strangers hold every descriptor that it can get; when they are gone, it takes newcomers again."""
    with standing(wan, tmp_path, before={"b": ["prlimit", f"--nofile={DESCRIPTORS}"]}) as chain:
        flows = chain.both_ways()
        b = chain.relay("b")
        with strangers(chain, 2 * DESCRIPTORS):
            wait_until(lambda: open_descriptors(b) >= DESCRIPTORS - 1, "all descriptors are in use")
            for flow in flows:
                flow.await_fresh()
        late = chain.run.flow(chain.relay("a"), b)
        assert min(flow.counted().messages for flow in (*flows, late)) > 0


def test_a_relay_whose_log_has_no_room_goes_on_and_says_later_what_is_missing(wan: Wan, tmp_path: Path) -> None:
    with standing(wan, tmp_path) as chain:
        small = tmp_path / "small"
        small.mkdir()
        b = chain.relay("b")
        b.kill()
        # The mount is seen by the machine alone, and goes with it.
        b.login.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small])
        b.log_to(small / "b.log")
        b.start()
        flows = chain.both_ways()
        shell(b.login, FILL, str(small), stderr=subprocess.DEVNULL).wait()
        late = chain.run.flow(chain.relay("a"), b)
        assert b.status()["log_lines_lost"] > 0
        b.login.run(["rm", small / "filler"])
        later = chain.run.flow(chain.relay("c"), b)
        assert "lines of the log were lost" in b.login.run(["cat", small / "b.log"]).stdout
        assert min(flow.counted().messages for flow in (*flows, late, later)) > 0


def test_strangers_at_a_relay_are_turned_away_and_harm_nobody(chain: Chain, record_property: Record) -> None:
    """Thousands that say nothing, a scan, garbage, and a relay with another secret, all while messages pass."""
    flows = chain.both_ways()
    b = chain.relay("b")
    with strangers(chain, HALF_OPEN):
        for flow in flows:
            flow.await_fresh()
        home = chain.wan["home"]
        with home.login.network():
            for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 3000, bytes(3000), b"\x16\x03\x01\x02\x00\x01\x00"):
                with socket.create_connection((b.site.address, PORT), timeout=LIMIT_S) as stranger:
                    stranger.sendall(garbage)
            for _ in range(50):
                socket.create_connection((b.site.address, PORT), timeout=LIMIT_S).close()
        wrong = chain.run.folder / "wrong.secret"
        wrong.touch(mode=0o600)
        wrong.write_text("00" * 32)
        false = RelayAt(home, wrong, [b.address], chain.run.folder)
        try:
            wait_until(lambda: "proof" in false.logged(), "the false relay is told why it is refused")
            assert false.status()["runs"][RUN]["sites"] == ["home"]
        finally:
            false.kill()
        for flow in flows:
            flow.await_fresh()
    wait_until(lambda: b.status()["arrivals"] == 0, "all strangers are gone")
    assert b.status()["refused"] >= HALF_OPEN
    record_property("refused", b.status()["refused"])
    record_property("memory_kib", b.memory_kib)
    assert b.memory_kib < MEMORY_KIB
    reasons = [line.split("turned away", 1)[1] for line in b.logged().splitlines() if "turned away" in line]
    assert 1 <= len(reasons) == len(set(reasons)), f"once per source and reason: {reasons}"
    counted = [flow.counted() for flow in flows]
    record_property("longest_gap_s", max(each.longest_gap_s for each in counted))


@pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not installed: apt-get install faketime")
def test_clocks_that_jump_are_not_noticed(wan: Wan, tmp_path: Path, record_property: Record) -> None:
    """The clocks on the wall of all relays and instances jump forth and back; what waits goes by another clock."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    faked = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    before = ["env", *(f"{name}={value}" for name, value in faked.items())]
    with standing(wan, tmp_path, before=dict.fromkeys("abc", before), environment=faked) as chain:
        flows = chain.both_ways()
        for jump in ("+7200", "-7200", "+0"):
            clock.write_text(jump)
            for flow in flows:
                flow.await_fresh(100)
            b = chain.relay("b")
            b.kill()
            b.start()
            for flow in flows:
                flow.await_fresh()
        counted = [flow.counted() for flow in flows]
        stamps = [line.split()[0] for line in chain.relay("b").logged().splitlines()]
    assert stamps != sorted(stamps), "the relay's clock did jump"
    record_property("longest_gap_s", max(each.longest_gap_s for each in counted))
    record_property("messages", sum(each.messages for each in counted))


@contextlib.contextmanager
def strangers(chain: Chain, count: int) -> Iterator[None]:
    """Connections to the middle relay that say nothing, from elsewhere; those that it ends are not made again."""
    with contextlib.ExitStack() as standing, chain.wan["home"].login.network():
        for number in range(count):
            stranger = standing.enter_context(socket.socket())
            stranger.setblocking(False)
            stranger.connect_ex((chain.relay("b").site.address, PORT))
            if number % 100 == 99:
                time.sleep(0.01)  # the queue of the link has room for so many
        yield


def streams_between(dialler: RelayAt, dialled: RelayAt) -> list[int]:
    """The ports of the dialling relay from which the TCP streams of its link lead."""
    there = (dialled.site.address, PORT)
    return [each.local[1] for each in dialler.login.connections() if each.remote == there]


def open_descriptors(relay: RelayAt) -> int:
    return len(list(Path(f"/proc/{relay.process.program}/fd").iterdir()))
