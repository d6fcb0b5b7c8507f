"""What stands between two ends: relays, or bare forwarders, on loopback or on machines of an emulated network."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from example_programs import example
from harness import places
from harness.processes import RunFailed
from sample import Chain
from wan import Machine

#: How long a relay may take to start, and all of them to know each other.
STANDS_WITHIN_S = 60.0

Environment = dict[str, str]


@dataclass(frozen=True)
class Host:
    """Where programs run: here, or on a machine of an emulated network; `address` is where others find it."""

    address: str = "127.0.0.1"
    machine: Machine | None = None

    def start(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
        words = [str(word) for word in command]
        if self.machine is not None:
            return self.machine.start(words, **options)
        return subprocess.Popen(words, **options)


HERE = Host()


@dataclass(frozen=True)
class Way:
    """How two instances reach each other: by this method, with these environments."""

    method: str
    first: Environment = field(default_factory=dict)
    second: Environment = field(default_factory=dict)


@dataclass(frozen=True)
class Figures:
    """What is known of a link: the time to the other end, and bytes that it carries in a second."""

    latency_s: float
    bandwidth_b_s: float


@dataclass(frozen=True)
class Run:
    """The run that relays serve."""

    name: str
    secret_file: Path


@contextlib.contextmanager
def stands(chain: Chain, run: Run) -> Iterator[Way]:
    """A chain on loopback while the block lasts.

    Raises:
        RunFailed: a program of it does not start.
    """
    if chain.peer == "relays":
        with relays([HERE] * chain.count, run, chain.links) as addresses:
            yield through_relays(addresses)
    elif chain.peer == "forwarders":
        with forwarders(chain.count) as first, forwarders(chain.count) as second:
            yield Way("tcp", first, second)
    else:
        yield Way("tcp")


# ---- bare forwarders ----


@contextlib.contextmanager
def forwarders(count: int) -> Iterator[Environment]:
    """Forwarders in front of an instance, which is reached through them only; its environment.

    Raises:
        RunFailed: one does not start.
    """
    try:
        program = example("wide_area")
    except RuntimeError as error:
        raise RunFailed(str(error)) from error
    own = port = _free_port()
    with contextlib.ExitStack() as standing:
        for _ in range(count):
            command: list[str | Path] = [program, "forward", f"127.0.0.1:{port}"]
            process = HERE.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            standing.callback(_end, process)
            port = int(_line(process, "a forwarder"))
        yield {"XMML_LISTEN": f"127.0.0.1:{own}", "XMML_PUBLISH": f"127.0.0.1:{port}"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


# ---- relays ----


def through_relays(addresses: Sequence[str]) -> Way:
    """From an instance at the first relay to one at the last."""
    return Way("relay", {"XMML_RELAY": addresses[0]}, {"XMML_RELAY": addresses[-1]})


@contextlib.contextmanager
def relays(
    hosts: Sequence[Host],
    run: Run,
    links: str = "default",
    streams: int | None = None,
    figures: Figures | None = None,
) -> Iterator[list[str]]:
    """Relays in a row, each of which dials the one before it; for each the value of XMML_RELAY.

    `links` says whether they encrypt: clear, encrypted, or default, which is as mto does it; `streams` the number of
    streams of a link (None: as many as pay), `figures` what a relay is told of the link that it dials.

    Raises:
        RunFailed: one does not start, or they do not find each other.
    """
    mto = places.tool("mto") or places.ROOT / "target" / "release" / "mto"
    key_file = run.secret_file.with_name("relay-key")
    key_file.touch(mode=0o600)
    key_file.write_bytes(subprocess.run([mto, "relay-key", run.secret_file], capture_output=True, check=True).stdout)
    with contextlib.ExitStack() as standing:
        started: list[subprocess.Popen[Any]] = []
        addresses: list[str] = []
        for number, host in enumerate(hosts):
            file = run.secret_file.with_name(f"relay-{number}.toml")
            before = addresses[-1].partition("/")[0] if addresses else None
            file.write_text(_configuration(number, host, before, run, key_file, links, streams, figures))
            process = host.start(
                [mto, "--config", file, "--stdin"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file.with_suffix(".log").open("w"),
                text=True,
            )
            standing.callback(_end, process)
            port = json.loads(_line(process, "a relay", file.with_suffix(".log")))["listen"][0].rpartition(":")[2]
            started.append(process)
            addresses.append(f"{host.address}:{port}/{_site(number)}")
        _wait_until(lambda: _reaches(started[0], run, _site(len(hosts) - 1)), "the relays find no way to each other")
        _wait_until(lambda: _reaches(started[-1], run, _site(0)), "the relays find no way back")
        yield addresses


def _site(number: int) -> str:
    return f"site{number + 1}"


def _configuration(
    number: int,
    host: Host,
    to: str | None,
    run: Run,
    key_file: Path,
    links: str,
    streams: int | None,
    figures: Figures | None,
) -> str:
    site = _site(number)
    lines = [f'site = "{site}"', f'listen = ["{host.address}:0"]', f'control = "@{run.name}-{site}"']
    if links != "default":
        lines.append(f"encrypt = {'true' if links == 'encrypted' else 'false'}")
    if links == "clear":
        lines.append(f'clear_from = ["{_site(number + 1)}"]')  # which dials this one
    if to is not None:
        lines += ["[[link]]", f'to = "{to}"']
        lines += [f"streams = {streams}"] if streams is not None else []
        if figures is not None:
            lines += [f"latency_s = {figures.latency_s}", f"bandwidth_b_s = {figures.bandwidth_b_s}"]
    lines += ["[[run]]", f'name = "{run.name}"', f'relay_key_file = "{key_file}"']
    return "\n".join(lines) + "\n"


def _reaches(relay: subprocess.Popen[Any], run: Run, site: str) -> bool:
    assert relay.stdin is not None
    relay.stdin.write('{"command": "status"}\n')
    relay.stdin.flush()
    status: Mapping[str, Any] = json.loads(_line(relay, "a relay"))["status"]
    return site in status["runs"][run.name]["sites"]


def _wait_until(is_so: Callable[[], bool], problem: str) -> None:
    until = time.monotonic() + STANDS_WITHIN_S
    while not is_so():
        if time.monotonic() > until:
            raise RunFailed(f"{problem} within {STANDS_WITHIN_S:.0f} s")
        time.sleep(0.05)


def _line(process: subprocess.Popen[Any], what: str, log: Path | None = None) -> str:
    """What it says next."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], STANDS_WITHIN_S)
    line: str = process.stdout.readline() if readable else ""
    if not line.strip():
        said = log.read_text()[-500:].strip() if log is not None else ""
        raise RunFailed(f"{what} does not start: {said or 'it says nothing'}")
    return line


def _end(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.communicate()
