"""What the study in the Snakefile makes of its runs.

python study.py highest LEVELS.npy HEIGHT      the highest level at the end of the canal, as a line of CSV
python study.py plot HIGHEST.csv... PICTURE    all of them in one picture
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot

#: The sections record their levels so often [min].
RECORDED_EVERY_MIN = 20 / 60
#: The first wave has come and gone by then; later ones have been elsewhere [min].
FIRST_WAVE_MIN = 15


def highest(levels: Path, height: float) -> str:
    """Return wave height [m], highest level of the first wave at the last cell [m], and when that was [min]."""
    at_the_end = np.load(levels)[: round(FIRST_WAVE_MIN / RECORDED_EVERY_MIN), -1]
    when = int(at_the_end.argmax())
    return f"{height},{at_the_end[when]:.6f},{when * RECORDED_EVERY_MIN:.3f}"


def plot(tables: Sequence[Path], picture: Path) -> None:
    """Draw the rise at the end of the canal and its time over the height of the wave."""
    rows = np.array(sorted(np.loadtxt(table, delimiter=",").tolist() for table in tables))
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.plot(rows[:, 0], rows[:, 1], "o-")
    left.set_xlabel("height of the wave at the head [m]")
    left.set_ylabel("highest level at the end [m]")
    right.plot(rows[:, 0], rows[:, 2], "o-", color="tab:orange")
    right.set_xlabel("height of the wave at the head [m]")
    right.set_ylabel("time of the highest level [min]")
    for panel in (left, right):
        panel.grid(alpha=0.3)
        panel.set_xlim(left=0)
    figure.suptitle("The first wave at the end of the main canal")
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["highest", levels, height]:
            print(highest(Path(levels), float(height)))
        case ["plot", first, *more, picture]:
            plot([Path(first), *map(Path, more)], Path(picture))
        case _:
            sys.exit(__doc__)
