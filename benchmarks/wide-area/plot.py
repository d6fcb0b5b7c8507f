"""The plot of a run: throughput over the number of streams, a panel for each round-trip time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from harness.figures import size
from sample import Sample, spread

matplotlib.use("Agg")
from matplotlib import pyplot

STYLES: dict[str, dict[str, Any]] = {
    "path": {"color": "#0b5fa5", "marker": "o", "linewidth": 2.2, "label": "xMML path"},
    "tcp": {"color": "#8a8a8a", "marker": "s", "linewidth": 1.4, "linestyle": "--", "label": "bare TCP"},
    "iperf3": {"color": "#2f8f46", "marker": "^", "linewidth": 1.4, "label": "iperf3"},
    "mpwide": {"color": "#7a4fa3", "marker": "d", "linewidth": 1.4, "label": "MPWide"},
}
AUTOMATIC = {"color": "#d9601a", "linewidth": 2.0, "label": "xMML path, automatic"}


def draw(samples: Sequence[Sample], machine: str, path: Path) -> bool:
    """Writes the plot to `path`, if bulk was measured; bands show the least and the most of the rounds."""
    bulk = [sample for sample in samples if sample.experiment == "bulk"]
    rtts = sorted({sample.rtt_ms for sample in bulk})
    if not rtts:
        return False
    size_b = sorted({sample.size_b for sample in bulk if sample.peer == "path"})[-1]
    counts = sorted({int(sample.streams) for sample in bulk if sample.streams.isdigit()})
    figure, axes = pyplot.subplots(
        1, len(rtts), figsize=(3.4 * len(rtts) + 1.5, 4), layout="constrained", squeeze=False
    )
    for panel, rtt in zip(axes[0], rtts, strict=True):
        for peer, style in STYLES.items():
            wanted = None if peer == "iperf3" else size_b
            known = [
                (count, found) for count in counts if (found := _warm(bulk, peer, str(count), rtt, wanted)) is not None
            ]
            if not known:
                continue
            x = [count for count, _ in known]
            panel.plot(x, [each.median for _, each in known], markersize=4, **style)
            low, high = [each.low for _, each in known], [each.high for _, each in known]
            panel.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
        automatic = _warm(bulk, "path", "auto", rtt, size_b)
        if automatic is not None:
            panel.axhline(automatic.median, **AUTOMATIC)
        panel.set(title=f"RTT {rtt:g} ms", xlabel="streams", xscale="log", ylim=(0, 1000))
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.minorticks_off()
        panel.grid(True, color="#e4e4e4", linewidth=0.8)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("Mbit/s")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    figure.suptitle(f"Messages of {size(size_b)} over 1 Gbit/s\n{machine}", fontsize=10)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return True


def _warm(samples: Sequence[Sample], peer: str, streams: str, rtt_ms: float, size_b: int | None) -> Any:
    return spread(
        samples,
        lambda s: s.megabit_s,
        experiment="bulk",
        peer=peer,
        streams=streams,
        rtt_ms=rtt_ms,
        size_b=size_b,
        part="warm",
    )
