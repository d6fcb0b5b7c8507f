"""What relays cost: chains of one, two and three of them against bare forwarders and direct connections.

python benchmarks/relays/run.py [--quick] [--rounds N] [--experiments NAME,...] [--links KIND,...]

*latency*: one-way times of messages between two instances through 1, 2, 3 relays on loopback, beside the same instances
through as many bare forwarders (two threads for each connection that read and write) and directly. *throughput*: a
stream through two of each. *added*: how much longer than a ping a small message takes over a link of 15.2 ms between
two sites. *near-link*, *long-haul*: the share of a link of 1 Gbit/s that a stream through two relays gets, near and
round the world with losses. Links are emulated (tests/wan/README.md) and need root. Results: tables, a CSV file with
every figure, a plot.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import ends
import plot
import report
from experiments import BETWEEN_SITES, EXPERIMENTS, FULL, QUICK, Extent
from harness import builds, figures, places
from sample import Sample
from wan import why_not
from wan.programs import found

LINKS = ("default", "clear", "encrypted")


def main() -> int:
    arguments = parse()
    extent = QUICK if arguments.quick else FULL
    if arguments.sizes:
        extent = replace(extent, sizes_b=[int(size_b) for size_b in arguments.sizes.split(",")])
    names = _known(arguments.experiments, "experiment", list(EXPERIMENTS))
    links = _known(arguments.links, "kind of link", LINKS)
    reason = why_not() or (None if found("ping") else "ping is missing: apt-get install iputils-ping")
    if reason and set(names) & set(BETWEEN_SITES):
        print(f"without {', '.join(BETWEEN_SITES)}: {reason}")
        names = [name for name in names if name not in BETWEEN_SITES]
    if not names:
        return 0
    builds.compile_submodel(ends.PROGRAM)
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    print(f"{figures.machine()}; {rounds} rounds of {', '.join(names)}", flush=True)
    samples = measure(names, extent, links, rounds)
    if not samples:
        return 1
    stem = arguments.output / f"relays-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report.report(samples, figures.machine())
    stem.with_suffix(".md").write_text(text)
    drawn = plot.draw(samples, figures.machine(), stem.with_suffix(".png"))
    print(f"\n{text}\n{stem}.csv, .md{', .png' if drawn else ''}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, fewer sizes, shorter: two minutes")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--experiments", help=f"of {', '.join(EXPERIMENTS)}; default: all")
    parser.add_argument("--sizes", help="bytes of the messages of the latency experiment, with commas")
    parser.add_argument(
        "--links",
        default="default",
        help=f"of {', '.join(LINKS)}: whether links between relays are encrypted (%(default)s: as mto does it)",
    )
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def measure(names: Sequence[str], extent: Extent, links: Sequence[str], rounds: int) -> list[Sample]:
    """All rounds."""
    samples: list[Sample] = []
    for number in range(rounds):
        begin = time.monotonic()
        for name in names:
            samples += EXPERIMENTS[name](number, extent, links, lambda text: print(f"  {text}", flush=True))
        print(f"  round {number + 1}/{rounds}  {time.monotonic() - begin:5.1f} s", flush=True)
    return samples


def _known(names: str | None, what: str, all_of_them: Sequence[str]) -> list[str]:
    chosen = names.split(",") if names else list(all_of_them)
    if unknown := set(chosen) - set(all_of_them):
        raise SystemExit(f"there is no {what} {', '.join(sorted(unknown))}; there are {', '.join(all_of_them)}")
    return chosen


if __name__ == "__main__":
    raise SystemExit(main())
