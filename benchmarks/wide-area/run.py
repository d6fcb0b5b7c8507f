"""How fast bulk and small messages are over links between sites: a path against iperf3, bare TCP, scp and rsync.

python benchmarks/wide-area/run.py [--quick] [--rounds N] [--experiments NAME,...] [--mpwide FOLDER]

The links are emulated on this machine (tests/testbed/wan/README.md): 1 Gbit/s, round-trip times of 1, 15.2, 37.6 and
273 ms. It needs root, for namespaces. Every round measures everybody once, link by link, beginning with another one
each time. A message is done when the other end has answered it; iperf3 gives what gets through when it is warm.
Results: tables, a CSV file with every message, a plot.

MPWide is compared with where you have built it: --mpwide, or the variable XMML_MPWIDE, names the folder in which its
makefile has left MPWide.h and libMPW.a, or the one into which `make install` has put them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import ends
import mpwide
import plot
import report
from experiments import EXPERIMENTS, FULL, QUICK
from harness import campaign, processes
from sample import Sample
from wan import why_not
from wan.programs import found


def main() -> int:
    arguments = parse()
    reason = why_not() or (None if found("iperf3") else "iperf3 is missing: apt-get install iperf3")
    if reason:
        print(f"no wide area can be made here: {reason}")
        return 0
    names = campaign.known(arguments.experiments, "experiment", EXPERIMENTS)
    try:
        ends.program()
        extent = replace(QUICK if arguments.quick else FULL, mpwide=mpwide.program(arguments.mpwide))
    except processes.RunFailed as failure:
        print(failure)
        return 1
    if not extent.mpwide:
        print("without MPWide: say with --mpwide or XMML_MPWIDE where you have built it")
    if arguments.rtt:
        extent = replace(extent, rtts_ms=[float(rtt) for rtt in arguments.rtt.split(",")])
    if arguments.streams:
        extent = replace(extent, streams=[int(count) for count in arguments.streams.split(",")])
    if arguments.sizes:
        extent = replace(extent, sizes_b=[int(size_b) << 20 for size_b in arguments.sizes.split(",")])

    def experiment(name: str, number: int) -> Iterator[Sample]:
        return EXPERIMENTS[name](number, extent, campaign.say)

    return campaign.carry_out("wide-area", arguments, names, experiment, report.report, plot.draw)


def parse() -> argparse.Namespace:
    parser = campaign.parser(__doc__, EXPERIMENTS, "one round, fewer links, sizes and streams: some minutes")
    parser.add_argument("--rtt", help="round-trip times of the bulk experiment [ms], with commas")
    parser.add_argument("--streams", help="numbers of streams of the bulk experiment, with commas")
    parser.add_argument("--sizes", help="sizes of the messages of the bulk experiment [MiB], with commas")
    parser.add_argument("--mpwide", type=Path, default=os.environ.get("XMML_MPWIDE"), help="where MPWide was built")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
