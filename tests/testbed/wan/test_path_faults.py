"""Faults of the network under a path: nothing is lost, doubled, reordered or altered, and messages come again.

Every message of both lanes and both directions is numbered, checked byte by byte and counted. The long form
(XMML_SOAK=1) has faults as long as in real life.
"""

from __future__ import annotations

import contextlib
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from counted import Counted, Figures, counted
from measured import Record
from timers import CONNECT_LIMIT_S, STREAM_SILENCE_S, check_soon
from waiting import LIMIT_S, wait_until
from wan import Direction, Link, MachineProcess, Site, Wan, why_not
from wan.soak import LONG, long_form

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(900),  # where the ends have to be compiled first
]

RTT_S = 0.015
RATE_BIT_S = 200e6
#: How long a fault lasts that only time makes worse.
FAULT_S = 30.0 if LONG else 2.5
#: Goals on a quiet machine. Messages come again behind a cut when a stream was dialled anew; a dialler that has failed
#: often asks once a second. What was on a stalled stream goes by others.
RECOVERY_S = 8.0
TAKEN_OVER_S = 1.5
#: Silence by which an end knows in the tests that a link is cut.
SILENCE_S = 1.0
#: The whole process of an end whose peer does not read: window and queue have 8 MiB each. The link carries 60 MB in the
#: shortest fault.
PEAK_KIB = 40 << 10
#: So many bytes each way are messages, not only what opens streams.
FLOWING_B = 4_000_000
#: Packets that are lost at least before it is over.
LOST = 20
QUIET_END = Path(__file__).parent / "ends" / "quiet_path.py"


@pytest.fixture(scope="module")
def wan() -> Iterator[Wan]:
    with Wan([Site("a", open_ports=None), Site("b")], rtt_s=RTT_S, rate_bit_s=RATE_BIT_S) as wan:
        yield wan


@pytest.fixture
def link(wan: Wan) -> Iterator[Link]:
    link = wan.link("a", "b")
    yield link
    link.mend()
    link.set(rtt_s=RTT_S, rate_bit_s=RATE_BIT_S, loss=0)


def running(pair: Counted, wan: Wan, streams: int) -> list[int]:
    """Wait until the streams of the path stand and messages pass both ways; the ports of the end that dialled."""

    def stand() -> list[int]:
        assert pair.client.poll() is None, pair.client.communicate()
        ports = [each.local[1] for each in wan["b"].login.connections()]
        return ports if len(ports) >= streams else []

    ports = wait_until(stand, f"{streams} streams stand")
    await_traffic(pair, wan.link("a", "b"))
    return ports


def await_traffic(pair: Counted, link: Link) -> None:
    """Wait until messages have passed both ways from now on."""
    link.clear()

    def has_passed() -> bool:
        assert pair.client.poll() is None, pair.client.communicate()
        return min(link.towards(end).figures().bytes for end in ("a", "b")) >= FLOWING_B

    wait_until(has_passed, "messages pass both ways")


