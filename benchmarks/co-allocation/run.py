"""What it costs to start jobs on several clusters at the same moment, by strategy: core hours wasted and time to start.

python benchmarks/co-allocation/run.py [--quick] [--rounds N] [--first-seed N] [--groups N] [--loads L,...]
    [--docs FILE]

Three clusters of 128 cores are simulated with the queues of other users (see workload.py). Groups of two or three jobs
(4 to 32 cores each, 1 to 6 hours) come every 8 hours for each strategy at the same times into the same queues, and are
co-allocated by the very state machines that xmml-run uses. Everything is determined by the seeds: that of the first
round is 0 unless it is said, and each round has the next. With --docs the table between the marks of a page is
replaced.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import figures, places
from simulation import CORES, PATIENT_S, SITES, TALK_S, MakeStrategy, simulate
from xmml_executors.coallocation import HeterogeneousJob, Rendezvous, RendezvousPolicy, Reservation

EVERY_S = 8 * 3600.0
ENDLESS = RendezvousPolicy(budget=1e9, longest_wait_s=2 * PATIENT_S, use_estimates=False)
BEGIN, END = "<!-- co-allocation table -->", "<!-- end of the table -->"

STRATEGIES: dict[str, tuple[MakeStrategy, Sequence[str]]] = {
    "rendezvous (default)": (lambda members, seed: Rendezvous(members, seed=seed), SITES),
    "rendezvous, no estimates": (
        lambda members, seed: Rendezvous(members, RendezvousPolicy(use_estimates=False), seed),
        SITES,
    ),
    "reservation": (lambda members, _: Reservation(members, ahead_s=60.0), SITES),
    "heterogeneous job, one cluster": (lambda members, _: HeterogeneousJob(members), SITES[:1]),
    "barrier without end": (lambda members, seed: Rendezvous(members, ENDLESS, seed), SITES),
}


@dataclass(frozen=True)
class Sample:
    """What became of one group. `delay_s` of one that did not begin within a week is that week."""

    strategy: str
    load: float
    seed: int
    group: str
    run_core_s: float
    wasted_core_s: float
    delay_s: float
    began: bool
    submissions: int


def measure(strategy: str, load: float, seed: int, count: int) -> list[Sample]:
    """Return a sample for each group of one round."""
    make, sites = STRATEGIES[strategy]
    return [
        Sample(
            strategy,
            load,
            seed,
            group.name,
            group.run_core_s,
            group.wasted_core_s,
            PATIENT_S if group.began is None else group.began - group.at,
            group.began is not None,
            group.submissions,
        )
        for group in simulate(make, load, seed, count, EVERY_S, sites)
    ]


def row(samples: Sequence[Sample]) -> list[str]:
    """What is told of one strategy at one load."""
    wasted = 100.0 * sum(each.wasted_core_s for each in samples) / sum(each.run_core_s for each in samples)
    hours = sorted(each.delay_s / 3600.0 for each in samples)
    never = sum(not each.began for each in samples)
    return [
        f"{wasted:.2f}",
        f"{statistics.median(hours):.2f}",
        f"{statistics.fmean(hours):.1f}",
        f"{hours[int(0.9 * (len(hours) - 1))]:.1f}",
        f"{100.0 * never / len(samples):.0f}",
        f"{statistics.fmean(each.submissions for each in samples):.1f}",
    ]


def report(samples: Sequence[Sample], command: str) -> str:
    """The table and what it rests on, as Markdown."""
    loads = sorted({each.load for each in samples})
    seeds = sorted({each.seed for each in samples})
    groups = len({(each.seed, each.group) for each in samples})
    rows = [
        [f"{name}, load {load:g}", *row(found)]
        for load in loads
        for name in STRATEGIES
        if (found := [each for each in samples if (each.strategy, each.load) == (name, load)])
    ]
    head = ["", "wasted [% of the run]", "delay, median [h]", "mean [h]", "9 of 10 within [h]"]
    head += ["not within a week [%]", "submissions"]
    return (
        f"`{command}`: {len(SITES)} clusters of {CORES} cores, {groups} groups for each strategy and load, seeds "
        f"{seeds[0]} to {seeds[-1]}, {TALK_S:g} s for every word between a job and us. Deterministic.\n\n"
        f"{figures.table(head, rows)}\n"
    )


def publish(page: Path, text: str) -> None:
    """Replace the table of a page.

    Raises:
        ValueError: the page has no marks.
    """
    before, found, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not found or not found_end:
        raise ValueError(f"{page} has no {BEGIN} ... {END}")
    page.write_text(f"{before}{BEGIN}\n{text}{END}{after}", encoding="utf-8")


def main() -> int:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round of few groups, no highest load")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--first-seed", type=int, default=0, help="that of the first round (%(default)s)")
    parser.add_argument("--groups", type=int, default=None, help="in each round")
    parser.add_argument("--loads", default=None)
    parser.add_argument("--docs", type=Path, default=None)
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 4)
    count = options.groups or (3 if options.quick else 12)
    loads = [float(load) for load in (options.loads or ("0.5,0.8" if options.quick else "0.5,0.8,0.95")).split(",")]
    samples: list[Sample] = []
    for load in loads:
        for name in STRATEGIES:
            started = time.monotonic()
            for seed in range(options.first_seed, options.first_seed + rounds):
                samples += measure(name, load, seed, count)
            found = [each for each in samples if (each.strategy, each.load) == (name, load)]
            print(f"  load {load:g}, {name}: {row(found)} in {time.monotonic() - started:.1f} s", flush=True)
    stem = options.output / f"co-allocation-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    command = f"python benchmarks/co-allocation/run.py --rounds {rounds} --groups {count}"
    command += f" --first-seed {options.first_seed}" if options.first_seed else ""
    text = report(samples, command)
    stem.with_suffix(".md").write_text(text, encoding="utf-8")
    if options.docs is not None:
        publish(options.docs, text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
