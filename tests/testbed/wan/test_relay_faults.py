"""Faults of relays and of the links between them, while instances exchange messages through three relays in a row.

Every message is numbered, its bytes are checked, and both ends count: nothing may be lost, doubled, reordered or
altered. The long form (XMML_SOAK=1) has faults as many and as long as in real life.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ends.messages import LARGE_WORDS
from measured import Record
from relayed import (
    CAPACITY,
    HOME,
    PORT,
    SITES,
    Chain,
    Flow,
    RelayAt,
    memory_bounded,
    shell,
    standing,
)
from timers import CONNECT_LIMIT_S, check_soon
from waiting import wait_until
from wan import Link, Wan, why_not
from wan.soak import LONG, long_form

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(900),
]

RTT_S = 0.01
RATE_BIT_S = 200e6
#: How long a fault lasts that lasts longer than it takes to notice it.
FAULT_S = 30.0
#: Goals on a quiet machine. A relay that was killed stands again, a link was cut, a receiver stopped.
RECOVERY_S = 5.0
#: The longest time until fresh messages come everywhere, where relays are killed in a row.
RECOVERY_IN_A_ROW_S = 2.0
KILLS_IN_A_ROW = 24
#: Packets were lost, or a stream of the link was stalled and what it had taken went by the others.
RESENT_S = 3.0
#: How long receivers are stopped. The coordinator takes an instance that is silent for much longer for lost.
STOPPED_S = 5.0 if LONG else 3.0
#: What streams of a relay may hold beyond 64 KiB each where receivers do not take it, in the test of that.
STREAM_MEMORY_B = 4 << 20
#: Streams of a conduit: there, and back.
STREAMS = 2
#: What a relay may hold besides: pieces that are read or kept to be used again (mto/src/read_buffer.rs), what waits to
#: be encrypted and what the next relay has not confirmed, and pages of the allocator.
ALLOWANCE_KIB = 16 << 10
#: Receivers that stop, and what is sent to each of them: many times what relays may hold.
STOPPED = 3
SENT_B = 24 << 20
#: Packets that are lost at least before it is over.
LOST = 20
JUMPS = ("+7200", "-7200", "+0")
#: Takes every page of a small file system, and what is left of the last page of the log in it.
FILL = 'cat /dev/zero > "$1"/filler; head -c $((4096 - $(stat -c %s "$1"/b.log) % 4096)) /dev/zero >> "$1"/b.log'
ROOT = Path(__file__).resolve().parents[3]
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


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
        recoveries.append(slowest_s(flows))
        if LONG:
            time.sleep(1.0)  # every few seconds, not as often as it can be
    return recoveries


@pytest.mark.parametrize("names", [["b"], ["a", "b", "c"]], ids=["the middle", "any"])
def test_relays_that_are_killed_and_started_again_lose_nothing(
    chain: Chain, names: list[str], record_property: Record
) -> None:
    flows = chain.both_ways()
    with memory_bounded(chain, record_property):
        recoveries = kill_again_and_again(chain, names, flows, kills=3, for_s=120.0 if LONG else 0.0)
    counted = [flow.counted() for flow in flows]
    if "a" in names:
        assert "the other relay was started again" in chain.relay("b").logged(), "not only when patience ended"
    record_property("faults", len(recoveries))
    record_property("messages", sum(each.messages for each in counted))
    record_property("bytes", sum(each.bytes for each in counted))
    check_soon(record_property, "recovery_s", statistics.median(recoveries), timer_s=CONNECT_LIMIT_S, goal_s=RECOVERY_S)
    check_soon(record_property, "recovery_most_s", max(recoveries), timer_s=CONNECT_LIMIT_S, goal_s=CONNECT_LIMIT_S)


@long_form("from one kill to the next it is nine to ten seconds")
def test_relays_that_are_killed_in_a_row_hold_conduits_up_for_less_than_two_seconds_each(
    chain: Chain, record_property: Record
) -> None:
    flows = chain.both_ways()
    recoveries = []
    with memory_bounded(chain, record_property):
        for number in range(KILLS_IN_A_ROW):
            time.sleep(9.0 + number % 3 / 2)
            relay = chain.relay("bac"[number % 3])
            relay.kill()
            relay.start()
            recoveries.append(slowest_s(flows))
    counted = [flow.counted() for flow in flows]
    record_property("faults", len(recoveries))
    record_property("messages", sum(each.messages for each in counted))
    check_soon(record_property, "recovery_most_s", max(recoveries), timer_s=CONNECT_LIMIT_S, goal_s=RECOVERY_IN_A_ROW_S)


def test_a_link_that_is_cut_costs_time_and_nothing_else(chain: Chain, record_property: Record) -> None:
    """For longer than relays wait for a stream of each other: all are given up, and the link is resumed later. In the
    long form the link itself is given up, and there is another one later."""
    link, a = chain.wan.link("a", "b"), chain.relay("a")
    with memory_bounded(chain, record_property):
        flows = chain.both_ways()
        before, began = a.link(), time.monotonic()
        with link.severed():
            wait_until(
                lambda: a.link()["streams_lost"] > before["streams_lost"] and a.link()["streams"] == 0, "silence"
            )
            if LONG:
                wait_until(lambda: "a link was lost" in a.logged(), "the link is given up")
            cut_s = time.monotonic() - began
        recovery_s = slowest_s(flows)
        counted = [flow.counted() for flow in flows]
    if not LONG:
        assert a.link()["resumed"] > before["resumed"]
    assert min(each.longest_gap_s for each in counted) > cut_s / 2, "it was felt"
    record_property("messages", sum(each.messages for each in counted))
    check_soon(record_property, "recovery_s", recovery_s, timer_s=CONNECT_LIMIT_S, goal_s=RECOVERY_S)
    record_property("faults", 1)


def slowest_s(flows: Sequence[Flow]) -> float:
    """How long it takes from now until fresh messages have come everywhere [s]."""
    began = time.monotonic()
    for flow in flows:
        flow.await_fresh()
    return time.monotonic() - began


def test_a_relay_that_is_stopped_for_longer_than_others_wait_goes_on_where_it_was(
    chain: Chain, record_property: Record
) -> None:
    """As when a machine is suspended: its neighbours have given up every stream to it before it goes on."""
    ends, b = [chain.relay(name) for name in "ac"], chain.relay("b")
    with memory_bounded(chain, record_property):
        flows = chain.both_ways()
        before = {end.name: end.link() for end in ends}
        b.process.send_signal(signal.SIGSTOP)
        try:
            for end in ends:
                wait_until(lambda end=end: end.link()["streams"] == 0, f"{end.name} does not give b up")
        finally:
            b.process.send_signal(signal.SIGCONT)
        recovery_s = slowest_s(flows)
        counted = [flow.counted() for flow in flows]
    for end in ends:
        assert end.link()["resumed"] > before[end.name]["resumed"]
    record_property("messages", sum(each.messages for each in counted))
    check_soon(record_property, "recovery_s", recovery_s, timer_s=CONNECT_LIMIT_S, goal_s=RECOVERY_S)
    record_property("faults", 1)


def test_a_stalled_stream_of_a_link_costs_time_and_nothing_else(
    wan: Wan, tmp_path: Path, record_property: Record
) -> None:
    """Of the TCP streams between two relays one after the other lets nothing through any more for a while; meanwhile
    the others carry what it had taken, long before silence closes it."""
    streams = 4 if LONG else 2
    link = wan.link("a", "b")
    with standing(wan, tmp_path, link=f",streams={streams}") as chain:
        a, b = chain.relay("a"), chain.relay("b")
        wait_until(lambda: len(streams_between(a, b)) == streams, "all streams stand")
        with memory_bounded(chain, record_property):
            flows = chain.run.flow(a, b), chain.run.flow(b, a)
            lost = a.link()["streams_lost"]
            for port in streams_between(a, b):
                link.clear()
                link.cut_flow(port)
                wait_until(lambda: both(link, "cut") > 0, "the stream is not in use")
                slowest_s(flows)
                assert a.link()["streams_lost"] == lost, "the stream was closed"
                if LONG:
                    carry_on(flows, FAULT_S)
                    lost = a.link()["streams_lost"]
                link.mend_flow(port)
            counted = [flow.counted() for flow in flows]
    record_property("messages", sum(each.messages for each in counted))
    record_property("faults", streams)
    longest_s = max(each.longest_gap_s for each in counted)
    check_soon(record_property, "longest_gap_s", longest_s, timer_s=CONNECT_LIMIT_S, goal_s=RESENT_S)


@pytest.mark.parametrize("loss", [0.001, 0.01])
def test_packets_that_a_link_loses_cost_time_and_nothing_else(
    chain: Chain, loss: float, record_property: Record
) -> None:
    a, b = chain.relay("a"), chain.relay("b")
    link = chain.wan.link("a", "b")
    with memory_bounded(chain, record_property):
        flows = chain.run.flow(a, b), chain.run.flow(b, a)
        lost = a.link()["streams_lost"]
        link.clear()
        link.set(loss=loss)
        try:
            if LONG:
                carry_on(flows, 60.0)
            wait_until(lambda: both(link, "lost") >= LOST, "too few packets are lost")
            counted = [flow.counted() for flow in flows]
        finally:
            link.set(loss=0)
    assert a.link()["streams_lost"] == lost, "a stream was closed"
    record_property("packets_lost", both(link, "lost"))
    record_property("messages", sum(each.messages for each in counted))
    longest_s = max(each.longest_gap_s for each in counted)
    check_soon(record_property, "longest_gap_s", longest_s, timer_s=CONNECT_LIMIT_S, goal_s=RESENT_S)


def carry_on(flows: Sequence[Flow], for_s: float) -> None:
    """See that messages come for so long."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        slowest_s(flows)


