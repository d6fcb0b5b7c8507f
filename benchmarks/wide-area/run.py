"""How fast bulk and small messages are over links between sites: a path against iperf3, bare TCP, scp and rsync.

python benchmarks/wide-area/run.py [--quick] [--rounds N] [--experiments NAME,...]

The links are emulated on this machine (tests/wan/README.md): 1 Gbit/s, round-trip times of 1, 15.2, 37.6 and 273 ms.
It needs root, for namespaces. Every round measures everybody once, link by link, beginning with another one each
time. A message is done when the other end has answered it; iperf3 gives what gets through when it is warm. Results:
tables, a CSV file with every message, a plot.
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
from experiments import EXPERIMENTS, FULL, QUICK, Extent
from harness import figures, places, processes
from sample import Sample
from wan import why_not
from wan.programs import found


def main() -> int:
    arguments = parse()
    reason = why_not() or (None if found("iperf3") else "iperf3 is missing: apt-get install iperf3")
    if reason:
        print(f"no wide area can be made here: {reason}")
        return 0
    try:
        ends.program()
    except processes.RunFailed as failure:
        print(failure)
        return 1
    extent = QUICK if arguments.quick else FULL
    if arguments.rtt:
        extent = replace(extent, rtts_ms=[float(rtt) for rtt in arguments.rtt.split(",")])
    if arguments.streams:
        extent = replace(extent, streams=[int(count) for count in arguments.streams.split(",")])
    if arguments.sizes:
        extent = replace(extent, sizes_b=[int(size_b) << 20 for size_b in arguments.sizes.split(",")])
    names = arguments.experiments.split(",") if arguments.experiments else list(EXPERIMENTS)
    if unknown := set(names) - set(EXPERIMENTS):
        raise SystemExit(f"there is no experiment {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}")
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    print(f"{figures.machine()}; {rounds} rounds of {', '.join(names)}", flush=True)
    samples = measure(names, extent, rounds)
    if not samples:
        return 1
    stem = arguments.output / f"wide-area-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report.report(samples, figures.machine())
    stem.with_suffix(".md").write_text(text)
    drawn = plot.draw(samples, figures.machine(), stem.with_suffix(".png"))
    print(f"\n{text}\n{stem}.csv, .md{', .png' if drawn else ''}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, fewer links, sizes and streams: some minutes")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--experiments", help=f"of {', '.join(EXPERIMENTS)}; default: all")
    parser.add_argument("--rtt", help="round-trip times of the bulk experiment [ms], with commas")
    parser.add_argument("--streams", help="numbers of streams of the bulk experiment, with commas")
    parser.add_argument("--sizes", help="sizes of the messages of the bulk experiment [MiB], with commas")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def measure(names: Sequence[str], extent: Extent, rounds: int) -> list[Sample]:
    """All rounds."""
    samples: list[Sample] = []
    for number in range(rounds):
        begin = time.monotonic()
        for name in names:
            samples += EXPERIMENTS[name](number, extent, lambda text: print(f"  {text}", flush=True))
        print(f"  round {number + 1}/{rounds}  {time.monotonic() - begin:5.1f} s", flush=True)
    return samples


if __name__ == "__main__":
    raise SystemExit(main())
