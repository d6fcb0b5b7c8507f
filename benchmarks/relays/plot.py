"""The plot of a run: one-way time over the size of messages, a panel for each number of relays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from harness.figures import size
from sample import DIRECT, Chain, Sample, chains_in, spread

matplotlib.use("Agg")
from matplotlib import pyplot

STYLES: dict[str, dict[str, Any]] = {
    "direct": {"color": "#2f8f46", "marker": "^", "linewidth": 1.4},
    "forwarders": {"color": "#8a8a8a", "marker": "s", "linewidth": 1.4, "linestyle": "--"},
    "relays": {"color": "#0b5fa5", "marker": "o", "linewidth": 2.2},
}
ENCRYPTED = {"color": "#d9601a"}
#: Where an empty message stands on a logarithmic axis [B].
EMPTY_B = 16


def draw(samples: Sequence[Sample], machine: str, path: Path) -> bool:
    """Writes the plot to `path`, if times were measured; bands show the least and the most of the rounds."""
    mine = [sample for sample in samples if sample.experiment == "latency"]
    counts = sorted({sample.count for sample in mine} - {0})
    if not counts:
        return False
    figure, axes = pyplot.subplots(
        1, len(counts), figsize=(4.2 * len(counts) + 0.5, 4.2), layout="constrained", squeeze=False, sharey=True
    )
    for panel, count in zip(axes[0], counts, strict=True):
        for chain in [chain for chain in chains_in(mine) if chain.count in (0, count)]:
            _curve(panel, mine, chain)
        panel.set(xscale="log", yscale="log", xlabel="message")
        ticks = [0, 64, 1 << 10, 10 << 10, 64 << 10, 1 << 20]
        panel.set_xticks([max(each, EMPTY_B) for each in ticks], [size(each) for each in ticks], fontsize=8)
        panel.minorticks_off()
        panel.grid(True, color="#e4e4e4", linewidth=0.8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=8)
    axes[0][0].set_ylabel("one way [us]")
    figure.suptitle(f"Messages between two instances on one machine\n{machine}", fontsize=10)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return True


def _curve(panel: Any, samples: Sequence[Sample], chain: Chain) -> None:
    known = [
        (size_b, found)
        for size_b in sorted({sample.size_b for sample in samples})
        if (found := spread(samples, chain, "latency", "one way", size_b=size_b)) is not None
    ]
    style = {**STYLES[chain.peer], **(ENCRYPTED if chain.links == "encrypted" else {})}
    x = [max(size_b, EMPTY_B) for size_b, _ in known]
    label = chain.label if chain != DIRECT else "direct TCP"
    panel.plot(x, [1e6 * each.median for _, each in known], markersize=3, label=label, **style)
    low, high = [1e6 * each.low for _, each in known], [1e6 * each.high for _, each in known]
    panel.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
