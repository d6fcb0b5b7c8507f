"""The experiments: each gives the samples of one round."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ends
import files
import mpwide
from harness.processes import RunFailed
from sample import AUTO, FIGURES_GIVEN, SMALL_CLOSED, SMALL_OPEN, WARM_AFTER, Sample
from wan import Site, Wan

MIB = 1 << 20
GIGABIT = 1e9
#: Those of the other experiments, and that at which a copy by ssh was published with MPWide.
FILE_RTTS_MS = (1.0, 15.2, 20.0, 37.6, 273.0)
OPEN = (Site("a", open_ports=None), Site("b", open_ports=None))
#: The ports at which site a can be reached; site b can be reached at none of its own unless all are open.
SMALL_COPIES = {SMALL_OPEN: None, SMALL_CLOSED: (22,)}
#: Kernels remember how fast a host was; every connection shall begin alike.
FORGETFUL = {"ipv4/tcp_no_metrics_save": "1"}


@dataclass(frozen=True)
class Extent:
    """How much is measured; `mpwide` is the program of its ends, if MPWide is here."""

    rtts_ms: Sequence[float]
    sizes_b: Sequence[int]
    streams: Sequence[int]
    iperf_s: float
    load_s: float
    file_b: int
    haul_b: int
    mpwide: Path | None = None


FULL = Extent((1, 15.2, 37.6, 273), (8 * MIB, 64 * MIB, 512 * MIB), (1, 2, 4, 8, 16, 32, 64), 8, 8, 1 << 30, 256 * MIB)
QUICK = Extent((1, 37.6, 273), (8 * MIB, 64 * MIB), (1, 8, 64), 4, 4, 64 * MIB, 32 * MIB)
Report = Callable[[str], None]


def bulk(round: int, extent: Extent, say: Report) -> Iterator[Sample]:
    """Large messages over one path, over bare connections and what iperf3 gets through, link by link."""
    with (
        Wan(OPEN, kernel=FORGETFUL) as wan,
        ends.served(wan["a"].login, "serve", "path") as path_port,
        ends.served(wan["a"].login, "serve", "tcp") as tcp_port,
    ):
        for rtt_ms in extent.rtts_ms:
            _shape(wan, rtt_ms, 0.0)
            turns: list[tuple[str, str]] = [("path", AUTO), ("path", FIGURES_GIVEN)]
            for count in extent.streams:
                turns += [("path", str(count)), ("tcp", str(count)), ("iperf3", str(count))]
                turns += [("mpwide", str(count))] if extent.mpwide else []
            for peer, streams in turns[round % len(turns) :] + turns[: round % len(turns)]:
                with _failures_told(say, f"{peer} x {streams}, {rtt_ms} ms"):
                    if peer == "iperf3":
                        bit_s = ends.iperf(wan["a"], wan["b"].login, int(streams), extent.iperf_s)
                        size_b = int(bit_s / 8)
                        late = ends.lateness_us(wan)
                        yield Sample(round, "bulk", peer, streams, rtt_ms, 0.0, size_b, WARM_AFTER, 1.0, late)
                        continue
                    port = path_port if peer == "path" else tcp_port
                    for size_b in extent.sizes_b:
                        lines = _messages(wan, extent, peer, port, streams, size_b, WARM_AFTER + 2, rtt_ms)
                        late = ends.lateness_us(wan)
                        for number, line in enumerate(lines):
                            yield Sample(round, "bulk", peer, streams, rtt_ms, 0.0, size_b, number, line.seconds, late)
            say(f"bulk, {rtt_ms} ms")


def windows(round: int, extent: Extent, say: Report) -> Iterator[Sample]:
    """Machines whose TCP windows are small, 16 kB to send and 85 kB to receive: what many streams bring."""
    rtt_ms, size_b = 37.6, 2 * MIB
    with Wan(OPEN, kernel=FORGETFUL, windows_b=(16 << 10, 87380)) as wan:
        _shape(wan, rtt_ms, 0.0)
        swept = ["1", "8", "32"]
        for peer, counts in (("path", [*swept, "auto"]), ("tcp", swept), ("mpwide", swept if extent.mpwide else [])):
            # A server of MPWide takes one client.
            serving = ends.served(wan["a"].login, "serve", peer) if peer != "mpwide" else contextlib.nullcontext(0)
            with serving as port:
                for streams in counts:
                    with _failures_told(say, f"small windows, {peer} x {streams}"):
                        lines = _messages(wan, extent, peer, port, streams, size_b, WARM_AFTER + 3, rtt_ms)
                        late = ends.lateness_us(wan)
                        for number, line in enumerate(lines):
                            yield Sample(
                                round, "windows", peer, streams, rtt_ms, 0.0, size_b, number, line.seconds, late
                            )
        say("small windows")


def long_haul(round: int, extent: Extent, say: Report) -> Iterator[Sample]:
    """Round the world and a packet in ten thousand lost: 64 streams, and as many as pay."""
    rtt_ms, loss, size_b = 273, 1e-4, extent.haul_b
    with Wan(OPEN, kernel=FORGETFUL) as wan:
        _shape(wan, rtt_ms, loss)
        for peer, streams in (("path", "64"), ("path", "auto"), ("tcp", "64")):
            with (
                ends.served(wan["a"].login, "serve", peer) as port,
                _failures_told(say, f"long haul, {peer} x {streams}"),
            ):
                plan = f"bulk:{size_b}*{WARM_AFTER + 1}"
                lines = ends.dialled(wan["b"].login, peer, f"{wan['a'].address}:{port}", streams, plan)
                late = ends.lateness_us(wan)
                for number, line in enumerate(lines):
                    yield Sample(round, "long haul", peer, streams, rtt_ms, loss, size_b, number, line.seconds, late)
        say("long haul")


def control(round: int, extent: Extent, say: Report) -> Iterator[Sample]:
    """Small messages on the control lane, alone and while bulk fills the link."""
    with Wan(OPEN, kernel=FORGETFUL) as wan:
        for rtt_ms in (1, 15.2):
            _shape(wan, rtt_ms, 0.0)
            for peer, streams in (("path", "8"), ("path", "auto"), ("tcp", "8")):
                with ends.served(wan["a"].login, "serve", peer) as port, _failures_told(say, f"control, {peer}"):
                    plan = f"bulk:{8 * MIB}*3,echo:64*100,load:{extent.load_s}"
                    lines = ends.dialled(wan["b"].login, peer, f"{wan['a'].address}:{port}", streams, plan)
                    late = ends.lateness_us(wan)
                    for kind, experiment in (("echo", "control, idle"), ("load", "control, loaded")):
                        times = [line.seconds for line in lines if line.kind == kind]
                        for number, seconds in enumerate(times):
                            yield Sample(round, experiment, peer, streams, rtt_ms, 0.0, 64, number, seconds, late)
        say("control")


def file_copies(round: int, extent: Extent, say: Report) -> Iterator[Sample]:
    """One large file to another site: xmml cp, scp and rsync."""
    with Wan(OPEN, kernel=FORGETFUL) as wan:
        for rtt_ms in FILE_RTTS_MS:
            _shape(wan, rtt_ms, 0.0)
            for made in files.copies(round, wan, rtt_ms, extent.file_b):
                if isinstance(made, str):
                    say(made)
                else:
                    yield made
        say("files")


def small_copies(round: int, extent: Extent, say: Report) -> Iterator[Sample]:
    """Little to copy, over an open network and through firewalls that let through ssh alone."""
    rtt_ms = 10.0
    for experiment, ports in SMALL_COPIES.items():
        sites = (Site("a", open_ports=ports), Site("b", open_ports=ports and ()))
        with Wan(sites, kernel=FORGETFUL) as wan:
            _shape(wan, rtt_ms, 0.0)
            for made in files.small_copies(round, wan, experiment, rtt_ms):
                if isinstance(made, str):
                    say(made)
                else:
                    yield made
        say(experiment)


EXPERIMENTS = {
    "bulk": bulk,
    "windows": windows,
    "long-haul": long_haul,
    "control": control,
    "files": file_copies,
    "small-copies": small_copies,
}


def _shape(wan: Wan, rtt_ms: float, loss: float) -> None:
    """A link of 1 Gbit/s with a router that holds what fills it for one round trip."""
    rtt_s = rtt_ms / 1e3
    queue_b = max(256 << 10, int(rtt_s * GIGABIT / 8))
    link = wan.link("a", "b")
    link.set(rtt_s=rtt_s, rate_bit_s=GIGABIT, loss=loss, queue_b=queue_b)
    link.clear()


def _messages(
    wan: Wan, extent: Extent, peer: str, port: int, streams: str, size_b: int, count: int, rtt_ms: float
) -> list[ends.Line]:
    """So many large messages from b to a, each of which is answered; `port` is that of the server, if it stands."""
    if peer == "mpwide":
        assert extent.mpwide is not None
        return mpwide.messages(extent.mpwide, wan["a"], wan["b"].login, int(streams), size_b, count)
    if streams == FIGURES_GIVEN:
        streams = f"auto+link:{rtt_ms / 1e3}:{GIGABIT / 8}"
    return ends.dialled(wan["b"].login, peer, f"{wan['a'].address}:{port}", streams, f"bulk:{size_b}*{count}")


@contextlib.contextmanager
def _failures_told(say: Report, what: str) -> Iterator[None]:
    """A peer that fails is told, and the others go on."""
    try:
        yield
    except RunFailed as failure:
        say(f"{what}: {failure}")
