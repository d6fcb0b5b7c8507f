"""The tables of a run, each a section of Markdown with a title."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from harness.figures import Spread, number, size, table
from sample import DIRECT, PING, Chain, Figure, Sample, chains_in, spread

#: What TCP's payload can be of a link of 1 Gbit/s with packets of 1,500 bytes: 1,448 of them, as the emulated link
#: counts what IP counts, and headers of TCP with time stamps have 52 (tests/testbed/wan/README.md) [bit/s].
POSSIBLE_BIT_S = 1e9 * 1448 / 1500
#: Sizes of which the table of ratios speaks; those between are in the plot.
SHOWN_B = (0, 64, 1 << 10, 10 << 10, 64 << 10, 256 << 10, 1 << 20)


def report(samples: Sequence[Sample], machine: str) -> str:
    """All tables for which something was measured."""
    rounds = 1 + max(sample.round for sample in samples)
    late = [sample.late_us for sample in samples if sample.rtt_ms > 0]
    instrument = ""
    if late:
        instrument = (
            f" Links are emulated on the same machine, which delivered {number(Spread.of(late).median)} us late "
            f"(at worst {number(max(late))} in the mean of one measurement)."
        )
    parts = [
        f"{machine}. Median of {rounds} rounds, everybody in each, with the least and the most in brackets.{instrument}"
    ]
    for title, made in (
        ("Through relays", _one_way),
        ("Relays against bare forwarders", _ratios),
        ("Steps", _steps),
        ("A stream through relays", _throughput),
        ("Added to a ping", _added),
        ("Control beside bulk", _control),
        ("Streams between sites", _links),
    ):
        text = made(samples)
        if text:
            parts.append(f"### {title}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def _of(samples: Sequence[Sample], experiment: str) -> list[Sample]:
    return [sample for sample in samples if sample.experiment == experiment]


def _one_way(samples: Sequence[Sample]) -> str:
    mine = _of(samples, "latency")
    sizes = [size_b for size_b in _sizes(mine) if size_b in SHOWN_B] or _sizes(mine)
    rows = [
        [chain.label, *(_cell(spread(mine, chain, "latency", "one way", size_b=size_b), 1e6) for size_b in sizes)]
        for chain in chains_in(mine)
    ]
    return table(["one way [us]", *map(size, sizes)], rows) if rows else ""


def _ratios(samples: Sequence[Sample]) -> str:
    """Each chain of relays over as many bare forwarders, in each round."""
    mine = _of(samples, "latency")
    sizes = [size_b for size_b in _sizes(mine) if size_b in SHOWN_B] or _sizes(mine)
    rows = []
    for chain in chains_in(mine):
        if chain.peer == "relays":
            bare = Chain("forwarders", chain.count)
            cells = [
                _ratio(_by_round(mine, chain, "one way", size_b), _by_round(mine, bare, "one way", size_b))
                for size_b in sizes
            ]
            rows.append([chain.label, *(str(cell or "-") for cell in cells)])
    return table(["time over that of bare forwarders", *map(size, sizes)], rows) if rows else ""


def _steps(samples: Sequence[Sample]) -> str:
    """Where the time grows most from one size to the next: a step is a place where it grows faster than the size."""
    mine = _of(samples, "latency")
    rows = []
    for chain in chains_in(mine):
        curve = [
            (size_b, found.median)
            for size_b in _sizes(mine)
            if (found := spread(mine, chain, "latency", "one way", size_b=size_b)) is not None
        ]
        growth = [
            (time_s / before_s, before_b, size_b)
            for (before_b, before_s), (size_b, time_s) in itertools.pairwise(curve)
        ]
        if growth:
            factor, before_b, size_b = max(growth)
            rows.append([chain.label, f"{factor:.2f}", f"{size(before_b)} to {size(size_b)}"])
    return table(["the time grows most", "by a factor of", "from"], rows) if rows else ""


def _throughput(samples: Sequence[Sample]) -> str:
    mine = _of(samples, "throughput")
    sizes = _sizes(mine)
    rows = []
    for chain in chains_in(mine):
        row = [chain.label]
        for size_b in sizes:
            rate = _by_round(mine, chain, "rate", size_b)
            row.append(_cell(spread(mine, chain, "throughput", "rate", size_b=size_b), 1 / (1 << 30)))
            for other in (DIRECT, Chain("forwarders", chain.count)):
                share = _ratio(rate, _by_round(mine, other, "rate", size_b))
                row.append(str(share or "-") if chain.peer == "relays" else "-")
        rows.append(row)
    head = [cell for size_b in sizes for cell in (f"{size(size_b)} [GiB/s]", "of direct TCP", "of bare forwarders")]
    return table(["", *head], rows) if rows else ""


def _added(samples: Sequence[Sample]) -> str:
    mine = _of(samples, "added")
    rows = [
        [
            chain.label,
            _cell(spread(mine, chain, "added", "round trip"), 1e3),
            "-" if chain == PING else _cell(spread(mine, chain, "added", "added"), 1e3),
        ]
        for chain in chains_in(mine)
    ]
    return table(["64 B there and back, RTT 15.2 ms [ms]", "takes", "more than the ping before"], rows) if rows else ""


def _control(samples: Sequence[Sample]) -> str:
    mine = _of(samples, "control")
    rows = []
    for rtt_ms in sorted({sample.rtt_ms for sample in mine}):
        there = [sample for sample in mine if sample.rtt_ms == rtt_ms]
        for chain in chains_in(there):
            sizes = _sizes(there)
            alone = _by_round(there, chain, "p99 alone", sizes[0])
            loaded = _by_round(there, chain, "p99 beside bulk", sizes[0])
            rows.append(
                [
                    f"RTT {rtt_ms:g} ms; {chain.label}",
                    _cell(spread(there, chain, "control", "p99 alone"), 1e3),
                    _cell(spread(there, chain, "control", "p99 beside bulk"), 1e3),
                    str(_ratio(loaded, alone) or "-"),
                    _cell(spread(there, chain, "control", "rate"), 8e-6),
                ]
            )
    head = ["64 B there and back, p99", "alone [ms]", "beside bulk [ms]", "times as long", "bulk [Mbit/s]"]
    return table(head, rows) if rows else ""


def _links(samples: Sequence[Sample]) -> str:
    rows = []
    for experiment, link in (
        ("near link", "RTT 1 ms, as many streams as pay"),
        ("long haul", "RTT 273 ms, 0.01 % lost, 64 streams"),
        ("long haul, told", "the same, figures of the link given"),
    ):
        mine = _of(samples, experiment)
        for chain in chains_in(mine):
            gap = spread(mine, chain, experiment, "longest gap")
            in_trips = f"{gap.median * 1e3 / mine[0].rtt_ms:.1f}" if gap else "-"
            rows.append(
                [
                    f"{link}; {chain.label}",
                    _cell(spread(mine, chain, experiment, "rate"), 8e-6),
                    _cell(spread(mine, chain, experiment, "rate"), 8 / POSSIBLE_BIT_S),
                    _cell(gap, 1e3),
                    in_trips,
                ]
            )
    head = ["1 Gbit/s", "[Mbit/s]", "of what TCP can carry", "longest pause [ms]", "in round trips"]
    return table(head, rows) if rows else ""


def _sizes(samples: Sequence[Sample]) -> list[int]:
    return sorted({sample.size_b for sample in samples})


def _cell(found: Spread | None, factor: float) -> str:
    return str(Spread(found.median * factor, found.low * factor, found.high * factor)) if found else "-"


def _by_round(samples: Sequence[Sample], chain: Chain, figure: Figure, size_b: int) -> dict[int, float]:
    wanted = (chain.peer, chain.count, chain.links, figure, size_b)
    return {s.round: s.value for s in samples if (s.peer, s.count, s.links, s.figure, s.size_b) == wanted}


def _ratio(ours: dict[int, float], theirs: dict[int, float]) -> Spread | None:
    """Of the rounds in which both were measured."""
    ratios = [ours[number] / theirs[number] for number in ours.keys() & theirs.keys()]
    return Spread.of(ratios) if ratios else None
