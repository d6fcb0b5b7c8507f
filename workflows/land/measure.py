"""Measures the same year coupled by a pool (model.xmml, without maps and archive) and by messages (direct.xmml).

python measure.py [--rounds 5] [--days 730]

In each round both, one after the other. Leave each rank a core if there are enough: ranks that share cores wait for
each other.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
WAYS = {"pool": "model.xmml", "messages": "direct.xmml"}


def prepare(folder: Path, days: int) -> None:
    """Copy the workflow and build it; leave out who only looks on, and set how long the year is."""
    for file in HERE.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    for name in WAYS.values():
        text = (folder / name).read_text(encoding="utf-8").replace('total="365 day"', f'total="{days} day"')
        text = re.sub(r' *<(instance id|coupling from="[^"]*" to)="(maps|archive).*\n', "", text)
        (folder / name).write_text(text, encoding="utf-8")
    subprocess.run(["make", "--silent"], cwd=folder, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--days", type=int, default=730)
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {options.days} days")
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, options.days)
        for number in range(options.rounds):
            for way in list(WAYS)[:: 1 if number % 2 else -1]:
                start = time.perf_counter()
                command = ["xmml-run", WAYS[way], "-o", f"run-{way}-{number}", "--quiet"]
                subprocess.run(command, cwd=folder, check=True)
                took[way].append(time.perf_counter() - start)
                print(f"{way:8}  {took[way][-1]:6.2f} s", flush=True)
    for way, times in took.items():
        print(f"{way:8}  {statistics.median(times):.2f} s [{min(times):.2f}..{max(times):.2f}]")
    ratios = [pool / messages for pool, messages in zip(took["pool"], took["messages"], strict=True)]
    print(f"pool to messages: {statistics.median(ratios):.3f} [{min(ratios):.3f}..{max(ratios):.3f}]")


if __name__ == "__main__":
    main()
