"""What relays cost: chains of one, two and three of them against bare forwarders and direct connections.

python benchmarks/relays/run.py [--quick] [--rounds N] [--experiments NAME,...] [--links KIND,...] [--seconds S]

*latency*: one-way times of messages between two instances through 1, 2, 3 relays on loopback, beside the same instances
through as many bare forwarders (two threads for each connection that read and write) and directly. *throughput*: a
stream through one and two of each. *added*: how much longer than a ping a small message takes over a link of 15.2 ms
between two sites, through one relay (that of the other site), two, and three (two at one site). *control*: small
messages of class control through two relays, alone and beside a stream of class bulk that fills the link. *near-link*,
*long-haul*: the share of a link of 1 Gbit/s that a stream through two relays gets, near and round the world with
losses, there also where relays are told of the link. Links are emulated (tests/testbed/wan/README.md) and need root.
Results: tables, a CSV file with every figure, a plot.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import ends
import plot
import report
from experiments import BETWEEN_SITES, EXPERIMENTS, FULL, QUICK
from harness import builds, campaign
from sample import Sample
from wan import why_not
from wan.programs import found

LINKS = ("default", "clear", "encrypted")


def main() -> int:
    arguments = parse()
    extent = QUICK if arguments.quick else FULL
    if arguments.sizes:
        extent = replace(extent, sizes_b=[int(size_b) for size_b in arguments.sizes.split(",")])
    if arguments.seconds:
        extent = replace(extent, link_s=arguments.seconds, haul_s=arguments.seconds, pairs=1)
    names = campaign.known(arguments.experiments, "experiment", EXPERIMENTS)
    links = campaign.known(arguments.links, "kind of link", LINKS)
    reason = why_not() or (None if found("ping") else "ping is missing: apt-get install iputils-ping")
    if reason and set(names) & set(BETWEEN_SITES):
        print(f"without {', '.join(BETWEEN_SITES)}: {reason}")
        names = [name for name in names if name not in BETWEEN_SITES]
    if not names:
        return 0
    builds.compile_submodel(ends.PROGRAM)

    def experiment(name: str, number: int) -> Iterator[Sample]:
        return EXPERIMENTS[name](number, extent, links, campaign.say)

    return campaign.carry_out("relays", arguments, names, experiment, report.report, plot.draw)


def parse() -> argparse.Namespace:
    parser = campaign.parser(__doc__, EXPERIMENTS, "one round, fewer sizes, shorter: two minutes")
    parser.add_argument("--sizes", help="bytes of the messages of the latency experiment, with commas")
    parser.add_argument("--seconds", type=float, help="of each stream between sites; there is one pair of pings then")
    parser.add_argument(
        "--links",
        default="default",
        help=f"of {', '.join(LINKS)}: whether links between relays are encrypted (%(default)s: as mto does it)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
