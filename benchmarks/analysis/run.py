"""How long it takes to check a model and to unroll it into its task graph, and in how much memory.

python benchmarks/analysis/run.py [--quick] [--rounds N]

`xmml check` is timed from its start to its end, Python's own start included: of a small model, and of networks of
growing numbers of instances, each coupled to 50 others. The task graph is that of in-stent restenosis, for growing
numbers of macro steps; there only the unrolling is timed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import documents
import report
from harness import figures, places, processes
from sample import Sample

PROGRAMS = Path(__file__).parent / "programs"
COUPLINGS_EACH = 50
INSTANCES, QUICK_INSTANCES = (125, 250, 500, 1000, 2000), (60, 120)
STEPS, QUICK_STEPS = (1250, 2500, 5000, 10_000, 20_000), (500, 1000)
TIMEOUT_S = 120


def main() -> int:
    arguments = parse()
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    print(f"{figures.machine()}; {rounds} rounds", flush=True)
    samples = []
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        for number in range(rounds):
            for sample in measure(Path(name), number, arguments.quick):
                samples.append(sample)
                print(f"  round {number + 1}/{rounds} {sample}", flush=True)
    stem = arguments.output / f"analysis-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report.report(samples, figures.machine())
    stem.with_suffix(".md").write_text(text)
    report.draw(samples, figures.machine(), stem.with_suffix(".png"))
    print(f"\n{text}\n{stem}.csv, .md, .png")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of small models: some seconds")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def measure(folder: Path, number: int, quick: bool) -> Iterator[Sample]:
    """One round: every model once."""
    model, result = folder / "model.xmml", folder / "result.json"
    model.write_text(documents.restenosis(10))
    told = start(folder, [processes.MEASURED, result, *check_command(model)], result)
    yield Sample(number, "check", 7, 10, 0, 0, *figures_of(told))
    for instances in QUICK_INSTANCES if quick else INSTANCES:
        couplings = instances * COUPLINGS_EACH
        model.write_text(documents.network(instances, couplings))
        told = start(folder, [processes.MEASURED, result, *check_command(model)], result)
        yield Sample(number, "check", instances, couplings, 0, 0, *figures_of(told))
    for steps in QUICK_STEPS if quick else STEPS:
        model.write_text(documents.restenosis(steps))
        told = start(folder, [PROGRAMS / "task_graph.py", model, result], result)
        size = int(told["nodes"]), int(told["edges"])
        yield Sample(number, "task graph", 7, 10, *size, *figures_of(told))


def figures_of(told: Mapping[str, float]) -> tuple[float, float, int]:
    return told["seconds"], told["processor_s"], int(told["peak_kib"])


def check_command(model: Path) -> list[str | Path]:
    return [places.tool("xmml") or "xmml", "check", model]


def start(folder: Path, arguments: list[str | Path], result: Path) -> dict[str, float]:
    """Runs a program of ours and returns what it wrote to `result`.

    Raises:
        RunFailed: it had another status than 0.
    """
    log = folder / "output.txt"
    environment = places.environment()
    processes.run([sys.executable, *arguments], log=log, environment=environment, timeout_s=TIMEOUT_S, cwd=folder)
    told: dict[str, float] = json.loads(result.read_text())
    return told


if __name__ == "__main__":
    raise SystemExit(main())
