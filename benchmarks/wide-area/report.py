"""The tables of a run, each a section of Markdown with a title."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from files import SMALL_B
from harness.figures import Spread, number, size, table
from sample import FIGURES_GIVEN, SMALL_CLOSED, SMALL_OPEN, Part, Sample, spread

PEERS = {"path": "xMML path", "tcp": "bare TCP", "iperf3": "iperf3", "mpwide": "MPWide"}


def report(samples: Sequence[Sample], machine: str) -> str:
    """All tables for which something was measured."""
    rounds = 1 + max(sample.round for sample in samples)
    late = Spread.of([sample.late_us for sample in samples])
    parts = [
        f"{machine}. Median of {rounds} rounds, everybody in each, with the least and the most in brackets. Links of "
        f"1 Gbit/s, emulated on the same machine, which delivered {number(late.median)} us late (at worst "
        f"{number(late.high)} in the mean of one measurement).",
    ]
    for title, made in (
        ("Bulk over a wide area", _bulk),
        ("What it is compared with", _ratios),
        ("The first message", _cold),
        ("Small windows", _windows),
        ("Round the world", _long_haul),
        ("Control messages under load", _control),
        ("Files", _files),
        ("Small copies", _small_copies),
    ):
        text = made(samples)
        if text:
            parts.append(f"### {title}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def _of(samples: Sequence[Sample], experiment: str) -> list[Sample]:
    return [sample for sample in samples if sample.experiment == experiment]


def _rtts(samples: Sequence[Sample]) -> list[float]:
    return sorted({sample.rtt_ms for sample in samples})


def _turns(samples: Sequence[Sample]) -> list[tuple[str, str]]:
    """Peers with their streams, automatic ones first."""
    found = {(sample.peer, sample.streams) for sample in samples}
    order = list(PEERS)
    known = [turn for turn in found if turn[0] in PEERS]
    return sorted(known, key=lambda turn: (order.index(turn[0]), turn[1].isdigit(), turn[1].zfill(3)))


def _label(peer: str, streams: str) -> str:
    if streams == FIGURES_GIVEN:
        return f"{PEERS[peer]}, auto streams, figures of the link given"
    return f"{PEERS[peer]}, {streams} stream{'' if streams == '1' else 's'}"


def _bulk(samples: Sequence[Sample]) -> str:
    """Throughput when warm, for each size a table."""
    mine = _of(samples, "bulk")
    parts = []
    for size_b in sorted({sample.size_b for sample in mine if sample.peer != "iperf3"}):
        rows = []
        for peer, streams in _turns(mine):
            wanted = None if peer == "iperf3" else size_b
            cells = [
                spread(
                    mine, _rate, experiment="bulk", peer=peer, streams=streams, rtt_ms=rtt, size_b=wanted, part="warm"
                )
                for rtt in _rtts(mine)
            ]
            rows.append([_label(peer, streams), *(str(cell or "-") for cell in cells)])
        head = [f"{size(size_b)}, warm [Mbit/s]", *(f"RTT {rtt:g} ms" for rtt in _rtts(mine))]
        parts.append(table(head, rows))
    return "\n\n".join(parts)


def _ratios(samples: Sequence[Sample]) -> str:
    """Automatic streams against the best of a sweep, the best bare connections and the best of iperf3."""
    mine = _of(samples, "bulk")
    rows = []
    for size_b in sorted({sample.size_b for sample in mine if sample.peer != "iperf3"}):
        for name, peer in (
            ("the best fixed number", "path"),
            ("the best bare TCP", "tcp"),
            ("the best iperf3", "iperf3"),
            ("the best MPWide", "mpwide"),
        ):
            if not any(sample.peer == peer for sample in mine):
                continue
            cells = []
            for rtt in _rtts(mine):
                ours = spread(
                    mine, _rate, experiment="bulk", peer="path", streams="auto", rtt_ms=rtt, size_b=size_b, part="warm"
                )
                best = _best(mine, peer, rtt, None if peer == "iperf3" else size_b)
                cells.append(f"{ours.median / best:.2f}" if ours and best else "-")
            rows.append([f"{size(size_b)}, automatic over {name}", *cells])
    return table(["ratio", *(f"RTT {rtt:g} ms" for rtt in _rtts(mine))], rows) if rows else ""


def _best(samples: Sequence[Sample], peer: str, rtt_ms: float, size_b: int | None) -> float | None:
    medians = []
    for name, streams in _turns(samples):
        if name == peer and streams.isdigit():
            found = spread(
                samples, _rate, experiment="bulk", peer=peer, streams=streams, rtt_ms=rtt_ms, size_b=size_b, part="warm"
            )
            if found:
                medians.append(found.median)
    return max(medians, default=None)


def _cold(samples: Sequence[Sample]) -> str:
    mine = [sample for sample in _of(samples, "bulk") if sample.peer != "iperf3"]
    rows = []
    for size_b in sorted({sample.size_b for sample in mine}):
        for peer, streams in _turns(mine):
            cells = [
                spread(
                    mine, _ms, experiment="bulk", peer=peer, streams=streams, rtt_ms=rtt, size_b=size_b, part="first"
                )
                for rtt in _rtts(mine)
            ]
            rows.append([f"{size(size_b)}, {_label(peer, streams)}", *(str(cell or "-") for cell in cells)])
    return table(["time until answered [ms]", *(f"RTT {rtt:g} ms" for rtt in _rtts(mine))], rows) if rows else ""


def _windows(samples: Sequence[Sample]) -> str:
    return _one_column(samples, "windows", "16/85 kB windows, RTT 37.6 ms, 2 MiB [Mbit/s]", _rate, part="warm")


def _long_haul(samples: Sequence[Sample]) -> str:
    return _one_column(samples, "long haul", "RTT 273 ms, 0.01 % lost [Mbit/s]", _rate, part="warm")


def _one_column(
    samples: Sequence[Sample], experiment: str, head: str, figure: Callable[[Sample], float], part: Part
) -> str:
    mine = _of(samples, experiment)
    rows = [
        [
            _label(peer, streams),
            str(spread(mine, figure, experiment=experiment, peer=peer, streams=streams, part=part) or "-"),
        ]
        for peer, streams in _turns(mine)
    ]
    return table(["", head], rows) if rows else ""


def _control(samples: Sequence[Sample]) -> str:
    rows = []
    for rtt in _rtts(_of(samples, "control, idle")):
        for peer, streams in _turns(_of(samples, "control, idle")):
            idle = _percentiles(samples, "control, idle", peer, streams, rtt)
            loaded = _percentiles(samples, "control, loaded", peer, streams, rtt)
            if idle and loaded:
                ratio = loaded[1].median / idle[1].median
                rows.append([f"RTT {rtt:g} ms, {_label(peer, streams)}", *map(str, (*idle, *loaded)), f"{ratio:.2f}"])
    head = [
        "64 B there and back [ms]",
        "idle, median",
        "idle, p99",
        "loaded, median",
        "loaded, p99",
        "p99, loaded over idle",
    ]
    note = "Bulk goes on without a pause over a path; bare TCP waits for the answer to every 4 MiB.\n\n"
    return note + table(head, rows) if rows else ""


def _percentiles(
    samples: Sequence[Sample], experiment: str, peer: str, streams: str, rtt_ms: float
) -> tuple[Spread, Spread] | None:
    """The median and the 99th percentile of each round, over the rounds."""
    rounds: dict[int, list[float]] = {}
    for s in samples:
        if (s.experiment, s.peer, s.streams, s.rtt_ms) == (experiment, peer, streams, rtt_ms):
            rounds.setdefault(s.round, []).append(s.milliseconds)
    if not rounds:
        return None
    ordered = [sorted(times) for times in rounds.values()]
    return (
        Spread.of([times[len(times) // 2] for times in ordered]),
        Spread.of([times[min(len(times) - 1, int(0.99 * len(times)))] for times in ordered]),
    )


def _files(samples: Sequence[Sample]) -> str:
    mine = _of(samples, "files")
    sizes = sorted({(sample.size_b, sample.rtt_ms) for sample in mine})
    peers = list(dict.fromkeys(sample.peer for sample in mine))
    rows = []
    for peer in peers:
        cells = [
            spread(mine, lambda s: s.megabit_s / 8, experiment="files", peer=peer, size_b=size_b, rtt_ms=rtt)
            for size_b, rtt in sizes
        ]
        rows.append([peer, *(str(cell or "-") for cell in cells)])
    return table(["[MB/s]", *(f"{size(size_b)}, RTT {rtt:g} ms" for size_b, rtt in sizes)], rows) if rows else ""


def _small_copies(samples: Sequence[Sample]) -> str:
    rows = []
    for experiment, network in ((SMALL_OPEN, "all ports open"), (SMALL_CLOSED, "port 22 alone")):
        mine = _of(samples, experiment)
        login = spread(mine, lambda s: s.seconds, experiment=experiment, peer="ssh")
        for peer in sorted({sample.peer for sample in mine} - {"ssh"}):
            cells = [
                spread(mine, lambda s: s.seconds, experiment=experiment, peer=peer, size_b=count * size_b)
                for count, sizes in SMALL_B.items()
                for size_b in sizes
            ]
            rows.append([f"{peer}, {network}", str(login or "-"), *(str(cell or "-") for cell in cells)])
    head = [
        f"{_rtts(_of(samples, SMALL_OPEN))[0]:g} ms RTT [s]" if rows else "",
        "ssh true",
        *(
            f"{f'{count} files of ' if count > 1 else ''}{_bytes(each)}"
            for count, sizes in SMALL_B.items()
            for each in sizes
        ),
    ]
    return table(head, rows) if rows else ""


def _bytes(size_b: int) -> str:
    return size(size_b) if size_b % 1024 == 0 else f"{size_b / 1e6:g} MB"


def _rate(sample: Sample) -> float:
    return sample.megabit_s


def _ms(sample: Sample) -> float:
    return sample.milliseconds