@pytest.fixture(params=[False, True], ids=["clear", "encrypted"])
def encrypted_in(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """The folder for credentials where the path is encrypted."""
    return tmp_path if request.param else None


def test_a_cut_link_costs_time_and_nothing_else(
    wan: Wan, link: Link, encrypted_in: Path | None, record_property: Record
) -> None:
    ends = wan["a"].login, wan["b"].login, wan["a"].address
    with counted(*ends, silence_s=SILENCE_S, encrypted_in=encrypted_in) as pair:
        running(pair, wan, 8)
        fault_s = outage_s(wan, link.severed())
        server, client = pair.figures()
    assert client.resumed >= 1
    record_outage(record_property, fault_s, server, client)


def test_a_link_that_stalls_in_one_direction_costs_time_and_nothing_else(
    wan: Wan, link: Link, record_property: Record
) -> None:
    with counted(wan["a"].login, wan["b"].login, wan["a"].address, silence_s=SILENCE_S) as pair:
        running(pair, wan, 8)
        fault_s = outage_s(wan, stalled(link.towards("a")))
        server, client = pair.figures()
    record_outage(record_property, fault_s, server, client)


def outage_s(wan: Wan, fault: contextlib.AbstractContextManager[None]) -> float:
    """Keep up a fault until both ends have closed every stream; return how long it lasted [s]."""
    began = time.monotonic()
    with fault:
        for name in ("a", "b"):
            wait_until(lambda name=name: not wan[name].login.connections(), f"{name} does not notice the fault")
        if LONG:
            time.sleep(max(0.0, began + FAULT_S - time.monotonic()))
    return time.monotonic() - began


@contextlib.contextmanager
def stalled(direction: Direction) -> Iterator[None]:
    """Within the block nothing passes in one direction; it passes later."""
    direction.stall()
    try:
        yield
    finally:
        direction.mend()


def record_outage(record: Record, fault_s: float, server: Figures, client: Figures) -> None:
    """Record what passed, and how long after the fault messages came again."""
    record("messages", passed(server, client))
    record("faults", 1)
    longest_s = max(longest_gap_s(server), longest_gap_s(client))
    assert longest_s > fault_s / 2, "the fault was not felt"
    check_soon(record, "recovery_s", longest_s - fault_s, timer_s=CONNECT_LIMIT_S, goal_s=RECOVERY_S)


def passed(server: Figures, client: Figures) -> int:
    """The messages of both lanes and both directions."""
    return server.came_control + server.came_bulk + client.came_control + client.came_bulk


def longest_gap_s(figures: Figures) -> float:
    """The longest time without a message on either lane [s]."""
    return max(figures.gap_bulk_s, figures.gap_control_s)


def test_what_a_stalled_stream_of_many_carried_goes_by_the_others(
    wan: Wan, link: Link, record_property: Record
) -> None:
    """Long before silence would close the stream."""
    with counted(wan["a"].login, wan["b"].login, wan["a"].address, silence_s=CONNECT_LIMIT_S) as pair:
        port = running(pair, wan, 8)[0]
        link.clear()
        link.cut_flow(port)
        wait_until(lambda: link.towards("a").figures().cut > 0, "the stream is not in use")
        await_traffic(pair, link)
        server, client = pair.figures()
        link.mend_flow(port)
    record_property("messages", passed(server, client))
    record_property("faults", 1)
    assert (server.resumed, client.resumed) == (0, 0)
    assert (server.lost, client.lost) == (0, 0), "a stream was closed"
    longest_s = max(longest_gap_s(server), longest_gap_s(client))
    check_soon(record_property, "longest_gap_s", longest_s, timer_s=CONNECT_LIMIT_S, goal_s=TAKEN_OVER_S)


def test_a_short_message_on_a_stalled_stream_of_a_quiet_path_goes_by_the_other(
    wan: Wan, link: Link, record_property: Record
) -> None:
    """Nothing else passes, and nobody is silent for long enough to be given up."""
    times_s = []
    with quiet(wan) as (listening, dialling):
        link.clear()
        for port in [each.local[1] for each in wan["b"].login.connections()]:
            await_quiet(link)
            link.cut_flow(port)
            times_s += [passes_s(dialling, listening), passes_s(listening, dialling)]
            link.mend_flow(port)
    assert link.towards("a").figures().cut > 0, "one of the streams was in use"
    check_soon(record_property, "longest_s", max(times_s), timer_s=STREAM_SILENCE_S, goal_s=TAKEN_OVER_S)


@contextlib.contextmanager
def quiet(wan: Wan) -> Iterator[tuple[MachineProcess, MachineProcess]]:
    """The two ends of a path of two streams on which nothing passes, from site b to site a."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    ends = [wan["a"].login.start([sys.executable, QUIET_END, "listen"], **pipes)]
    try:
        assert ends[0].stdout is not None
        address = f"{wan['a'].address}:{ends[0].stdout.readline().strip()}"
        ends.append(wan["b"].login.start([sys.executable, QUIET_END, "dial", address], **pipes))
        for end in ends:
            assert end.stdout is not None
            assert end.stdout.readline() == "stands\n"
        yield ends[0], ends[1]
    finally:
        for end in ends:
            end.kill()
            end.communicate()


def await_quiet(link: Link) -> None:
    """Wait until nothing has passed for half a second."""
    since, before = time.monotonic(), -1
    while time.monotonic() < since + 0.5:
        if (passed := sum(link.towards(end).figures().bytes for end in ("a", "b"))) != before:
            since, before = time.monotonic(), passed
        time.sleep(0.01)


def passes_s(sender: MachineProcess, receiver: MachineProcess) -> float:
    """How long a message of 100 bytes takes from one end to the other [s]."""
    assert sender.stdin is not None
    assert receiver.stdout is not None
    began = time.monotonic()
    sender.stdin.write(f"{'short':100}".replace(" ", ".") + "\n")
    sender.stdin.flush()
    came, _, _ = select.select([receiver.stdout], [], [], LIMIT_S)
    assert came, "it does not come"
    assert receiver.stdout.readline().startswith("short...")
    return time.monotonic() - began


@pytest.mark.parametrize("loss", [0.001, 0.01])
def test_lost_packets_cost_time_and_nothing_else(
    wan: Wan, link: Link, loss: float, encrypted_in: Path | None, record_property: Record
) -> None:
    link.set(loss=loss)
    link.clear()

    def lost() -> int:
        return sum(link.towards(end).figures().lost for end in ("a", "b"))

    ends = wan["a"].login, wan["b"].login, wan["a"].address
    with counted(*ends, silence_s=STREAM_SILENCE_S, encrypted_in=encrypted_in) as pair:
        running(pair, wan, 8)
        if LONG:
            time.sleep(60)
        wait_until(lambda: lost() >= LOST, "too few packets are lost")
        server, client = pair.figures()
    record_property("messages", passed(server, client))
    record_property("packets_lost", lost())
    longest_s = max(longest_gap_s(server), longest_gap_s(client))
    check_soon(record_property, "longest_gap_s", longest_s, timer_s=STREAM_SILENCE_S, goal_s=TAKEN_OVER_S)


def test_a_peer_that_stops_reading_makes_the_other_wait_and_costs_no_memory(
    wan: Wan, link: Link, record_property: Record
) -> None:
    with counted(wan["a"].login, wan["b"].login, wan["a"].address, silence_s=60) as pair:
        running(pair, wan, 8)
        pair.server.send_signal(signal.SIGSTOP)
        time.sleep(FAULT_S)
        pair.server.send_signal(signal.SIGCONT)
        server, client = pair.figures()
    record_property("messages", passed(server, client))
    record_property("faults", 1)
    record_property("peak_kib", client.peak_kib)
    assert client.gap_bulk_s > FAULT_S / 2, "it was not stopped at all"
    assert client.peak_kib < PEAK_KIB


@long_form("two minutes")
def test_a_link_that_comes_and_goes_for_two_minutes_loses_nothing(
    wan: Wan, link: Link, record_property: Record
) -> None:
    link.set(loss=0.001)
    with counted(wan["a"].login, wan["b"].login, wan["a"].address, silence_s=SILENCE_S) as pair:
        ports = running(pair, wan, 8)
        end, cuts = time.monotonic() + 115, 0
        while time.monotonic() < end:
            with link.severed():
                time.sleep(0.5 + cuts % 3)
            link.cut_flow(ports[cuts % len(ports)])
            time.sleep(3)
            cuts += 1
        server, client = pair.figures()
    record_property("faults", cuts)
    record_property("messages", passed(server, client))
