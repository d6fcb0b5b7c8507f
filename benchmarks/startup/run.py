"""How long it takes until every instance has received its first message, and what the processes cost in memory.

python benchmarks/startup/run.py [--quick] [--rounds N] [--peers NAME,...] [--instances 2,50,1000]

The model is a ring of instances, each of which sends one empty message and receives one. Time counts from the start of
xmml-run (or of MUSCLE3's manager). Memory is measured in one more run, in which every instance waits after its first
message, and once more with many conduits between two instances; of rings for very many conduits also without any, with
one for each instance, by memory and by tcp, and with all. It is proportional memory: of a page that n processes share
each has 1/n. Once per round a ring with very many conduits is started from its finished plan.
"""

from __future__ import annotations

import argparse
import compileall
import datetime
import fcntl
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import report
from harness import choice, figures, places, processes
from peers import PEERS, Peer
from sample import Sample

CONDUITS = 100
"""How many more conduits each of the two instances has that the memory of a conduit is measured with."""

MANY = (1000, 50)
"""Instances of the ring with very many conduits, and conduits between two of them; with --quick 10 and 5."""


def main() -> int:
    arguments = parse()
    sizes = [int(size) for size in (arguments.instances or ("2,10" if arguments.quick else "2,50,1000")).split(",")]
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    peers = choice.choose(PEERS, arguments.peers)
    print(f"{figures.machine()}; {rounds} rounds of {', '.join(peer.name for peer in peers)}", flush=True)

    compile_packages()
    # Nothing is removed before the end: a file system may be slower to make files for minutes after many were removed.
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as folder:
        samples, failures = measure_all(arguments, peers, sizes, rounds, Path(folder))
    if not samples:
        return 1

    stem = arguments.output / f"startup-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report.report(samples, peers, figures.machine())
    stem.with_suffix(".md").write_text(text)
    report.draw(samples, peers, figures.machine(), stem.with_suffix(".png"))
    print(f"\n{text}\n{stem}.csv, .md, .png")
    return 1 if failures else 0


def measure_all(
    arguments: argparse.Namespace, peers: Sequence[Peer], sizes: Sequence[int], rounds: int, folder: Path
) -> tuple[list[Sample], int]:
    """All rounds, the runs in folders below `folder`; returns what was measured, and how many runs failed."""
    samples: list[Sample] = []
    failures = 0
    for number in range(rounds + 1):
        remember = number == rounds
        for size in sizes:
            for peer in choice.rotated(peers, number):
                widths = (1, 1 + CONDUITS) if remember and size == 2 else (1,)
                for width in widths if size <= peer.most else ():
                    try:
                        samples.append(start(folder, peer, size, width, number, remember))
                    except processes.RunFailed as failure:
                        print(f"  {peer.name}, {size} instances: {failure}", flush=True)
                        failures += 1
                        continue
                    tell(samples[-1], peer, "memory   " if remember else f"round {number + 1}/{rounds}")
        for peer in [] if remember else [peer for peer in peers if peer.is_for_many_conduits]:
            size, width = (10, 5) if arguments.quick else MANY
            try:
                samples.append(start(folder, peer, size, width, number, remember=False, is_planned=True))
            except processes.RunFailed as failure:
                print(f"  {peer.name}, {size * width} conduits: {failure}", flush=True)
                failures += 1
                continue
            tell(samples[-1], peer, f"round {number + 1}/{rounds}")
    for peer in [peer for peer in peers if peer.is_for_many_conduits]:
        size, width = (10, 5) if arguments.quick else MANY
        for conduits, methods in ((0, ""), (1, ""), (1, "tcp"), (width, "")):
            try:
                samples.append(
                    start(folder, peer, size, conduits, rounds, remember=True, is_planned=True, methods=methods)
                )
            except processes.RunFailed as failure:
                print(f"  {peer.name}, {size * conduits} conduits: {failure}", flush=True)
                failures += 1
                continue
            tell(samples[-1], peer, "memory   ")
    return samples, failures


def compile_packages() -> None:
    """Writes the bytecode that an installation has, and a checkout has after its first run."""
    for package in ("xmml", "schema", "planner", "executors", "native/python"):
        compileall.compile_dir(places.ROOT / package, quiet=2)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of 2 and 10 instances: under a minute")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--peers", help=f"of {', '.join(peer.name for peer in PEERS)}; default: all that are here")
    parser.add_argument("--instances", help="sizes of the ring, with commas; default: 2,50,1000 (MUSCLE3 only to 50)")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def tell(sample: Sample, peer: Peer, what: str) -> None:
    """Prints what was measured."""
    ring = f"{sample.instances:>5} x {peer.label:<19} {sample.conduits:>5} conduits"
    print(f"  {what} {ring} {sample.first_messages_s:8.2f} s", flush=True)


def start(
    among: Path,
    peer: Peer,
    instances: int,
    width: int,
    number: int,
    remember: bool,
    is_planned: bool = False,
    methods: str = "",
) -> Sample:
    """One run of the ring, in a new folder of `among`. With `remember` its instances wait until their memory has been
    measured; with `is_planned` time counts from the finished plan. `methods`: the only ones that conduits may take;
    empty: any.

    Raises:
        RunFailed: the run failed, or not every instance reported its first message.
    """
    limit_s = 60 + 0.3 * instances
    memory = {"command_kib": 0, "helpers_kib": 0, "instances_kib": 0}
    folder = Path(tempfile.mkdtemp(dir=among))
    (folder / "received").touch()
    command = peer.command(instances, width, folder)
    if is_planned:
        command = peer.planned(command, folder)
    with (folder / "hold").open("w") as hold:
        if remember:
            fcntl.flock(hold, fcntl.LOCK_EX)

        def measure(process: subprocess.Popen[bytes]) -> None:
            if remember:
                wait_for_lines(folder / "received", instances, process, limit_s)
                memory.update(memory_by_role(process.pid, peer, folder))
                fcntl.flock(hold, fcntl.LOCK_UN)

        begin = time.monotonic()
        environment = places.environment(BENCH_OUT=str(folder), **({"XMML_METHODS": methods} if methods else {}))
        log = folder / "output.txt"
        processes.run(command, log=log, environment=environment, timeout_s=limit_s, cwd=folder, meanwhile=measure)
        total_s = time.monotonic() - begin
    times = [float(line.split()[1]) for line in (folder / "received").read_text().splitlines()]
    if len(times) != instances:
        raise processes.RunFailed(f"{len(times)} of {instances} instances have received their first message")
    conduits = instances * width
    first_s = max(times) - begin
    return Sample(number, peer.name, instances, conduits, first_s, total_s, is_planned, **memory, methods=methods)


def wait_for_lines(file: Path, count: int, process: subprocess.Popen[bytes], limit_s: float) -> None:
    """Returns when `file` has `count` lines, the process has ended, or time is up."""
    deadline = time.monotonic() + limit_s
    while file.read_bytes().count(b"\n") < count and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def memory_by_role(root: int, peer: Peer, folder: Path) -> dict[str, int]:
    """The memory of the command itself, of what helps it, and of all instances together."""
    memory = {"command_kib": 0, "helpers_kib": 0, "instances_kib": 0}
    pids = processes.tree(root)
    instances = peer.instances_among(pids, folder)
    for pid in pids:
        kib = processes.memory_kib(pid)
        if kib is not None:
            role = "command_kib" if pid == root else "instances_kib" if pid in instances else "helpers_kib"
            memory[role] += kib
    return memory


if __name__ == "__main__":
    raise SystemExit(main())
