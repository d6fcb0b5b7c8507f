"""Faults of the network under a path: nothing is lost, doubled, reordered or altered, and it soon goes on.

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
from counted import LONG, Counted, Figures, counted
from promises import Record, kept
from wan import Link, MachineProcess, Site, Wan, why_not

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(900),  # where the ends have to be compiled first
]

RTT_S = 0.015
RATE_BIT_S = 200e6
#: How long a fault lasts.
FAULT_S = 30.0 if LONG else 2.5
#: So soon messages come again behind it: when streams were dialled anew, at once where others carry on. A dialler that
#: has waited for long asks again after so many seconds.
RECOVERY_S = 8.0 if LONG else 4.0
TAKEN_OVER_S = 1.5
#: Whatever the machine does besides, nothing takes longer.
NEVER_S = 60.0
SILENCE_S = 1.0
#: The whole process of an end whose peer does not read: window and queue have 8 MiB each. The link carries 60 MB in the
#: shortest fault.
PEAK_KIB = 40 << 10
#: So many bytes each way are messages, not only what opens streams.
FLOWING_B = 4_000_000
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
    """Waits until the streams of the path stand and messages pass both ways; the ports of the end that dialled."""
    end = time.monotonic() + 60
    while len(ports := [each.local[1] for each in wan["b"].login.connections()]) < streams:
        assert pair.client.poll() is None, pair.client.communicate()
        assert time.monotonic() < end, f"only {len(ports)} streams stand"
        time.sleep(0.01)
    link = wan.link("a", "b")
    link.clear()
    while min(link.towards(end).figures().bytes for end in ("a", "b")) < FLOWING_B:
        assert pair.client.poll() is None, pair.client.communicate()
        time.sleep(0.01)
    return ports


@pytest.fixture(params=[False, True], ids=["clear", "encrypted"])
def encrypted_in(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """The folder for credentials where the path is encrypted."""
    return tmp_path if request.param else None


def test_a_cut_link_costs_time_and_nothing_else(
    wan: Wan, link: Link, encrypted_in: Path | None, record_property: Record
) -> None:
    def recovery_s() -> float:
        ends = wan["a"].login, wan["b"].login, wan["a"].address
        with counted(*ends, silence_s=SILENCE_S, encrypted_in=encrypted_in) as pair:
            running(pair, wan, 8)
            link.cut()
            time.sleep(FAULT_S)
            link.mend()
            server, client = pair.figures()
        record_property("messages", passed(server, client))
        assert min(server.gap_bulk_s, client.gap_bulk_s) >= FAULT_S
        assert client.resumed >= 1
        return max(longest_gap_s(server), longest_gap_s(client)) - FAULT_S

    kept(record_property, "recovery_s", RECOVERY_S, recovery_s)
    record_property("faults", 1)


def passed(server: Figures, client: Figures) -> int:
    """The messages of both lanes and both directions."""
    return server.came_control + server.came_bulk + client.came_control + client.came_bulk


def longest_gap_s(figures: Figures) -> float:
    """The longest time without a message on either lane, within what no machine makes longer."""
    longest_s = max(figures.gap_bulk_s, figures.gap_control_s)
    assert longest_s < FAULT_S + NEVER_S
    return longest_s


def test_a_link_that_stalls_in_one_direction_costs_time_and_nothing_else(
    wan: Wan, link: Link, record_property: Record
) -> None:
    def recovery_s() -> float:
        with counted(wan["a"].login, wan["b"].login, wan["a"].address, silence_s=SILENCE_S) as pair:
            running(pair, wan, 8)
            link.towards("a").stall()
            time.sleep(FAULT_S)
            link.towards("a").mend()
            server, client = pair.figures()
        record_property("messages", passed(server, client))
        return max(longest_gap_s(server), longest_gap_s(client)) - FAULT_S

    kept(record_property, "recovery_s", RECOVERY_S, recovery_s)
    record_property("faults", 1)


def test_one_stalled_stream_of_many_holds_nobody_longer_than_it_takes_to_notice(
    wan: Wan, link: Link, record_property: Record
) -> None:
    def gap_s() -> float:
        with counted(wan["a"].login, wan["b"].login, wan["a"].address, silence_s=SILENCE_S) as pair:
            port = running(pair, wan, 8)[0]
            link.clear()
            link.cut_flow(port)
            time.sleep(FAULT_S)
            server, client = pair.figures()
            link.mend_flow(port)
        record_property("messages", passed(server, client))
        assert link.towards("a").figures().cut > 0, "the stream was in use"
        assert (server.resumed, client.resumed) == (0, 0)
        return max(longest_gap_s(server), longest_gap_s(client))

    kept(record_property, "longest_gap_s", TAKEN_OVER_S, gap_s)
    record_property("faults", 1)


@pytest.mark.parametrize("number", [0, 1])
def test_a_short_message_on_a_stalled_stream_of_a_quiet_path_goes_by_the_other(
    wan: Wan, link: Link, number: int, record_property: Record
) -> None:
    """Nothing else passes, and nobody is silent for long enough to be given up."""

    def longest_s() -> float:
        with quiet(wan) as (listening, dialling):
            port = sorted(each.local[1] for each in wan["b"].login.connections())[number]
            await_quiet(link)
            link.cut_flow(port)
            times_s = [passes_s(dialling, listening), passes_s(listening, dialling)]
            link.mend_flow(port)
        return max(times_s)

    kept(record_property, "longest_s", TAKEN_OVER_S, longest_s)


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
    came, _, _ = select.select([receiver.stdout], [], [], NEVER_S)
    assert came, "it does not come"
    assert receiver.stdout.readline().startswith("short...")
    return time.monotonic() - began


@pytest.mark.parametrize("loss", [0.001, 0.01])
def test_lost_packets_cost_time_and_nothing_else(
    wan: Wan, link: Link, loss: float, encrypted_in: Path | None, record_property: Record
) -> None:
    link.set(loss=loss)

    def gap_s() -> float:
        link.clear()
        ends = wan["a"].login, wan["b"].login, wan["a"].address
        with counted(*ends, encrypted_in=encrypted_in) as pair:
            running(pair, wan, 8)
            time.sleep(60 if LONG else 2)
            server, client = pair.figures()
        lost = link.towards("a").figures().lost + link.towards("b").figures().lost
        record_property("messages", passed(server, client))
        record_property("packets_lost", lost)
        assert lost > 0
        return max(longest_gap_s(server), longest_gap_s(client))

    kept(record_property, "longest_gap_s", TAKEN_OVER_S, gap_s)


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
    assert client.gap_bulk_s >= FAULT_S * 0.9, "it was not stopped at all"
    assert client.peak_kib < PEAK_KIB


@pytest.mark.skipif(not LONG, reason="the long form: XMML_SOAK=1")
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