def both(link: Link, figure: str) -> int:
    """The sum of a figure of both directions of the link between a and b."""
    return sum(int(getattr(link.towards(name).figures(), figure)) for name in ("a", "b"))


def test_receivers_that_stop_hold_their_own_senders_and_nobody_else(
    wan: Wan, tmp_path: Path, record_property: Record
) -> None:
    """They neither read nor answer, and much more is sent to them than relays may hold."""
    large_b = 8 * LARGE_WORDS
    bound_kib = (STREAM_MEMORY_B >> 10) + 64 * STREAMS * (STOPPED + 1) + ALLOWANCE_KIB
    assert 3 * 1024 * bound_kib < STOPPED * SENT_B
    with closer(wan), standing(wan, tmp_path, options=["--stream-memory-b", str(STREAM_MEMORY_B)]) as chain:
        a, c = chain.relay("a"), chain.relay("c")
        other = chain.run.flow(c, a)
        with memory_bounded(chain, record_property, bound_kib):
            options = {"byte_budget": SENT_B, "large": True, "is_awaited": False}
            stopped = [chain.run.flow(a, c, **options) for _ in range(STOPPED)]
            for flow in stopped:
                flow.await_more(1)
            for flow in stopped:
                flow.receiver.send_signal(signal.SIGSTOP)
            carry_on([other], STOPPED_S)
            for flow in stopped:
                assert flow.sent - flow.came <= min(CAPACITY, SENT_B // large_b) + 1
                flow.receiver.send_signal(signal.SIGCONT)
            recovery_s = max(flow.await_more(1) for flow in stopped)
            counted = [flow.counted() for flow in (other, *stopped)]
    check_soon(record_property, "recovery_s", recovery_s, timer_s=CONNECT_LIMIT_S, goal_s=RECOVERY_S)
    record_property("messages", sum(each.messages for each in counted))
    record_property("longest_gap_s", counted[0].longest_gap_s)
    record_property("faults", STOPPED)


@contextlib.contextmanager
def closer(wan: Wan) -> Iterator[None]:
    """Small windows shall not be what holds up what is sent."""
    for link in wan.links:
        link.set(rtt_s=RTT_S / 10)
    try:
        yield
    finally:
        for link in wan.links:
            link.set(rtt_s=RTT_S)


def test_a_relay_without_descriptors_carries_what_it_carries_and_takes_newcomers_later(
    wan: Wan, tmp_path: Path, record_property: Record
) -> None:
    """It gets no more than it has. Who wants to register meanwhile gets in when that is over."""
    with standing(wan, tmp_path) as chain:
        flows = chain.both_ways()
        b = chain.relay("b")
        with memory_bounded(chain, record_property):
            before = resource.prlimit(b.process.program, resource.RLIMIT_NOFILE)
            resource.prlimit(b.process.program, resource.RLIMIT_NOFILE, (open_descriptors(b), before[1]))
            newcomer = chain.run.flow(chain.relay("a"), b, is_awaited=False)
            for flow in flows:
                flow.await_fresh()
            resource.prlimit(b.process.program, resource.RLIMIT_NOFILE, before)
            record_property("recovery_s", newcomer.await_fresh())
            late = chain.run.flow(chain.relay("a"), b)
        counted = [flow.counted() for flow in (*flows, newcomer, late)]
    record_property("messages", sum(each.messages for each in counted))
    record_property("longest_gap_s", max(each.longest_gap_s for each in counted))
    record_property("faults", 1)


def test_a_relay_whose_log_has_no_room_goes_on_and_says_later_what_is_missing(
    wan: Wan, tmp_path: Path, record_property: Record
) -> None:
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
        with memory_bounded(chain, record_property):
            shell(b.login, FILL, str(small), stderr=subprocess.DEVNULL).wait()
            late = chain.run.flow(chain.relay("a"), b)
            wait_until(lambda: b.status()["log_lines_lost"] > 0, "no line of the log is lost")
            b.login.run(["rm", small / "filler"])
            began = time.monotonic()
            later = chain.run.flow(chain.relay("c"), b)
            record_property("recovery_s", time.monotonic() - began)
        in_log = "lines of the log were lost"
        wait_until(lambda: in_log in b.login.run(["cat", small / "b.log"]).stdout, "the log does not say it")
        counted = [flow.counted() for flow in (*flows, late, later)]
    record_property("messages", sum(each.messages for each in counted))
    record_property("longest_gap_s", max(each.longest_gap_s for each in counted))
    record_property("faults", 1)


def mto_with_libraries() -> Path:
    """Return `mto` linked as Rust does by default: nothing can be loaded into the one that is copied to sites."""
    command = ["cargo", "build", "--release", "--locked", "--package", "mto", "--bin", "mto"]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target/release/mto"


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
    program = mto_with_libraries()
    with standing(wan, tmp_path, before=dict.fromkeys("abc", before), environment=faked, program=program) as chain:
        flows = chain.both_ways()
        recoveries = []
        with memory_bounded(chain, record_property):
            for jump in JUMPS:
                clock.write_text(jump)
                for flow in flows:
                    flow.await_fresh(100)
                b = chain.relay("b")
                b.kill()
                b.start()
                recoveries.append(slowest_s(flows))
        counted = [flow.counted() for flow in flows]
        stamps = [line.split()[0] for line in chain.relay("b").logged().splitlines()]
    assert stamps != sorted(stamps), "the relay's clock did jump"
    record_property("longest_gap_s", max(each.longest_gap_s for each in counted))
    record_property("messages", sum(each.messages for each in counted))
    record_property("recovery_s", statistics.median(recoveries))
    record_property("faults", len(JUMPS))


def streams_between(dialler: RelayAt, dialled: RelayAt) -> list[int]:
    """The ports of the dialling relay from which the TCP streams of its link lead."""
    there = (dialled.site.address, PORT)
    return [each.local[1] for each in dialler.login.connections() if each.remote == there]


def open_descriptors(relay: RelayAt) -> int:
    return len(list(Path(f"/proc/{relay.process.program}/fd").iterdir()))
