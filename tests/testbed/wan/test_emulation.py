"""The wide area on one machine does what it is told: an instrument is tested before anything is measured with it."""

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
from wan import Machine, Site, Wan, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PORT = 40001
LIMIT_S = 20
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
    assert statistics.median(times) < 0.2
    assert figures.packets == 15
    assert figures.mean_late_s < 0.1


def test_a_rate_is_kept_and_used(wan: Wan) -> None:
    size_b = 2_000_000
    with conditions(wan, rtt_s=0.002, rate_bit_s=50e6, queue_b=300_000), connection(wan) as (near, far):
        came, took_s = transferred(near, far, bytes(size_b))
    ideal_s = 8 * size_b / 50e6
    assert len(came) == size_b
    assert ideal_s - 8 * 300_000 / 50e6 <= took_s < 20 * ideal_s


def test_packets_are_lost_at_random_as_often_as_asked(wan: Wan) -> None:
    count, loss = 4000, 0.05
    with conditions(wan, loss=loss), datagrams(wan["a"].login) as far, datagrams(wan["b"].login) as near:
        far.setblocking(False)
        target, came = (wan["a"].address, far.getsockname()[1]), 0
        for _ in range(count):
            near.sendto(b"x", target)
        figures = wan.link("a", "b").towards("a").figures()
        end = time.monotonic() + LIMIT_S
        while figures.packets + figures.lost < count and time.monotonic() < end:
            figures = wan.link("a", "b").towards("a").figures()
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
    with conditions(wan, rate_bit_s=1e4, queue_b=10_000), datagrams(wan["b"].login) as near:
        for _ in range(100):
            near.sendto(bytes(1000), (wan["a"].address, 9))
        direction = wan.link("a", "b").towards("a")
        end = time.monotonic() + LIMIT_S
        while direction.figures().overflowed < 80 and time.monotonic() < end:
            time.sleep(0.001)
        figures = direction.figures()
    assert figures.overflowed >= 80
    assert figures.most_queued_b <= 10_000


def test_after_a_cut_nothing_arrives_until_it_is_mended(wan: Wan) -> None:
    link = wan.link("a", "b")
    with conditions(wan), connection(wan) as (near, far):
        with link.severed():
            near.sendall(b"late")
            far.settimeout(0.3)
            with pytest.raises(TimeoutError):
                far.recv(10)
            assert link.towards("a").figures().cut > 0
        far.settimeout(LIMIT_S)
        assert far.recv(10) == b"late"


def test_one_direction_can_be_stalled_and_loses_nothing(wan: Wan) -> None:
    with conditions(wan), datagrams(wan["a"].login) as far, datagrams(wan["b"].login) as near:
        direction = wan.link("a", "b").towards("a")
        direction.stall()
        for number in range(20):
            near.sendto(bytes([number]), (wan["a"].address, far.getsockname()[1]))
        far.sendto(b"the other way", (wan["b"].address, near.getsockname()[1]))
        assert near.recv(100) == b"the other way"
        far.settimeout(0.2)
        with pytest.raises(TimeoutError):
            far.recv(100)
        direction.mend()
        far.settimeout(LIMIT_S)
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
        far_of_cut.settimeout(0.2)
        with pytest.raises(TimeoutError):
            far_of_cut.recv(10)
        link.mend_flow(port)
        far_of_cut.settimeout(LIMIT_S)
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
        b.login.run(["ping", "-c", "1", "-W", "5", "a"])
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
    maker.stdout.close()
