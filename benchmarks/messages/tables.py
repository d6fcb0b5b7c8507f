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
    everybody, peers = peers, [peer for peer in peers if peer.touch == "read"]
    parts = [
        f"{machine}. Median of {rounds} rounds, all peers in each, with the least and the most in brackets.",
        "### One-way time [us]\n\nHalf of a round trip; the receiver reads what it gets.",
        figure_table(samples, peers, "pingpong", sizes, lambda s: s.one_way_us),
        section(
            "One-way time against MUSCLE3 and the floors",
            ratio_table(samples, peers, "pingpong", sizes, lambda s: 1 / s.message_s),
        ),
    ]
    if bulk:
        parts += [
            "### Throughput of a stream [GiB/s]\n\nOne end sends, the other reads all of it.",
            figure_table(samples, peers, "stream", bulk, lambda s: s.throughput_gib_s),
            section(
                "Streams against MUSCLE3 and the floors",
                ratio_table(samples, peers, "stream", bulk, lambda s: 1 / s.message_s),
            ),
        ]
    written = [peer for peer in everybody if peer.touch == "write"]
    if bulk and written:
        parts += [
            "### Arrays that the sender writes and the receiver reads\n\nTime from one end to the other [us], writing "
            "and reading included. Lent: written where the receiver reads it.",
            figure_table(samples, written, "pingpong", bulk, lambda s: s.one_way_us),
            "Throughput of a stream [GiB/s]: one end writes while the other reads.",
            figure_table(samples, written, "stream", bulk, lambda s: s.throughput_gib_s),
            section(
                "Streams of such arrays against MUSCLE3 and one process",
                ratio_table(samples, written, "stream", bulk, lambda s: 1 / s.message_s),
            ),
        ]
    handed = [peer for peer in everybody if peer.touch == "none"]
    if bulk and handed:
        parts += [
            "### Arrays handed over that nobody touches [us]",
            figure_table(samples, handed, "pingpong", bulk, lambda s: s.one_way_us),
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
            memory_table(samples, [*peers, *written], large, lambda s: s.payloads),
            "The same after the last message, what both ends see counted once:",
            memory_table(samples, [*peers, *written], large, lambda s: s.shared_payloads),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(title: str, table: str) -> str:
    """The table below its title, or nothing if there is no table."""
    return f"### {title}\n\n{table}" if table else ""


def figure_table(
    samples: Sequence[Sample], peers: Sequence[Peer], pattern: str, sizes: Sequence[int], figure: Figure
) -> str:
    """A row per peer, a column per size."""
    rows = [
        [peer.label, *(str(spread(samples, peer.name, pattern, s, figure) or "-") for s in sizes)]
        for peer in peers
        if any(peer.takes(size_b) for size_b in sizes)
    ]
    return table(["", *map(size, sizes)], rows) if rows else ""


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


def memory_table(samples: Sequence[Sample], peers: Sequence[Peer], sizes: Sequence[int], figure: Figure) -> str:
    columns = [(pattern, size_b) for pattern in ("pingpong", "stream") for size_b in sizes]
    rows = []
    for peer in peers:
        spreads = [spread(samples, peer.name, pattern, size_b, figure) for pattern, size_b in columns]
        if any(spreads):
            rows.append([peer.name, *(number(each.median) if each else "-" for each in spreads)])
    words = {"pingpong": "to and fro", "stream": "stream"}
    return table(["", *(f"{words[pattern]} {size(size_b)}" for pattern, size_b in columns)], rows)
