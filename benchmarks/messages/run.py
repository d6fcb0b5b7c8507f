"""How long a message takes, and how much fits through: xMML, MUSCLE3, OpenMPI, ZeroMQ and the floors under all of them.

python benchmarks/messages/run.py [--quick] [--rounds N] [--peers NAME,...]

Every round starts every peer once per pattern, so that a busy minute of the machine hits all of them. Ping-pong gives
the one-way time (half of a round trip), the stream the throughput. Results: tables, a CSV file with every single
figure, a plot. Arrays above 4 GiB, where there is memory for two or, if they are copied, three of them:

python benchmarks/messages/run.py --rounds 1 --pattern stream --sizes 4831838208 --peers xmml-python-lent,xmml-cpp-lent
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import plot
import tables
from harness import choice, figures, places, processes
from peers import PATTERNS, PEERS, Job, Peer, Segment
from sample import Sample

KIB, MIB = 1 << 10, 1 << 20
SIZES = (0, 64, KIB, 8 * KIB, 64 * KIB, MIB, 8 * MIB, 64 * MIB)
QUICK_SIZES = (0, KIB, 64 * KIB, MIB, 64 * MIB)
SEGMENT_S, QUICK_SEGMENT_S = 0.25, 0.03
JOB_TIMEOUT_S = 120


def main() -> int:
    arguments = parse()
    sizes: Sequence[int] = QUICK_SIZES if arguments.quick else SIZES
    if arguments.sizes:
        sizes = [int(size) for size in arguments.sizes.split(",")]
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    seconds = QUICK_SEGMENT_S if arguments.quick else SEGMENT_S

    patterns = (arguments.pattern,) if arguments.pattern else PATTERNS
    peers = [replace(peer, patterns=patterns) for peer in choice.choose(PEERS, arguments.peers)]
    print(f"{figures.machine()}; {rounds} rounds of {', '.join(peer.name for peer in peers)}", flush=True)
    samples = measure(peers, sizes, rounds, seconds, cpus() if arguments.pin else "")
    if not samples:
        return 1

    stem = arguments.output / f"messages-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = tables.report(samples, peers, figures.machine())
    stem.with_suffix(".md").write_text(text)
    plot.draw(samples, peers, figures.machine(), stem.with_suffix(".png"))
    print(f"\n{text}\n{stem}.csv, .md, .png")
    whole = rounds * sum(len(peer.patterns) * sum(map(peer.takes, sizes)) for peer in peers)
    return 0 if len(samples) == whole else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, fewer sizes: under a minute, for a first look")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--peers", help=f"of {', '.join(peer.name for peer in PEERS)}; default: all that are here")
    parser.add_argument("--sizes", help="bytes, with commas, multiples of 8; default: 0 to 64 MiB")
    parser.add_argument("--pattern", choices=PATTERNS, help="only this one; default: both")
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="do not put each end on a CPU of its own")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def cpus() -> str:
    """A CPU for each end, if there are two."""
    allowed = sorted(os.sched_getaffinity(0))
    return f"{allowed[0]},{allowed[1]}" if len(allowed) > 1 else ""


def measure(peers: list[Peer], sizes: Sequence[int], rounds: int, seconds: float, cpus: str) -> list[Sample]:
    """All rounds; a peer that fails is reported and goes on in the next round."""
    samples: list[Sample] = []
    for number in range(rounds):
        for peer in choice.rotated(peers, number):
            begin = time.monotonic()
            segments = [Segment(size, peer.count(size, seconds)) for size in sizes if peer.takes(size)]
            for pattern in peer.patterns if segments else ():
                try:
                    samples += run(number, peer, pattern, segments, cpus)
                except processes.RunFailed as failure:
                    print(f"  {peer.name}, {pattern}: {failure}", flush=True)
            print(f"  round {number + 1}/{rounds}  {peer.name:<20} {time.monotonic() - begin:5.1f} s", flush=True)
    return samples


def run(number: int, peer: Peer, pattern: str, segments: Sequence[Segment], cpus: str) -> list[Sample]:
    """One peer, one pattern, all sizes.

    Raises:
        RunFailed: it failed, or not every segment was reported.
    """
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        folder = Path(name)
        os.mkfifo(folder / "barrier")
        peer.run(Job(pattern, segments, folder, cpus, JOB_TIMEOUT_S))
        first, second = lines(folder, "ping", "sender", "copy"), lines(folder, "pong", "receiver", "copy")
    if not len(first) == len(second) == len(segments):
        raise processes.RunFailed(f"of {len(segments)} segments {len(first)} and {len(second)} were reported")
    return [
        Sample(
            number,
            peer.name,
            pattern,
            near["bytes"],
            near["count"],
            near["seconds"],
            near["before_kib"],
            near["peak_kib"],
            far["before_kib"],
            far["peak_kib"],
            near["share_before_kib"],
            near["share_kib"],
            far["share_before_kib"],
            far["share_kib"],
        )
        for near, far in zip(first, second, strict=True)
    ]


def lines(folder: Path, *ends: str) -> list[dict[str, Any]]:
    """What one of these ends has reported."""
    for end in ends:
        report = folder / f"{end}.jsonl"
        if report.exists():
            return [json.loads(line) for line in report.read_text().splitlines()]
    return []


if __name__ == "__main__":
    raise SystemExit(main())
