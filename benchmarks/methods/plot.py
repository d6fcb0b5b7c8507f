"""The plot: the one-way time over the number of idle conduits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from harness.figures import size
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter

COLOURS = {"shm": "#0b5fa5", "unix": "#d9601a"}


def draw(samples: Sequence[Any], idle: Sequence[int], machine: str, path: Path) -> bool:
    """Writes the plot to `path`, and says whether there was something to draw; bars show the least and the most."""
    measured = [sample for sample in samples if sample.experiment == "idle"]
    if not measured:
        return False
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    places = range(len(idle))
    for method in dict.fromkeys(sample.method for sample in measured):
        for size_b in dict.fromkeys(sample.size_b for sample in measured):
            found = [
                [5e5 * s.median_s for s in measured if (s.method, s.size_b, s.idle) == (method, size_b, count)]
                for count in idle
            ]
            if not all(found):
                continue
            middle = [sorted(values)[len(values) // 2] for values in found]
            spread = [
                [y - min(values) for y, values in zip(middle, found, strict=True)],
                [max(values) - y for y, values in zip(middle, found, strict=True)],
            ]
            style = {"color": COLOURS[method], "linestyle": "-" if size_b == 0 else "--", "marker": "o"}
            axes.errorbar(places, middle, spread, label=f"{method}, {size(size_b)}", capsize=3, **style)
    axes.set_xticks(places, [str(count) for count in idle])
    axes.set(xlabel="idle TCP conduits at the same instance", ylabel="one-way time [µs]", yscale="log")
    for formats in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formats(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.grid(True, color="#e4e4e4", linewidth=0.8)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.set_title(f"Ping-pong beside idle conduits\n{machine}", fontsize=9)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return True
