"""What it would bring to send without copying into the kernel (MSG_ZEROCOPY): over loopback, and between two machines.

python benchmarks/wide-area/zero_copy.py [--rounds N] [--seconds S]

The machines are a login node and a compute node of an emulated site (tests/testbed/wan/README.md), joined by virtual
network cards; it needs root. One connection sends the same memory for some seconds, with and without the flag, in turn.
The kernel tells of each send without a copy whether it had to copy after all.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import resource
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from harness.figures import Spread, machine, size, table
from wan import Machine, Site, Wan, why_not

SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000
#: struct sock_extended_err: errno, origin, type, code, padding, first and last send that it tells of.
_TOLD = struct.Struct("=IBBBBII")
_COPIED = 1
SIZES_B = (16 << 10, 256 << 10, 1 << 20)


def send(address: str, port: int, size_b: int, without_copy: bool, seconds: float) -> dict[str, float]:
    """Sends for some seconds; how much, the processor time of it, and which part was copied after all."""
    memory = memoryview(bytearray(size_b))
    told = {"sends": 0, "copied": 0}
    with socket.create_connection((address, port)) as connection:
        if without_copy:
            connection.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
        before, begin, sent, sends = resource.getrusage(resource.RUSAGE_SELF), time.monotonic(), 0, 0
        while time.monotonic() < begin + seconds:
            try:
                sent += connection.send(memory, MSG_ZEROCOPY if without_copy else 0)
                sends += 1
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # too many sends of which nobody was told yet
                    raise
                select.select([], [], [connection], 1)
            if without_copy:
                _hear(connection, told)
        took = time.monotonic() - begin
        while without_copy and told["sends"] < sends:
            select.select([], [], [connection], 1)
            _hear(connection, told)
        after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"bytes": sent, "seconds": took, "cpu_s": cpu_s, "copied": told["copied"] / max(1, told["sends"])}


def _hear(connection: socket.socket, told: dict[str, int]) -> None:
    """Takes in what the kernel says of sends that are done."""
    while True:
        try:
            _, notes, _, _ = connection.recvmsg(0, 256, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        for _, _, data in notes:
            _, _, _, code, _, first, last = _TOLD.unpack_from(data)
            told["sends"] += last - first + 1
            told["copied"] += (last - first + 1) * (code & _COPIED)


def take() -> None:
    """Prints a port; takes what comes there, connection after connection."""
    memory = bytearray(1 << 20)
    with socket.create_server(("0.0.0.0", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                while connection.recv_into(memory):
                    pass


@contextlib.contextmanager
def _taking(there: Machine) -> Iterator[int]:
    taker = there.start([sys.executable, __file__, "take"], stdout=subprocess.PIPE, text=True)
    try:
        assert taker.stdout is not None
        yield int(taker.stdout.readline())
    finally:
        taker.kill()
        taker.communicate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each transfer (%(default)s)")
    arguments = parser.parse_args()
    if reason := why_not():
        print(f"no machines can be made here: {reason}")
        return 0
    found: dict[tuple[str, int, bool], list[dict[str, float]]] = {}
    with Wan([Site("a", nodes=1), Site("b")]) as wan:
        here, there = wan["a"].node(1), wan["a"].login
        ways = {"loopback": (there, "127.0.0.1"), "virtual cards": (here, wan["a"].login_address)}
        with _taking(there) as port:
            for _ in range(arguments.rounds):
                for way, (sender, address) in ways.items():
                    for size_b in SIZES_B:
                        for without_copy in (False, True):
                            words = ["send", address, port, size_b, int(without_copy), arguments.seconds]
                            done = sender.run([sys.executable, __file__, *map(str, words)])
                            found.setdefault((way, size_b, without_copy), []).append(json.loads(done.stdout))
    rows = [
        [
            f"{way}, sends of {size(size_b)}, {'without a copy' if without_copy else 'copied'}",
            str(Spread.of([each["bytes"] / each["seconds"] / 1e9 for each in measured])),
            str(Spread.of([1e9 * each["cpu_s"] / each["bytes"] for each in measured])),
            f"{100 * Spread.of([each['copied'] for each in measured]).median:.0f} %" if without_copy else "-",
        ]
        for (way, size_b, without_copy), measured in found.items()
    ]
    print(f"{machine()}; median of {arguments.rounds} rounds, with the least and the most\n")
    print(table(["", "GB/s", "processor of the sender, s per GB", "copied after all"], rows))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["take"]:
        take()
    elif sys.argv[1:2] == ["send"]:
        host, port, size_b, flag, seconds = sys.argv[2:]
        print(json.dumps(send(host, int(port), int(size_b), flag == "1", float(seconds))))
    else:
        raise SystemExit(main())
