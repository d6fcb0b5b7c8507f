"""Measures when the last result of the analyses is there, in transit and with files, and what either costs the solver.

python measure.py [--rounds 3] [--cells 256] [--ranks 1]

In each round, one after the other: the solver without any output; the solver that writes files, then both analyses at
once; the run of model.xmml. Files are read soon after they were written, so they come from memory: the best case of
this way. Leave the analyses a core: fewer ranks than cores.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import xmml

HERE = Path(__file__).parent
WAYS = ("no output", "files", "in transit")
#: What `build/to_files` and the instance `flow` say at their end: by the clock, and the processor time of all ranks.
SAID = re.compile(r"time steps in ([\d.]+) s, processor time ([\d.]+) s")


class Bench:
    """A copy of this folder, with the model for so many cells and ranks."""

    def __init__(self, folder: Path, cells: int, ranks: int) -> None:
        self.folder, self.cells, self.ranks = folder, cells, ranks
        for file in HERE.iterdir():
            if file.is_file():
                shutil.copy(file, folder)
        model = folder / "model.xmml"
        model.write_text(re.sub(r'run:mpi="\d+"', f'run:mpi="{ranks}"', model.read_text()))
        subprocess.run(["make", "--silent"], cwd=folder, check=True)
        flow = xmml.load(model).instances["flow"]
        self.setting = [flow.params["case"], str(cells), repr(flow.delta_s), repr(flow.delta_s * flow.steps)]
        self.every = xmml.load(model).instances["film"].params["every"]

    def run(self, way: str) -> tuple[float, float, float]:
        """Return how long the solver took [s], its processor time [s], and how long everything took [s]."""
        start = time.perf_counter()
        if way == "in transit":
            run = self.folder / "run"
            command = ["xmml-run", "model.xmml", "-p", f"flow.cells={self.cells}", "-o", str(run), "--quiet"]
            subprocess.run(command, cwd=self.folder, check=True)
            said = (run / "instances/flow/stdout").read_text()
            results = run / "instances/film/work"
        else:
            results = self.folder / "results"
            (results / "states").mkdir(parents=True)
            program = ["mpirun", "-n", str(self.ranks), str(self.folder / "build/to_files"), *self.setting]
            output = ["states"] if way == "files" else []
            said = subprocess.run(program + output, cwd=results, check=True, stdout=subprocess.PIPE, text=True).stdout
            if way == "files":
                programs = (["totals.py", "states"], ["film.py", "states", self.every])
                started = [
                    subprocess.Popen(
                        [sys.executable, str(self.folder / name), *arguments], cwd=results, stdout=subprocess.DEVNULL
                    )
                    for name, *arguments in programs
                ]
                if sum(analysis.wait() for analysis in started):
                    raise RuntimeError("an analysis failed")
        total = time.perf_counter() - start
        frames = len(list(results.glob("frame-*.png")))
        found = SAID.search(said)
        assert found, said
        solver, processor = map(float, found.groups())
        print(f"{way:10}  solver {solver:7.2f} s, processor {processor:7.2f} s, all {total:7.2f} s, {frames} frames")
        shutil.rmtree(self.folder / ("run" if way == "in transit" else "results"))
        return solver, processor, total


def spread(values: list[float], digits: int = 2) -> str:
    """The median, and the least and the largest value."""
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}..{max(values):.{digits}f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=256)
    parser.add_argument("--ranks", type=int, default=1)
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {options.cells} x {options.cells} cells")
    figures: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.cells, options.ranks)
        for number in range(options.rounds):
            for way in WAYS[number % 3 :] + WAYS[: number % 3]:
                figures[way].append(bench.run(way))
    print(f"load {os.getloadavg()[0]:.1f}; medians, least and largest of {options.rounds} rounds")
    for way in WAYS:
        solver, _, total = (list(column) for column in zip(*figures[way], strict=True))
        line = f"{way:10}  solver {spread(solver)} s, all {spread(total)} s"
        if way != "no output":
            for kind, column in (("by the clock", 0), ("in processor time", 1)):
                pairs = zip(figures[way], figures["no output"], strict=True)
                line += f", {kind} {spread([100 * (a[column] / b[column] - 1) for a, b in pairs], 1)} %"
        print(line)


if __name__ == "__main__":
    main()
