"""The wide area on one machine does what it is told: an instrument is tested before anything is measured with it.

No packet is early, too fast or lost unasked, however busy the machine is. How late packets are is for quiet machines
(XMML_SOAK=1).
"""

from __future__ import annotations

import hashlib
import os
import random
import select
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from waiting import LIMIT_S, wait_until
from wan import Figures, Machine, Site, Wan, why_not
from wan.soak import LONG

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PORT = 40001
ANY = Site("a", open_ports=None), Site("b", open_ports=None)


@pytest.fixture(scope="module")
def wan() -> Iterator[Wan]:
    """Two open sites without limits; every test sets what it needs and leaves the link as it was."""
    with Wan(ANY) as wan:
        yield wan


@contextmanager
def conditions(wan: Wan, rtt_s: float = 0, rate_bit_s: float = 0, loss: float = 0, queue_b: int = 0) -> Iterator[None]:
    link = wan.link("a", "b")
    link.set(rtt_s=rtt_s, rate_bit_s=rate_bit_s, loss=loss, queue_b=queue_b)
    link.clear()
    try:
        yield
    finally:
        link.cut()  # nothing of this test waits any longer
        link.mend()
        link.set(rtt_s=0, rate_bit_s=0, loss=0, queue_b=0)


@contextmanager
def connection(wan: Wan) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP connection from b to a: the end at b, the end at a."""
    with wan["a"].login.network():
        listener = socket.create_server(("", 0))
    with listener, wan["b"].login.network():
        near = socket.create_connection((wan["a"].address, listener.getsockname()[1]), timeout=LIMIT_S)
        far, _ = listener.accept()
        far.settimeout(LIMIT_S)
        with near, far:
            yield near, far


def datagrams(machine: Machine) -> socket.socket:
    with machine.network():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("", 0))
    made.settimeout(LIMIT_S)
    return made


def received(far: socket.socket, size_b: int) -> bytes:
    parts = []
    while size_b > 0:
        parts.append(far.recv(min(size_b, 1 << 20)))
        assert parts[-1], "the connection has ended"
        size_b -= len(parts[-1])
    return b"".join(parts)


def transferred(near: socket.socket, far: socket.socket, data: bytes) -> tuple[bytes, float]:
    """What came of the data, and after how long."""
    begin = time.monotonic()
    sender = threading.Thread(target=near.sendall, args=(data,))
    sender.start()
    came = received(far, len(data))
    took_s = time.monotonic() - begin
    sender.join()
    return came, took_s


def test_a_round_trip_takes_the_delay_of_both_directions(wan: Wan) -> None:
    with conditions(wan, rtt_s=0.02), datagrams(wan["a"].login) as far, datagrams(wan["b"].login) as near:
        target = (wan["a"].address, far.getsockname()[1])
        times = []
        for _ in range(15):
            begin = time.monotonic()
            near.sendto(b"ping", target)
            far.sendto(*far.recvfrom(100))
            near.recv(100)
            times.append(time.monotonic() - begin)
        figures = wan.link("a", "b").towards("a").figures()
    assert min(times) >= 0.02
    assert figures.packets == 15
    if LONG:
        assert statistics.median(times) < 0.03
        assert figures.mean_late_s < 0.005


def test_a_rate_is_kept_and_used(wan: Wan) -> None:
    size_b = 2_000_000
    with conditions(wan, rtt_s=0.002, rate_bit_s=50e6, queue_b=300_000), connection(wan) as (near, far):
        came, took_s = transferred(near, far, bytes(size_b))
    ideal_s = 8 * size_b / 50e6
    assert len(came) == size_b
    assert took_s >= ideal_s - 8 * 300_000 / 50e6
    if LONG:
        assert took_s < 2 * ideal_s


def test_packets_are_lost_at_random_as_often_as_asked(wan: Wan) -> None:
    count, loss = 4000, 0.05
    with conditions(wan, loss=loss), datagrams(wan["a"].login) as far, datagrams(wan["b"].login) as near:
        far.setblocking(False)
        target, came = (wan["a"].address, far.getsockname()[1]), 0
        for _ in range(count):
            near.sendto(b"x", target)
        direction = wan.link("a", "b").towards("a")

        def all_counted() -> Figures | None:
            figures = direction.figures()
            return figures if figures.packets + figures.lost >= count else None

        figures = wait_until(all_counted, lambda: f"not all are counted: {direction.figures()}")
        assert figures is not None
        with suppress(BlockingIOError):
            while far.recv(100):
                came += 1
    # The ends of connections of an earlier test may still come this way; each of those is a packet or two.
    strays = figures.packets + figures.lost - count
    assert 0 <= strays <= 20
    assert came <= figures.packets
    deviation = (count * loss * (1 - loss)) ** 0.5
    assert abs(figures.lost - count * loss) <= 5 * deviation + strays


def test_bytes_arrive_unaltered_although_packets_are_lost(wan: Wan) -> None:
    data = random.Random(1).randbytes(6_000_000)
    with conditions(wan, rtt_s=0.001, rate_bit_s=1e9, loss=0.01), connection(wan) as (near, far):
        came, _ = transferred(near, far, data)
        figures = wan.link("a", "b").towards("a").figures()
    assert hashlib.sha256(came).digest() == hashlib.sha256(data).digest()
    assert figures.lost > 10


def test_what_finds_the_queue_full_is_dropped(wan: Wan) -> None:
    with conditions(wan, rate_bit_s=1e3, queue_b=10_000), datagrams(wan["b"].login) as near:
        for _ in range(100):
            near.sendto(bytes(1000), (wan["a"].address, 9))
        direction = wan.link("a", "b").towards("a")
        wait_until(lambda: direction.figures().overflowed >= 80, lambda: f"too few: {direction.figures()}")
        figures = direction.figures()
    assert figures.most_queued_b <= 10_000


def test_after_a_cut_nothing_arrives_until_it_is_mended(wan: Wan) -> None:
    link = wan.link("a", "b")
    with conditions(wan), connection(wan) as (near, far):
        with link.severed():
            near.sendall(b"late")
            wait_until(lambda: link.towards("a").figures().cut > 0, "nothing was dropped")
            assert_nothing_comes(far)
        assert far.recv(10) == b"late"


def assert_nothing_comes(far: socket.socket) -> None:
    """See that nothing is there, nor comes within a moment."""
    assert select.select([far], [], [], 0.2)[0] == []


def test_one_direction_can_be_stalled_and_loses_nothing(wan: Wan) -> None:
    with conditions(wan), datagrams(wan["a"].login) as far, datagrams(wan["b"].login) as near:
        direction = wan.link("a", "b").towards("a")
        direction.stall()
        for number in range(20):
            near.sendto(bytes([number]), (wan["a"].address, far.getsockname()[1]))
        far.sendto(b"the other way", (wan["b"].address, near.getsockname()[1]))
        assert near.recv(100) == b"the other way"
        assert_nothing_comes(far)
        direction.mend()
        assert [far.recv(100)[0] for _ in range(20)] == list(range(20))


def test_one_connection_of_two_can_be_cut(wan: Wan) -> None:
    link = wan.link("a", "b")
    with conditions(wan), connection(wan) as (cut, far_of_cut), connection(wan) as (whole, far_of_whole):
        port = cut.getsockname()[1]
        assert {each.local[1] for each in wan["b"].login.connections()} >= {port, whole.getsockname()[1]}
        link.cut_flow(port)
        cut.sendall(b"held")
        whole.sendall(b"passes")
        assert far_of_whole.recv(10) == b"passes"
        wait_until(lambda: link.towards("a").figures().cut > 0, "nothing was dropped")
        assert_nothing_comes(far_of_cut)
        link.mend_flow(port)
        assert far_of_cut.recv(10) == b"held"


def reaches(origin: Machine, address: str, port: int, patience_s: float = LIMIT_S) -> bool:
    with origin.network():
        try:
            socket.create_connection((address, port), timeout=patience_s).close()
        except OSError:
            return False
    return True


def test_firewalls_let_through_only_what_a_site_allows() -> None:
    sites = [Site("a", nodes=2, open_ports=(PORT,)), Site("b", nodes=1, nat=True), Site("c", dials_out=False)]
    with Wan(sites) as wan:
        listeners = []
        for machine in [*wan["a"].machines, *wan["b"].machines, wan["c"].login]:
            with machine.network():
                listeners += [socket.create_server(("", PORT)), socket.create_server(("", PORT + 1))]
        a, b, c = wan["a"], wan["b"], wan["c"]
        assert reaches(b.login, a.address, PORT)
        assert not reaches(b.login, a.address, PORT + 1, 0.3), "only one port of a is open"
        assert not reaches(a.login, b.address, PORT, 0.3), "b accepts nothing"
        assert not reaches(c.login, a.address, PORT, 0.3), "c may not dial out"
        assert reaches(a.node(1), a.login_address, PORT + 1), "within a site everything is open"
        assert reaches(a.node(1), a.node_address(2), PORT)
        assert not reaches(a.node(1), b.address, PORT, 0.3), "compute nodes see their own site only"
        assert reaches(b.node(1), a.address, PORT), "those of b may dial out"
        b.login.run(["ping", "-c", "1", "-W", "30", "a"])
        for listener in listeners:
            listener.close()


def test_a_signal_reaches_the_program_itself(wan: Wan) -> None:
    process = wan["a"].login.start(["sleep", "60"])
    process.kill()
    assert process.wait(LIMIT_S) == -signal.SIGKILL
    assert not Path(f"/proc/{process.program}").exists()


def test_machines_differ_in_what_programs_know_them_by(wan: Wan) -> None:
    machines = [wan["a"].login, wan["b"].login]
    for words in (["hostname"], ["cat", "/proc/sys/kernel/random/boot_id"]):
        assert len({machine.run(words).stdout for machine in machines}) == 2


def test_nothing_is_left_when_the_program_that_made_the_network_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom wan import Site, Wan\n"
        "with Wan([Site('a', nodes=1), Site('b')]) as wan:\n"
        "    running = wan['a'].node(1).start(['sleep', '600'])\n"
        "    print(*(each.pid for each in (*wan['a'].machines, wan['b'].login)), running.program, flush=True)\n"
        "    time.sleep(600)\n"
    )
    support = str(Path(__file__).parents[2] / "support")
    maker = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": support, "TMPDIR": str(tmp_path)},
    )
    assert maker.stdout is not None
    watched = [os.pidfd_open(int(pid)) for pid in maker.stdout.readline().split()]
    assert len(watched) == 4
    maker.kill()
    maker.wait()
    for descriptor in watched:
        assert select.select([descriptor], [], [], LIMIT_S)[0], "a process of the network is still there"
        os.close(descriptor)
    wait_until(lambda: not list(tmp_path.iterdir()), lambda: f"files are left: {list(tmp_path.iterdir())}")
    maker.stdout.close()
