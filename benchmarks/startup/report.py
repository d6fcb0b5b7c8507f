"""The tables and the plot of the start-up benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from harness.figures import Spread, number, table
from peers import Peer
from sample import Sample

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

REFERENCE = "muscle3"
STYLES = {
    "xmml-hosted": ("#58a5e6", "^"),
    "xmml-python": ("#0b5fa5", "o"),
    "xmml-cpp": ("#083358", "s"),
    "muscle3": ("#d9601a", "o"),
}


def timed(samples: Sequence[Sample], peer: str, instances: int) -> list[Sample]:
    """The runs in which only time was measured."""
    return [s for s in samples if (s.peer, s.instances) == (peer, instances) and not (s.has_memory or s.is_planned)]


def report(samples: Sequence[Sample], peers: Sequence[Peer], machine: str) -> str:
    """All tables, as Markdown."""
    rounds = len({sample.round for sample in samples if not sample.has_memory})
    return (
        "\n\n".join(
            [
                f"{machine}. Median of {rounds} rounds, all peers in each, with the least and the most in brackets.",
                "### Start-up time [s]\n\nFrom the start of the command until the last instance has its first message, "
                "and until the command has ended.",
                time_table(samples, peers),
                "### Very many conduits [s]\n\nFrom the finished plan until the last instance has its first messages.",
                conduits_table(samples, peers),
                "### Memory\n\nProportional resident memory while every instance waits after its first message.",
                memory_table(samples, peers),
                "### Memory of conduits [KiB]\n\nBoth ends and what the command knows of it, after a message. The "
                "first conduit between two instances has a connection of its own, which the others share.",
                memory_of_conduits_table(samples, peers),
            ]
        )
        + "\n"
    )


def time_table(samples: Sequence[Sample], peers: Sequence[Peer]) -> str:
    rows = []
    for instances in sorted({sample.instances for sample in samples}):
        reference = timed(samples, REFERENCE, instances)
        for peer in peers:
            runs = timed(samples, peer.name, instances)
            if not runs:
                continue
            first = Spread.of(run.first_messages_s for run in runs)
            total = Spread.of(run.total_s for run in runs)
            ratio = "-"
            if reference and peer.name != REFERENCE:
                ratio = f"{number(Spread.of(run.first_messages_s for run in reference).median / first.median)} x"
            rows.append([f"{instances:,} x {peer.label}", str(first), str(total), ratio])
    return table(["", "first messages", "whole run", "faster than MUSCLE3"], rows)


def conduits_table(samples: Sequence[Sample], peers: Sequence[Peer]) -> str:
    rows = []
    for peer in peers:
        runs = [s for s in samples if s.peer == peer.name and s.is_planned and not s.has_memory]
        if runs:
            first = Spread.of(run.first_messages_s for run in runs)
            ring = f"{runs[0].instances:,} x {peer.label}, {runs[0].conduits:,} conduits"
            rows.append([ring, str(first), f"{1000 * first.median / runs[0].conduits:.3f}"])
    return table(["", "first messages", "ms per conduit"], rows) if rows else "Nobody took part."


def memory_table(samples: Sequence[Sample], peers: Sequence[Peer]) -> str:
    rows = []
    measured = [sample for sample in samples if sample.has_memory and not sample.is_planned]
    for instances in sorted({sample.instances for sample in measured}):
        for peer in peers:
            runs = [s for s in measured if (s.peer, s.instances) == (peer.name, instances)]
            if not runs:
                continue
            few = min(runs, key=lambda run: run.conduits)
            many = max(runs, key=lambda run: run.conduits)
            conduit = "-"
            if many.conduits > few.conduits:
                conduit = number((many.together_kib - few.together_kib) / (many.conduits - few.conduits))
            rows.append(
                [
                    f"{instances:,} x {peer.label}",
                    number(few.command_kib / 1024),
                    number(few.helpers_kib / 1024),
                    number(few.instances_kib / 1024 / instances),
                    number(few.together_kib / 1024),
                    conduit,
                ]
            )
    head = ["", "command [MiB]", "helpers [MiB]", "one instance [MiB]", "together [MiB]", "one more conduit [KiB]"]
    return table(head, rows)


def memory_of_conduits_table(samples: Sequence[Sample], peers: Sequence[Peer]) -> str:
    rows = []
    for peer in peers:
        measured = {
            (sample.conduits // sample.instances, sample.methods): sample
            for sample in samples
            if sample.peer == peer.name and sample.has_memory and sample.is_planned
        }
        if not {(0, ""), (1, ""), (1, "tcp")} <= measured.keys():
            continue
        none, one, by_tcp = measured[0, ""], measured[1, ""], measured[1, "tcp"]
        many = max(measured.values(), key=lambda sample: sample.conduits)
        more = "-"
        if many.conduits > one.conduits:
            more = number((many.together_kib - one.together_kib) / (many.conduits - one.conduits))
        each = [number((some.together_kib - none.together_kib) / some.conduits) for some in (one, by_tcp)]
        rows.append([f"{one.instances:,} x {peer.label}", *each, more])
    head = ["", "with its connection", "the same by tcp", "one more"]
    return table(head, rows) if rows else "Nobody took part."


def _label(axes: Axes, size: int, medians: Sequence[tuple[float, str]]) -> None:
    """Write the medians of one size beside their points so that close ones do not cover each other: the least below,
    the next to the right, all others above."""
    for rank, (median, color) in enumerate(medians):
        offset, ha = {0: ((0, -16), "center"), 1: ((9, -9), "left")}.get(rank, ((0, 8), "center"))
        text = f"{number(median)} s"
        axes.annotate(text, (size, median), offset, textcoords="offset points", ha=ha, color=color)


def draw(samples: Sequence[Sample], peers: Sequence[Peer], machine: str, path: Path) -> None:
    """Writes the plot to `path`; bars show the least and the most of the rounds."""
    figure, axes = pyplot.subplots(figsize=(7.5, 5), layout="constrained")
    sizes = sorted({sample.instances for sample in samples if not sample.is_planned})
    labels: dict[int, list[tuple[float, str]]] = {}
    for peer in peers:
        color, marker = STYLES[peer.name]
        points = [(size, timed(samples, peer.name, size)) for size in sizes]
        known = [(size, Spread.of(run.first_messages_s for run in runs)) for size, runs in points if runs]
        if known:
            below = [spread.median - spread.low for _, spread in known]
            above = [spread.high - spread.median for _, spread in known]
            x, y = [size for size, _ in known], [spread.median for _, spread in known]
            axes.errorbar(x, y, [below, above], color=color, marker=marker, capsize=3, linewidth=2, label=peer.label)
            for size, spread in known:
                labels.setdefault(size, []).append((spread.median, color))
    for size, medians in labels.items():
        _label(axes, size, sorted(medians))
    axes.set(xscale="log", yscale="log", xlabel="instances", ylabel="s")
    axes.set_title("From the start until all have their first message")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.margins(x=0.12, y=0.12)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.grid(True, color="#e4e4e4", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.suptitle(machine, fontsize=9)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
