"""The tables of a run: one-way time, throughput, resident memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harness.figures import Spread, number, size, table
from peers import Peer

if TYPE_CHECKING:
    from run import Sample

REFERENCE = "muscle3"


def spread(samples: Sequence[Sample], peer: str, pattern: str, size_b: int, value: Callable[[Sample], float]) -> Spread | None:
    """One figure over all rounds; None if nothing was measured."""
    values = [value(s) for s in samples if (s.peer, s.pattern, s.size_b) == (peer, pattern, size_b)]
    return Spread.of(values) if values else None


def one_way_us(sample: Sample) -> float:
    return 1e6 * sample.one_message_s


def throughput_gib_s(sample: Sample) -> float:
    return sample.size_b / sample.one_message_s / 2**30


def messages_per_s(sample: Sample) -> float:
    return 1 / sample.one_message_s


def payloads(sample: Sample) -> float:
    """Resident memory that a message brings with it, in payloads: the mean of both ends."""
    grown = sample.first_peak_kib - sample.first_before_kib + sample.second_peak_kib - sample.second_before_kib
    return grown / 2 * 1024 / sample.size_b


def report(samples: Sequence[Sample], peers: Sequence[Peer], machine: str) -> str:
    """All tables, as Markdown."""
    rounds = 1 + max(sample.round for sample in samples)
    sizes = sorted({sample.size_b for sample in samples})
    bulk = [size_b for size_b in sizes if size_b >= 2**16]
    parts = [
        f"{machine}. Median of {rounds} rounds, all peers in each, with the least and the most in brackets.",
        "### One-way time [us]\n\nHalf of a round trip; the receiver reads what it gets.",
        one_table(samples, peers, "pingpong", sizes, one_way_us, lower_is_better=True),
    ]
    if bulk:
        parts += [
            "### Throughput of a stream [GiB/s]\n\nOne end sends, the other reads all of it.",
            one_table(samples, peers, "stream", bulk, throughput_gib_s, lower_is_better=False),
        ]
    if 0 in sizes:
        parts += [
            "### Stream of empty messages [1/s]",
            one_table(samples, peers, "stream", [0], messages_per_s, lower_is_better=False),
        ]
    large = [size_b for size_b in sizes if size_b >= 2**20]
    if large:
        parts += [
            "### Resident memory per end [payloads]\n\nPeak while messages of that size go to and fro (ping-pong) or one way "
            "(stream), over what was resident before, mean of both ends. Ping-pong: 2 is the least that a program with an array of "
            "its own and a received one can do. Stream: 1.",
            memory_table(samples, peers, large),
        ]
    return "\n\n".join(parts) + "\n"


def one_table(
    samples: Sequence[Sample],
    peers: Sequence[Peer],
    pattern: str,
    sizes: Sequence[int],
    value: Callable[[Sample], float],
    lower_is_better: bool,
) -> str:
    """A row per peer, a column per size; behind them how many times better than MUSCLE3, and the part of the floor's speed."""
    head = ["", *(size(s) if s or len(sizes) > 1 else "messages/s" for s in sizes)]
    shown = list(dict.fromkeys((sizes[0], sizes[-1])))
    head += [f"over MUSCLE3, {size(s)}" for s in shown] + [f"of the floor, {size(s)}" for s in shown]
    rows = []
    for peer in peers:
        row = [peer.label]
        for size_b in sizes:
            figure = spread(samples, peer.name, pattern, size_b, value)
            row.append(str(figure) if figure else "-")
        for other in (REFERENCE, peer.floor):
            for size_b in shown:
                ours = spread(samples, peer.name, pattern, size_b, value)
                theirs = spread(samples, other, pattern, size_b, value)
                if ours is None or theirs is None or peer.name == other or peer.floor == "memcpy":
                    row.append("-")
                    continue
                ratio = theirs.median / ours.median if lower_is_better else ours.median / theirs.median
                row.append(f"{number(ratio)} x")
        rows.append(row)
    return table(head, rows)


def memory_table(samples: Sequence[Sample], peers: Sequence[Peer], sizes: Sequence[int]) -> str:
    columns = [(pattern, size_b) for pattern in ("pingpong", "stream") for size_b in sizes]
    rows = []
    for peer in peers:
        row = [peer.label]
        for pattern, size_b in columns:
            figure = spread(samples, peer.name, pattern, size_b, payloads)
            row.append(number(figure.median) if figure else "-")
        rows.append(row)
    return table(["", *(f"{'to and fro' if pattern == 'pingpong' else 'stream'} {size(s)}" for pattern, s in columns)], rows)
