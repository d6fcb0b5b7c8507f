"""Measures the forecast by pools and by files: rounds of both, one after the other.

python measure.py [--rounds N] [-p member.fields=100] ...       options of xmml-run are passed on

Prints for each way the seconds from the first product to the last, fields per second in that time, and the seconds of
the whole run: the median, and the smallest and the largest. Only the run by pools draws pictures besides.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import xmml

HERE = Path(__file__).parent


def by_pools(run: Path, options: list[str]) -> list[float]:
    """Return the moments [s] at which the products were made."""
    subprocess.run(["xmml-run", HERE / "model.xmml", "-o", run, "--quiet", *options], check=True)
    with xmml.open_archive(str(run / "instances/archive/work/forecast.archive")) as archive:
        return [each["made"].timestamp() for each in archive.select("has(request)")]


def by_files(run: Path, folder: Path) -> list[float]:
    """The same by files, with the parameters of that run."""
    subprocess.run([sys.executable, HERE / "by_files.py", run / "model.xmml", folder], check=True)
    return [file.stat().st_mtime for file in (folder / "products").glob("*.npy")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    arguments, options = parser.parse_known_args()
    samples: dict[str, list[tuple[float, float, float]]] = {"pools": [], "files": []}
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            for way, moments in samples.items():
                began = time.monotonic()
                made = by_pools(run, options) if way == "pools" else by_files(run, Path(folder) / "files")
                whole = time.monotonic() - began
                with xmml.Instance.alone(run / "model.xmml", "member") as me:
                    fields = me.count * me.param("fields", int) * (round(me.total / me.delta) + 1)
                span = max(made) - min(made)
                moments.append((span, fields / span, whole))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{fields} fields, {len(made)} products, {arguments.rounds} rounds")
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {load}")
    print(f"{'':8}{'first to last product [s]':>28}{'fields per second':>28}{'whole run [s]':>24}")
    for way, rounds in samples.items():
        columns = [
            f"{statistics.median(column):.4g} ({min(column):.4g} to {max(column):.4g})"
            for column in zip(*rounds, strict=True)
        ]
        print(f"{way:8}{columns[0]:>28}{columns[1]:>28}{columns[2]:>24}")


if __name__ == "__main__":
    main()
