"""What coupling costs: a lattice-Boltzmann cavity as one MPI program on two ranks, and as two coupled submodels.

python benchmarks/canal/run.py [--quick] [--rounds N] [--cells 40,64,...]

After the experiment in the paper on MUSCLE 2 (Borgdorff et al. 2014), which set a canal in one program against the same
canal in two coupled ones. Both programs here are made of the same code (workflows/cavity/cavity.hpp), run on the same
two CPUs, exchange the same numbers in each step, and must end with the same bits. Only the steps are timed, after a
warm-up; the start is reported beside. Efficiency is T_mono / T_coupled.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import report
from harness import choice, figures, places, processes
from peers import PEERS, Job, Peer
from sample import Sample

CELLS = (40, 64, 96, 128, 192)
QUICK_CELLS = (16, 24)
LOOP_S, QUICK_LOOP_S = 3.0, 0.1
UPDATES_PER_S = 4e7
"""About how many cells two processors update in a second; it only decides how many steps are made."""


def main() -> int:
    arguments = parse()
    sizes: Sequence[int] = QUICK_CELLS if arguments.quick else CELLS
    if arguments.cells:
        sizes = [int(cells) for cells in arguments.cells.split(",")]
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    loop_s = QUICK_LOOP_S if arguments.quick else LOOP_S
    peers = choice.choose(PEERS, None)
    print(f"{figures.machine()}; {rounds} rounds of {', '.join(peer.name for peer in peers)}", flush=True)

    samples, failures = measure(peers, sizes, rounds, loop_s, cpus())
    if not samples:
        return 1
    different = unequal(samples)
    for cells in different:
        print(f"  {cells} cells: the two did not end with the same fields", flush=True)

    stem = arguments.output / f"canal-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report.report(samples, peers, figures.machine())
    stem.with_suffix(".md").write_text(text)
    report.draw(samples, peers, figures.machine(), stem.with_suffix(".png"))
    print(f"\n{text}\n{stem}.csv, .md, .png")
    return 1 if failures or different else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of two small sizes: some seconds")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--cells", help=f"along each edge, with commas; default: {','.join(map(str, CELLS))}")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def cpus() -> str:
    """A CPU for each half, if there are two."""
    allowed = sorted(os.sched_getaffinity(0))
    return f"{allowed[0]},{allowed[1]}" if len(allowed) > 1 else ""


def measure(
    peers: Sequence[Peer], sizes: Sequence[int], rounds: int, loop_s: float, cpus: str
) -> tuple[list[Sample], int]:
    """All rounds, and how many runs failed. Each round has every size with every program, one right after the other."""
    samples: list[Sample] = []
    failures = 0
    for number in range(rounds):
        for cells in sizes:
            steps = max(5, round(loop_s * UPDATES_PER_S / cells**3))
            job = Job(cells, max(5, steps // 10), steps, cpus, 60 + 40 * loop_s)
            for peer in choice.rotated(peers, number):
                try:
                    sample = peer.run(number, job)
                except processes.RunFailed as failure:
                    print(f"  {peer.name}, {cells} cells: {failure}", flush=True)
                    failures += 1
                    continue
                samples.append(sample)
                words = f"{cells:>4} cells  {peer.label:<22} {1e3 * sample.step_s:8.3f} ms"
                print(f"  round {number + 1}/{rounds} {words}", flush=True)
    return samples, failures


def unequal(samples: Sequence[Sample]) -> list[int]:
    """The sizes at which not all runs ended with the same bits in every population."""
    sizes = sorted({sample.cells for sample in samples})
    return [cells for cells in sizes if len({s.fingerprint for s in samples if s.cells == cells}) > 1]


if __name__ == "__main__":
    raise SystemExit(main())
