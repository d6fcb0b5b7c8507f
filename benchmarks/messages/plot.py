"""The plot of a run: one-way time and throughput over the size of a message."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from harness.figures import size
from peers import Peer
from sample import Figure, Sample, spread

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter

STYLES: dict[str, dict[str, Any]] = {
    "xmml-python": {"color": "#0b5fa5", "marker": "o", "linewidth": 2.4},
    "xmml-mixed": {"color": "#4c9bd6", "marker": "D", "linewidth": 2.0},
    "xmml-cpp": {"color": "#083358", "marker": "s", "linewidth": 2.4},
    "muscle3": {"color": "#d9601a", "marker": "o", "linewidth": 2.0},
    "openmpi": {"color": "#2f8f46", "marker": "^", "linewidth": 1.4},
    "openmpi-copy": {"color": "#86bf6f", "marker": "v", "linewidth": 1.4},
    "zeromq": {"color": "#a13a8f", "marker": "P", "linewidth": 1.4},
    "socket-python": {"color": "#8a8a8a", "linestyle": "--", "marker": "o", "linewidth": 1.2},
    "socket": {"color": "#5a5a5a", "linestyle": "--", "marker": "s", "linewidth": 1.2},
    "socket-spin": {"color": "#a8a8a8", "linestyle": ":", "marker": "s", "linewidth": 1.2},
    "xmml-python-awake": {"color": "#0b5fa5", "linestyle": ":", "marker": "o", "linewidth": 1.2},
    "xmml-cpp-awake": {"color": "#083358", "linestyle": ":", "marker": "s", "linewidth": 1.2},
    "xmml-python-asleep": {"color": "#0b5fa5", "linestyle": "--", "marker": "o", "linewidth": 1.2},
    "xmml-cpp-asleep": {"color": "#083358", "linestyle": "--", "marker": "s", "linewidth": 1.2},
    "pipe": {"color": "#5a5a5a", "linestyle": "-.", "marker": "x", "linewidth": 1.0},
    "futex": {"color": "#b0882a", "linestyle": "--", "marker": "s", "linewidth": 1.2},
    "futex-spin": {"color": "#b0882a", "linestyle": ":", "marker": "s", "linewidth": 1.2},
    "memcpy": {"color": "#c0c0c0", "linestyle": "-.", "marker": None, "linewidth": 1.2},
}
ZERO = 8.0  # where an empty message stands on an axis that has no zero


def draw(samples: Sequence[Sample], peers: Sequence[Peer], machine: str, path: Path) -> None:
    """Writes the plot to `path`; bands show the least and the most of the rounds."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 5.6), layout="constrained")
    sizes = sorted({sample.size_b for sample in samples})
    panel(left, samples, peers, "pingpong", sizes, lambda s: s.one_way_us)
    left.set(title="One-way time, half of a round trip", xlabel="size of the message", ylabel="µs", ylim=(0.05, None))
    bulk = [size_b for size_b in sizes if size_b > 0]
    panel(right, samples, peers, "stream", bulk, lambda s: s.throughput_gib_s)
    right.set(title="Throughput of a stream", xlabel="size of the message", ylabel="GiB/s")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    figure.suptitle(f"Messages between two processes\n{machine}", fontsize=10)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def panel(
    axes: Any, samples: Sequence[Sample], peers: Sequence[Peer], pattern: str, sizes: Sequence[int], figure: Figure
) -> None:
    has_any = False
    for peer in (peer for peer in peers if peer.touch == "read"):
        measured = [(max(s, ZERO), spread(samples, peer.name, pattern, s, figure)) for s in sizes]
        known = [(x, of_size) for x, of_size in measured if of_size is not None]
        x = [x for x, _ in known]
        has_any |= bool(known)
        style = STYLES[peer.name]
        axes.plot(x, [y.median for _, y in known], label=peer.label, markersize=5, **style)
        low, high = [y.low for _, y in known], [y.high for _, y in known]
        axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
    axes.set(xscale="log", yscale="log" if has_any else "linear")
    axes.set_xticks([max(s, ZERO) for s in sizes], [size(s) if s else "0" for s in sizes], fontsize=8)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}" if y < 10_000 else f"{y:,.0f}"))
    axes.grid(True, color="#e4e4e4", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
