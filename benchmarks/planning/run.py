"""How long it takes to plan a large model over many sites, and in how much memory.

python benchmarks/planning/run.py [--quick] [--rounds N] [--instances N] [--sites N]

`xmml plan --sites` is timed from its start to its end, Python's own start, the checks and the writing of `plan.json`
included. The models: a macro model with equal copies of one micro model, and pairs of macro and micro models of which
each instance has a submodel of its own.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import documents
from harness import figures, places, processes
from harness.figures import Spread, number

#: Cores of each site: enough for all instances at some of them, too few at any single one.
CORES = 400
TIMEOUT_S = 900
MODELS: dict[str, Callable[[int], str]] = {"copies": documents.copies, "pairs": documents.pairs}
WORDS = {"copies": "copies of one micro model", "pairs": "pairs of different submodels"}


@dataclass(frozen=True)
class Sample:
    """What one measurement gave: a row of the CSV file.

    Attributes:
        model: `copies` or `pairs`.
        seconds, processor_s: from the start of the command to its end, and how long of that a processor worked for it.
        peak_kib: the most resident memory of the process.
        makespan_s, at_least_s: predicted of the plan, and of any plan.
        used: sites that instances are at.
    """

    round: int
    model: str
    instances: int
    sites: int
    seconds: float
    processor_s: float
    peak_kib: int
    makespan_s: float
    at_least_s: float
    used: int


def main() -> int:
    arguments = parse()
    instances = arguments.instances or (200 if arguments.quick else 10_000)
    sites = arguments.sites or (10 if arguments.quick else 100)
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    print(f"{figures.machine()}; {rounds} rounds", flush=True)
    samples = []
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        for turn in range(rounds):
            for model in MODELS:
                samples.append(measure(Path(name), turn, model, instances, sites))
                print(f"  {samples[-1]}", flush=True)
    stem = arguments.output / f"planning-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report(samples)
    stem.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of small models: some seconds")
    parser.add_argument("--rounds", type=int, help="default: 3, with --quick 1")
    parser.add_argument("--instances", type=int, help="of each model; default: 10,000, with --quick 200")
    parser.add_argument("--sites", type=int, help="default: 100, with --quick 10")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def measure(folder: Path, turn: int, model: str, instances: int, sites: int) -> Sample:
    """Plan a model once."""
    document, catalogue, plan, result = (
        folder / name for name in ("model.xmml", "sites.toml", "plan.json", "result.json")
    )
    document.write_text(MODELS[model](instances))
    catalogue.write_text(documents.sites(sites, CORES))
    command = [places.tool("xmml") or "xmml", "plan", document, "--sites", catalogue, "-o", plan]
    processes.run(
        [sys.executable, processes.MEASURED, result, *command],
        log=folder / "output.txt",
        environment=places.environment(),
        timeout_s=TIMEOUT_S,
        cwd=folder,
    )
    told, made = json.loads(result.read_text()), json.loads(plan.read_text())
    expected, used = made["expected"], {each["site"] for each in made["instances"]}
    return Sample(
        turn,
        model,
        instances,
        sites,
        told["seconds"],
        told["processor_s"],
        told["peak_kib"],
        expected["makespan_s"],
        expected["at_least_s"],
        len(used),
    )


def report(samples: Sequence[Sample]) -> str:
    """Return the table, as Markdown."""
    rows = []
    for model in MODELS:
        runs = [sample for sample in samples if sample.model == model]
        first = runs[0]
        rows.append(
            [
                f"{first.instances:,} instances, {WORDS[model]}",
                str(Spread.of(run.seconds for run in runs)),
                str(Spread.of(run.processor_s for run in runs)),
                number(Spread.of(run.peak_kib / 1024 for run in runs).median),
                number(first.makespan_s),
                number(first.at_least_s),
                str(first.used),
            ]
        )
    head = [
        f"{samples[0].sites} sites",
        "time [s]",
        "of a processor [s]",
        "peak memory [MiB]",
        "predicted makespan [s]",
        "no plan below [s]",
        "sites used",
    ]
    rounds = len({sample.round for sample in samples})
    return (
        f"{figures.machine()}. Median of {rounds} rounds, with the least and the most in brackets.\n\n"
        f"{figures.table(head, rows)}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
