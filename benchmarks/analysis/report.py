"""The tables and the plot of the analysis benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from harness.figures import Spread, number, table
from sample import Sample

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter

#: What is measured, what its time should be proportional to, and the goal: so large in so many seconds.
GOALS = {"check": ("couplings", 50_000, 2.0), "task graph": ("nodes", 60_002, 3.0)}
SMALLEST_DRAWN = 1000
COLORS = {"check": "#0b5fa5", "task graph": "#d9601a"}


def sizes(samples: Sequence[Sample], what: str) -> dict[int, list[Sample]]:
    """The measurements of one kind, by size, smallest first."""
    found = sorted({sample.size for sample in samples if sample.what == what})
    return {size: [sample for sample in samples if (sample.what, sample.size) == (what, size)] for size in found}


def report(samples: Sequence[Sample], machine: str) -> str:
    """All tables, as Markdown."""
    rounds = len({sample.round for sample in samples})
    return (
        "\n\n".join(
            [
                f"{machine}. Median of {rounds} rounds, with the least and the most in brackets.",
                "### `xmml check`, with the static analysis\n\nFrom the start of the command until it has ended.",
                check_table(samples),
                "### Task graph of in-stent restenosis\n\nUnrolling alone; memory of the whole process.",
                task_graph_table(samples),
            ]
        )
        + "\n"
    )


def check_table(samples: Sequence[Sample]) -> str:
    rows = []
    for size, runs in sizes(samples, "check").items():
        rows.append([f"{runs[0].instances:,} instances, {size:,} couplings", *time_and_memory(runs)])
    return table(["", "time [s]", "of a processor [s]", "per coupling [us]", "peak memory [MiB]"], rows)


def task_graph_table(samples: Sequence[Sample]) -> str:
    rows = []
    for size, runs in sizes(samples, "task graph").items():
        rows.append([f"{size:,} nodes, {runs[0].edges:,} edges", *time_and_memory(runs)])
    return table(["", "time [s]", "of a processor [s]", "per node [us]", "peak memory [MiB]"], rows)


def time_and_memory(runs: Sequence[Sample]) -> list[str]:
    seconds = Spread.of(run.seconds for run in runs)
    processor = Spread.of(run.processor_s for run in runs)
    peak = Spread.of(run.peak_kib / 1024 for run in runs)
    return [str(seconds), str(processor), number(processor.median / runs[0].size * 1e6), number(peak.median)]


def draw(samples: Sequence[Sample], machine: str, path: Path) -> None:
    """Writes the plot to `path`; bars show the least and the most of the rounds, the dashed line is proportional.

    What a processor works depends less than the time that passes on what else the machine does.
    """
    figure, both = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for axes, (what, (unit, goal, goal_s)) in zip(both, GOALS.items(), strict=True):
        points = {
            size: Spread.of(run.processor_s for run in runs)
            for size, runs in sizes(samples, what).items()
            if size >= SMALLEST_DRAWN
        }
        x, y = list(points), [spread.median for spread in points.values()]
        below = [spread.median - spread.low for spread in points.values()]
        above = [spread.high - spread.median for spread in points.values()]
        color = COLORS[what]
        axes.plot([x[0], x[-1]], [y[-1] * x[0] / x[-1], y[-1]], "--", color="#b0b0b0", label="proportional")
        axes.errorbar(x, y, [below, above], color=color, marker="o", capsize=3, linewidth=2, label=what)
        axes.plot([goal], [goal_s], marker="v", color="#3a3a3a", linestyle="none", label="goal: below")
        for size, median in zip(x, y, strict=True):
            axes.annotate(
                f"{number(median)} s", (size, median), (0, 8), textcoords="offset points", ha="center", color=color
            )
        axes.set(xscale="log", yscale="log", xlabel=unit, ylabel="s")
        axes.set_title(
            "xmml check, from start to end: time of a processor"
            if what == "check"
            else "task graph of in-stent restenosis: time of a processor"
        )
        axes.set_xticks(x, [f"{size:,}" for size in x], rotation=20)
        axes.minorticks_off()
        axes.margins(x=0.1, y=0.15)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.grid(True, color="#e4e4e4", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.suptitle(machine, fontsize=9)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
