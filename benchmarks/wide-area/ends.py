"""The two ends of a measurement, at two sites of the emulated network."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from example_programs import example
from harness.processes import RunFailed
from wan import Machine, MachineProcess, PlacedSite, Wan
from wan.ssh import wait_for_port

LIMIT_S = 400.0


@dataclass(frozen=True)
class Line:
    """What a client said of one message."""

    kind: str
    size_b: int
    seconds: float


def program() -> Path:
    """The program of both ends, built if need be.

    Raises:
        RunFailed: the compiler has errors.
    """
    try:
        return example("wide_area")
    except RuntimeError as error:
        raise RunFailed(str(error)) from error


@contextlib.contextmanager
def served(machine: Machine, *words: str | Path) -> Iterator[int]:
    """A server on a machine while the block lasts; its port."""
    server = machine.start([program(), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield _port(server, machine)
    finally:
        server.kill()
        server.communicate()


def _port(server: MachineProcess, machine: Machine) -> int:
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line.strip().isdigit():
        raise RunFailed(f"a server on {machine.name} does not start")
    return int(line)


def dialled(machine: Machine, kind: str, address: str, streams: str, plan: str) -> list[Line]:
    """What a client on a machine measures.

    Raises:
        RunFailed: it failed or was not done in time.
    """
    try:
        done = machine.run([program(), "dial", kind, address, streams, plan], check=False, timeout_s=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"{kind} {streams} {plan}: not done within {LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        raise RunFailed(f"{kind} {streams} {plan}: {done.stderr.strip()[-500:]}")
    return lines_of(done.stdout)


def lines_of(output: str) -> list[Line]:
    """The lines about messages in what a client said; libraries say more."""
    said = [line.split() for line in output.splitlines()]
    return [
        Line(words[0], int(words[1]), float(words[2])) for words in said if words[:1] in (["bulk"], ["echo"], ["load"])
    ]


def iperf(server: PlacedSite, client: Machine, streams: int, seconds: float) -> float:
    """What iperf3 gets through with so many streams, bits per second at the receiver, when it has warmed up.

    Raises:
        RunFailed: it failed.
    """
    port = 5201
    listening = server.login.start(
        ["iperf3", "--server", "--one-off", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for_port(server.login, port)
        words = ["iperf3", "--client", server.address, "--port", str(port), "--json", "--parallel", str(streams)]
        words += ["--time", str(round(seconds)), "--omit", str(max(1, round(seconds / 2)))]
        done = client.run(words, check=False, timeout_s=LIMIT_S)
        answer = json.loads(done.stdout or "{}")
        if done.returncode != 0 or "error" in answer:
            raise RunFailed(f"iperf3 -P {streams}: {answer.get('error', done.stderr)}")
        return float(answer["end"]["sum_received"]["bits_per_second"])
    finally:
        listening.kill()
        listening.communicate()


def lateness_us(wan: Wan) -> float:
    """How much later than they should packets came since this was last asked: the mean of the worse direction [us]."""
    link = wan.link("a", "b")
    late = max(link.towards(site).figures().mean_late_s for site in ("a", "b"))
    link.clear()
    return 1e6 * late
