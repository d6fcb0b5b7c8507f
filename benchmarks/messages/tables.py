"""The tables of a run: one-way time, throughput, resident memory."""

from __future__ import annotations

from collections.abc import Sequence

from harness.figures import number, size, table
from peers import Peer
from sample import Figure, Sample, spread

REFERENCE = "muscle3"


def report(samples: Sequence[Sample], peers: Sequence[Peer], machine: str) -> str:
    """All tables, as Markdown."""
    rounds = 1 + max(sample.round for sample in samples)
    sizes = sorted({sample.size_b for sample in samples})
    bulk = [size_b for size_b in sizes if size_b >= 2**16]
    large = [size_b for size_b in sizes if size_b >= 2**20]
    parts = [
        f"{machine}. Median of {rounds} rounds, all peers in each, with the least and the most in brackets.",
        "### One-way time [us]\n\nHalf of a round trip; the receiver reads what it gets.",
        figure_table(samples, peers, "pingpong", sizes, lambda s: s.one_way_us),
        ratio_table(samples, peers, "pingpong", sizes, lambda s: 1 / s.message_s),
    ]
    if bulk:
        parts += [
            "### Throughput of a stream [GiB/s]\n\nOne end sends, the other reads all of it.",
            figure_table(samples, peers, "stream", bulk, lambda s: s.throughput_gib_s),
            ratio_table(samples, peers, "stream", bulk, lambda s: 1 / s.message_s),
        ]
    if 0 in sizes:
        parts += [
            "### Stream of empty messages [1/s]",
            figure_table(samples, peers, "stream", [0], lambda s: s.messages_per_s),
        ]
    if large:
        parts += [
            "### Resident memory per end [payloads]\n\nPeak while messages of that size travel, over what was resident "
            "before; mean of both ends. The least that programs with arrays of their own can do is 2 for messages to "
            "and fro, 1 for a stream.",
            memory_table(samples, peers, large),
        ]
    return "\n\n".join(parts) + "\n"


def figure_table(
    samples: Sequence[Sample], peers: Sequence[Peer], pattern: str, sizes: Sequence[int], figure: Figure
) -> str:
    """A row per peer, a column per size."""
    rows = [
        [peer.label, *(str(spread(samples, peer.name, pattern, s, figure) or "-") for s in sizes)] for peer in peers
    ]
    return table(["", *map(size, sizes)], rows)


def ratio_table(
    samples: Sequence[Sample], peers: Sequence[Peer], pattern: str, sizes: Sequence[int], speed: Figure
) -> str:
    """How many times faster than MUSCLE3 and than the floor each peer is, by the medians."""
    rows = []
    for peer in peers:
        for other, name in ((REFERENCE, "MUSCLE3"), (peer.floor, "its floor")):
            cells = []
            for size_b in sizes:
                ours = spread(samples, peer.name, pattern, size_b, speed)
                theirs = spread(samples, other, pattern, size_b, speed)
                cells.append(f"{number(ours.median / theirs.median)} x" if ours and theirs else "-")
            if other != peer.name and set(cells) != {"-"}:
                rows.append([f"{peer.label} over {name}", *cells])
    return table(["speed, times", *map(size, sizes)], rows) if rows else ""


def memory_table(samples: Sequence[Sample], peers: Sequence[Peer], sizes: Sequence[int]) -> str:
    columns = [(pattern, size_b) for pattern in ("pingpong", "stream") for size_b in sizes]
    rows = []
    for peer in peers:
        figures = [spread(samples, peer.name, pattern, size_b, lambda s: s.payloads) for pattern, size_b in columns]
        rows.append([peer.label, *(number(figure.median) if figure else "-" for figure in figures)])
    words = {"pingpong": "to and fro", "stream": "stream"}
    return table(["", *(f"{words[pattern]} {size(size_b)}" for pattern, size_b in columns)], rows)
