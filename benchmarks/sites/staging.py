"""How fast a large file comes to a site, against the programs that everybody has.

python benchmarks/sites/staging.py [--quick] [--rounds N] [--size MIB] [--rtt MS]

A login node, emulated on this machine with sshd and a link of 1 Gbit/s (tests/testbed/README.md). It needs root, and
the packages that .ci/install-test-packages names. In each round everybody brings the same file of random bytes there,
one after the other, and who begins alternates: xMML over each of its two transports, as for a run that has the file
staged (which also hashes it here and there, and copies it from the store of staged files to the folder of the run),
`scp`, and `rsync` over ssh. The time is that of a program from its start to its end, logging in included; xMML's own
program is at the site already. What has arrived is compared with what was sent.

Results: a table and a CSV file with every figure.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from harness import figures, places, staged_file
from harness.figures import Spread
from testbed import Bed, why_not
from xmml_planner.sites import Site
from xmml_sites.ssh import open_transport

TO = "alpha"
REMOTE = "arrived"
WORK = "work"
TRANSPORTS = {"xMML by openssh": "openssh", "xMML by asyncssh": "asyncssh"}
MIB = 2**20


@dataclass(frozen=True)
class Sample:
    """One file that was brought to the site.

    Attributes:
        processor_s: of this side, children included.
    """

    round: int
    peer: str
    size_b: int
    seconds: float
    processor_s: float


def main() -> int:
    arguments = parse()
    if arguments.stage is not None:
        asyncio.run(stage_file(arguments.stage, arguments.file))
        return 0
    reason = why_not()
    if reason:
        print(f"no site can be made here: {reason}")
        return 0
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    size_b = (arguments.size or (128 if arguments.quick else 1024)) * MIB
    samples: list[Sample] = []
    with Bed(rtt_s=arguments.rtt / 1000) as bed, tempfile.TemporaryDirectory(prefix="xmml-staging-") as folder:
        file = Path(folder) / "large"
        with open(file, "wb") as stream:
            for _ in range(size_b // MIB):
                stream.write(os.urandom(MIB))
        this = [sys.executable, __file__, "--file", str(file), "--stage"]
        peers = {
            **{label: [*this, transport] for label, transport in TRANSPORTS.items()},
            "scp": ["scp", "-q", str(file), f"{TO}:{REMOTE}"],
            "rsync": ["rsync", "--whole-file", str(file), f"{TO}:{REMOTE}"],
        }
        bed.laptop.run(peers["xMML by openssh"], timeout_s=600, cwd=file.parent)  # it brings the program there
        for number in range(rounds):
            order = list(peers)
            for peer in order[number % len(order) :] + order[: number % len(order)]:
                samples.append(measure(bed, number, peer, peers[peer], file))
                print(f"  {samples[-1]}", flush=True)
    stem = arguments.output / f"staging-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report(samples, arguments.rtt)
    stem.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, 128 MiB")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--size", type=int, help="of the file [MiB]; default: 1024, with --quick 128")
    parser.add_argument("--rtt", type=float, default=20.0, help="round-trip time to the site [ms] (%(default)s)")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    # How this program starts itself at the user's machine of the test bed.
    parser.add_argument("--stage", choices=sorted(TRANSPORTS.values()), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


async def stage_file(transport: str, file: Path) -> None:
    """Bring the file to the site, as a launcher does."""
    way = open_transport(Site(TO, ssh=TO, transport=transport))
    try:
        await staged_file.stage_file(way, f"{await way.home()}/{WORK}", file)
    finally:
        await way.close()


def measure(bed: Bed, number: int, peer: str, command: Sequence[str], file: Path) -> Sample:
    """Have one peer bring the file there."""
    site = bed.site(TO)
    work, remote = site.home() / WORK, site.home() / REMOTE
    remote.unlink(missing_ok=True)
    staged_file.forget(work, file.stat().st_size)
    before, began = processor_s(), time.monotonic()
    bed.laptop.run(command, timeout_s=600, cwd=file.parent)
    seconds = time.monotonic() - began
    spent = processor_s() - before
    arrived = staged_file.arrived(Path(WORK), file.name) if peer in TRANSPORTS else REMOTE
    there = site.run(f"sha256sum < {arrived}", site.users[0]).stdout.split()[0]
    here = bed.laptop.run(["sha256sum", file], cwd=file.parent).stdout.split()[0]
    if there != here:
        raise SystemExit(f"{peer}: what arrived is not what was sent")
    return Sample(number, peer, file.stat().st_size, seconds, spent)


def processor_s() -> float:
    """Processor time of the programs that have been run here so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def report(samples: Sequence[Sample], rtt_ms: float) -> str:
    """The table."""
    rows = []
    for peer in dict.fromkeys(sample.peer for sample in samples):
        mine = [sample for sample in samples if sample.peer == peer]
        rows.append(
            [
                peer,
                str(Spread.of(sample.size_b / 1e6 / sample.seconds for sample in mine)),
                str(Spread.of(sample.seconds for sample in mine)),
                str(Spread.of(sample.processor_s for sample in mine)),
            ]
        )
    head = ["", "[MB/s]", "takes [s]", "processor, this side [s]"]
    rounds = 1 + max(sample.round for sample in samples)
    size = figures.size(samples[0].size_b)
    return (
        f"{figures.machine()}. Median of {rounds} rounds, least and most in brackets. The site is emulated "
        f"on the same machine, which also encrypts, decrypts and delays; {rtt_ms:g} ms there and back, 1 Gbit/s.\n\n"
        f"### A file of {size} to a site\n\n{figures.table(head, rows)}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
