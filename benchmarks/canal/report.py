"""The tables and the plot of the cavity benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
from harness.figures import number, table
from peers import Peer
from sample import COUPLED, MPI, Sample, efficiency, of, spread

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter

STYLES = {MPI: ("#2f8f46", "^"), COUPLED: ("#083358", "s")}


def report(samples: Sequence[Sample], peers: Sequence[Peer], machine: str) -> str:
    """All tables, as Markdown."""
    rounds = 1 + max(sample.round for sample in samples)
    sizes = sorted({sample.cells for sample in samples})
    parts = [
        f"{machine}. Median of {rounds} rounds, both programs in each, with the least and the most in brackets.",
        "### Time of a step, and efficiency\n\nEfficiency is the time of the MPI program over that of the coupled "
        "submodels, round by round.",
        step_table(samples, peers, sizes),
        "### What a step spends on the other half [us]\n\nSending: packing what leaves and handing it over. Receiving: "
        "waiting for what comes, which is also waiting for a neighbour who is later, and unpacking it.",
        exchange_table(samples, peers, sizes),
        "### Start [s]\n\nFrom the start of the command until both halves have warmed up, and the whole command.",
        start_table(samples, peers, sizes),
    ]
    return "\n\n".join(parts) + "\n"


def step_table(samples: Sequence[Sample], peers: Sequence[Peer], sizes: Sequence[int]) -> str:
    head = ["cells", "message", *(f"{peer.label} [ms]" for peer in peers), "efficiency", "million cells per second"]
    rows = []
    for cells in sizes:
        runs = [of(samples, peer.name, cells) for peer in peers]
        ratio = efficiency(samples, cells)
        rate = max((spread(each, lambda s: s.updates_per_s / 1e6).median for each in runs if each), default=0.0)
        rows.append(
            [
                f"{cells} x {cells} x {cells}",
                size_of(cells),
                *(str(spread(each, lambda s: 1e3 * s.step_s)) if each else "-" for each in runs),
                f"{ratio.median:.3f} [{ratio.low:.3f}..{ratio.high:.3f}]" if ratio else "-",
                number(rate),
            ]
        )
    return table(head, rows)


def size_of(cells: int) -> str:
    """The size of a message, to three digits."""
    message_b = 5 * 8 * cells**2
    return f"{number(message_b / 1024)} KiB" if message_b < 1 << 20 else f"{number(message_b / 2**20)} MiB"


FIGURES: tuple[tuple[str, Callable[[Sample], float]], ...] = (
    ("west sends", lambda s: 1e6 * s.west_sending_s),
    ("west receives", lambda s: 1e6 * s.west_receiving_s),
    ("east sends", lambda s: 1e6 * s.east_sending_s),
    ("east receives", lambda s: 1e6 * s.east_receiving_s),
)


def exchange_table(samples: Sequence[Sample], peers: Sequence[Peer], sizes: Sequence[int]) -> str:
    rows = []
    for cells in sizes:
        for peer in peers:
            if runs := of(samples, peer.name, cells):
                rows.append([f"{cells}, {peer.label}", *(str(spread(runs, figure)) for _, figure in FIGURES)])
    return table(["cells", *(name for name, _ in FIGURES)], rows)


def start_table(samples: Sequence[Sample], peers: Sequence[Peer], sizes: Sequence[int]) -> str:
    rows = []
    for cells in sizes:
        for peer in peers:
            if runs := of(samples, peer.name, cells):
                figures = (spread(runs, lambda s: s.start_s), spread(runs, lambda s: s.total_s))
                rows.append([f"{cells}, {peer.label}", f"{runs[0].steps:,}", *map(str, figures)])
    return table(["cells", "steps", "start", "whole command"], rows)


def draw(samples: Sequence[Sample], peers: Sequence[Peer], machine: str, path: Path) -> None:
    """Writes the plot to `path`; bars show the least and the most of the rounds."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained")
    sizes = sorted({sample.cells for sample in samples})
    known = [(cells, ratio) for cells in sizes if (ratio := efficiency(samples, cells))]
    if known:
        medians = [ratio.median for _, ratio in known]
        bars = [[r.median - r.low for _, r in known], [r.high - r.median for _, r in known]]
        left.errorbar([c for c, _ in known], medians, bars, color="#083358", marker="s", capsize=3, linewidth=2)
    left.axhline(1, color="#8a8a8a", linewidth=1)
    left.axhline(0.95, color="#d9601a", linewidth=1, linestyle="--", label="MUSCLE 2 at its largest size (2014)")
    left.set(title="Efficiency: MPI program over coupled submodels", xlabel="cells along an edge")
    left.legend(frameon=False, loc="lower right")
    for peer in peers:
        color, marker = STYLES[peer.name]
        for what, style, take in (
            ("a step", "-", lambda s: 1e3 * s.step_s),
            ("of it for the other half", "--", lambda s: 1e3 * s.exchange_s),
        ):
            points = [(cells, spread(runs, take)) for cells in sizes if (runs := of(samples, peer.name, cells))]
            bars = [[y.median - y.low for _, y in points], [y.high - y.median for _, y in points]]
            y = [each.median for _, each in points]
            label = f"{peer.label}: {what}"
            right.errorbar(
                [x for x, _ in points], y, bars, color=color, marker=marker, linestyle=style, capsize=3, label=label
            )
    right.set(title="Time", xlabel="cells along an edge", ylabel="ms", yscale="log")
    right.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    right.legend(frameon=False, fontsize=9)
    for axes in (left, right):
        axes.set(xscale="log")
        axes.set_xticks(sizes, [str(cells) for cells in sizes])
        axes.minorticks_off()
        axes.grid(True, color="#e4e4e4", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"A cavity in one program and in two\n{machine}", fontsize=10)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
