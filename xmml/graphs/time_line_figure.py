"""The time line of a task graph as a figure: rows for instances, bars for what they do, thin lines for messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from xmml.graphs.linear_ticks import linear_ticks
from xmml.graphs.palette import ALARM, CRITICAL, FAINT_INK, INK, KINDS, PAPER, QUIET_INK
from xmml.graphs.quantity_text import shortened
from xmml.graphs.time_line import Bar, Halt, TimeLine
from xmml.model import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH_IN = 10.5
_ROW_IN = 0.4
_ABOVE_IN, _BELOW_IN = 0.6, 0.95
_RIGHT_IN = 0.35
#: Parts of the width of the drawn time: the band for what is left out, room for marks, and the least width of a bar.
_BAND = 0.16
_MARGIN = 0.02
_LEAST_BAR = 0.0025
_HALF_BAR = 0.3
#: A character of the labels, and of small text [in].
_CHARACTER_IN = 0.075
_SMALL_CHARACTER_IN = 0.068
#: A character of what stands at the ticks [in].
_TICK_CHARACTER_IN = 0.085
_LONGEST_TEXT = 64


def time_line_figure(line: TimeLine, kinds: Sequence[Kind], title: str, note: str) -> Figure:
    """Return the figure.

    Args:
        kinds: the kind of each row's process (a submodel's for rows without one).
        title: written above, bold; `note` after it, quiet.
    """
    from matplotlib.figure import Figure

    height = _ABOVE_IN + _BELOW_IN + _ROW_IN * max(len(line.rows), 1)
    left = min(3.2, 0.45 + _CHARACTER_IN * max((len(shortened(row.name)) for row in line.rows), default=0))
    figure = Figure(figsize=(_WIDTH_IN, height), facecolor=PAPER)
    width = _WIDTH_IN - left - _RIGHT_IN
    axes = figure.add_axes(
        (left / _WIDTH_IN, _BELOW_IN / height, width / _WIDTH_IN, (height - _ABOVE_IN - _BELOW_IN) / height)
    )
    place = _Places(line, width)
    axes.set_xlim(-_MARGIN * place.total, place.total + (place.room_at_end or _MARGIN * place.total))
    axes.set_ylim(len(line.rows) - 0.5, -0.5)
    _frame(axes, line, place)
    _bands(axes, line, place)
    inches = width / (axes.get_xlim()[1] - axes.get_xlim()[0])
    _bars(axes, line, kinds, place, inches)
    _messages(axes, line, place)
    _halts(axes, line, place)
    _idle(axes, line)
    top = 1 - 0.3 / height
    written = figure.text(0.2 / _WIDTH_IN, top, title, color=INK, fontsize=12, fontweight="bold", va="center")
    written.set_parse_math(False)
    figure.text(1 - _RIGHT_IN / _WIDTH_IN, top, note, color=QUIET_INK, fontsize=9, va="center", ha="right")
    _legend(figure, line, kinds, height)
    return figure


class _Places:
    """Where times are on the axis: the stretches one after the other, with a band between them."""

    def __init__(self, line: TimeLine, width_in: float) -> None:
        self.line = line
        self.width_in = width_in
        lengths = [max(stretch.end - stretch.begin, 1) for stretch in line.stretches]
        self.drawn = float(sum(lengths))
        self.band = _BAND * self.drawn if any(line.left_out) else 0.0
        self.offsets = [0.0]
        for length in lengths[:-1]:
            self.offsets.append(self.offsets[-1] + length + self.band)
        self.total = self.offsets[-1] + lengths[-1]
        self.has_band_at_end = bool(self.band) and len(lengths) == 1
        self.room_at_end = self.band if self.has_band_at_end else self._room_for_halts(width_in)

    def _room_for_halts(self, width_in: float) -> float:
        """Return the room that the texts beside the marks need behind the end."""
        width = width_in
        for halt in self.line.halts:
            text_in = 0.4 + _SMALL_CHARACTER_IN * max(map(len, _halt_texts(halt)))
            part = self.at(halt.at, self.stretch_of(halt.at)) / self.total
            width = min(width, (width_in - text_in) / part if part else width)
        return self.total * (width_in / max(width, width_in / 3) - 1)

    def stretch_of(self, time: int) -> int:
        """The stretch that a time lies in, or the one before it."""
        found = 0
        for number, stretch in enumerate(self.line.stretches):
            if time >= stretch.begin:
                found = number
        return found

    def at(self, time: int, stretch: int) -> float:
        """The place of a time, not beyond its stretch."""
        bounds = self.line.stretches[stretch]
        return self.offsets[stretch] + min(max(time, bounds.begin), bounds.end) - bounds.begin

    def ticks(self, number: int, most: int) -> list[tuple[float, str]]:
        """The ticks of a stretch, at most about so many, and as many as there is room for what is written there."""
        stretch = self.line.stretches[number]
        in_per_ns = self.width_in / (self.total + self.room_at_end)
        while True:
            found = linear_ticks(stretch.begin, stretch.end, most, self.line.is_depth)
            wide_in = _TICK_CHARACTER_IN * (1 + max(len(row) for _, text in found for row in text.split("\n")))
            if most == 1 or all((after - before) * in_per_ns >= wide_in for (before, _), (after, _) in pairwise(found)):
                return [(self.at(time, number), text) for time, text in found]
            most -= 1

    def bands(self) -> list[tuple[float, float]]:
        """Where the bands are."""
        if self.has_band_at_end:
            return [(self.total, self.total + self.band)]
        ends = [offset - self.band for offset in self.offsets[1:]]
        return [(end, end + self.band) for end in ends]


def _frame(axes: Axes, line: TimeLine, place: _Places) -> None:
    axes.set_yticks(range(len(line.rows)), [shortened(row.name) for row in line.rows])
    for text, row in zip(axes.get_yticklabels(), line.rows, strict=True):
        text.set(color=INK if row.process is not None else QUIET_INK, fontsize=10, parse_math=False)
        text.set_fontstyle("normal" if row.process is not None else "italic")
    axes.tick_params(axis="y", length=0, pad=8)
    axes.tick_params(axis="x", colors=QUIET_INK, labelsize=9, length=3)
    marks: list[tuple[float, str]] = []
    most = 8 if len(line.stretches) == 1 else 4
    for number in range(len(line.stretches)):
        marks += place.ticks(number, most)
    axes.set_xticks([mark for mark, _ in marks], [text for _, text in marks])
    axes.grid(axis="x", color=FAINT_INK, alpha=0.22, linewidth=0.7)
    axes.set_axisbelow(True)
    for number in range(len(line.rows)):
        axes.axhline(number, color=FAINT_INK, alpha=0.3, linewidth=0.7, zorder=0)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(FAINT_INK)
    axes.set_xlabel(
        "tasks one after the other (no run times are known)" if line.is_depth else "time", color=INK, labelpad=5
    )


def _bands(axes: Axes, line: TimeLine, place: _Places) -> None:
    for begin, end in place.bands():
        axes.axvspan(begin, end, facecolor=PAPER, zorder=1.5, linewidth=0)
        for edge in (begin, end)[: 1 if place.has_band_at_end else 2]:
            axes.axvline(edge, color=FAINT_INK, linewidth=1, linestyle=(0, (3, 3)), zorder=1.6)
        for number, text in enumerate(line.left_out):
            if text:
                words = text.replace(" ", "\n", 1) if len(line.rows) <= 12 else text
                middle = (begin + end) / 2
                axes.text(middle, number, words, ha="center", va="center", fontsize=7.5, color=QUIET_INK, zorder=1.7)


def _bars(axes: Axes, line: TimeLine, kinds: Sequence[Kind], place: _Places, inches: float) -> None:
    from matplotlib.patches import Rectangle

    least = _LEAST_BAR * place.total
    for bar in line.bars:
        paint = CRITICAL if bar.is_critical else KINDS[kinds[bar.row]]
        for begin, end in _pieces(bar, place):
            width = max(end - begin, least)
            shape = Rectangle((begin, bar.row - _HALF_BAR), width, 2 * _HALF_BAR, facecolor=paint.fill)
            shape.set(edgecolor=paint.line, linewidth=1.3 if bar.is_critical else 0.9)
            shape.set_zorder(2.4 if bar.is_critical else 2)
            axes.add_patch(shape)
            text = next((one for one in bar.texts if len(one) * _CHARACTER_IN * 0.95 <= width * inches), "")
            written = axes.text(begin + width / 2, bar.row, text, ha="center", va="center", fontsize=8, zorder=3)
            written.set(color=INK, parse_math=False)


def _pieces(bar: Bar, place: _Places) -> list[tuple[float, float]]:
    """Return the parts of a bar that are drawn: in each stretch that it reaches into."""
    found = []
    for number, stretch in enumerate(place.line.stretches):
        reaches = bar.begin < stretch.end and bar.end > stretch.begin
        if reaches or (bar.begin == bar.end and stretch.begin <= bar.begin <= stretch.end):
            gap = 0.18 if place.line.is_depth else 0.0
            end = place.at(bar.end, number)
            found.append((place.at(bar.begin, number), end - gap if bar.end <= stretch.end else end))
    return found[:1] if bar.begin == bar.end else found


def _messages(axes: Axes, line: TimeLine, place: _Places) -> None:
    from matplotlib.collections import LineCollection

    gap = 0.18 if line.is_depth else 0.0
    for is_state, is_critical in ((False, False), (True, False), (False, True), (True, True)):
        lines = []
        for arrow in line.arrows:
            if (arrow.is_state, arrow.is_critical) != (is_state, is_critical):
                continue
            sender, receiver = line.bars[arrow.sender], line.bars[arrow.receiver]
            stretch = place.stretch_of(receiver.begin)
            if sender.end > line.stretches[stretch].end or sender.end < line.stretches[stretch].begin:
                continue
            down = (receiver.row > sender.row) - (receiver.row < sender.row)
            lines.append(
                [
                    (place.at(sender.end, stretch) - gap, sender.row + down * _HALF_BAR),
                    (place.at(receiver.begin, stretch), receiver.row - down * _HALF_BAR),
                ]
            )
        if not lines:
            continue
        colour = CRITICAL.line if is_critical else QUIET_INK if is_state else FAINT_INK
        axes.add_collection(
            LineCollection(
                lines,
                colors=colour,
                linewidths=1.3 if is_critical else 0.8,
                linestyles="dashed" if is_state else "solid",
                zorder=2.6 if is_critical else 1.8,
            )
        )
        axes.scatter(
            [end[0] for _, end in lines],
            [end[1] for _, end in lines],
            s=9 if is_critical else 6,
            color=colour,
            zorder=2.7 if is_critical else 1.9,
        )


def _halts(axes: Axes, line: TimeLine, place: _Places) -> None:
    for halt in line.halts:
        at = place.at(halt.at, place.stretch_of(halt.at)) + 0.025 * place.drawn
        axes.scatter([at], [halt.row], marker="8", s=170, color=ALARM, zorder=4, clip_on=False)
        axes.scatter([at], [halt.row], marker="x", s=26, color=PAPER, linewidths=1.6, zorder=4.1, clip_on=False)
        words = "\n".join(_halt_texts(halt))
        text = axes.text(at + 0.018 * place.drawn, halt.row, words, color=ALARM, fontsize=8, va="center", zorder=4)
        text.set_parse_math(False)


def _halt_texts(halt: Halt) -> list[str]:
    waits = f"waits for {halt.waits_for}".replace(" -> ", " → ") if halt.waits_for else ""
    return [shortened(text, _LONGEST_TEXT) for text in (halt.label, waits) if text]


def _idle(axes: Axes, line: TimeLine) -> None:
    """Say of rows without anything that they do nothing."""
    busy = {bar.row for bar in line.bars} | {halt.row for halt in line.halts}
    for number, row in enumerate(line.rows):
        if row.process is not None and number not in busy and not (line.left_out and line.left_out[number]):
            axes.text(0, number, "never begins", color=QUIET_INK, fontsize=8, style="italic", va="center", zorder=3)


def _legend(figure: Figure, line: TimeLine, kinds: Sequence[Kind], height: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    used = {kinds[bar.row] for bar in line.bars if not bar.is_critical}
    handles: list[Patch | Line2D] = [
        Patch(facecolor=paint.fill, edgecolor=paint.line, label=kind) for kind, paint in KINDS.items() if kind in used
    ]
    if any(bar.is_critical for bar in line.bars):
        handles.append(Patch(facecolor=CRITICAL.fill, edgecolor=CRITICAL.line, label="critical path"))
    entries: list[tuple[bool, Callable[[], Line2D]]] = [
        (
            any(not arrow.is_state for arrow in line.arrows),
            lambda: Line2D([], [], color=FAINT_INK, marker=".", label="message"),
        ),
        (
            any(arrow.is_state for arrow in line.arrows),
            lambda: Line2D([], [], color=QUIET_INK, linestyle="dashed", label="state"),
        ),
        (bool(line.halts), lambda: Line2D([], [], color=ALARM, marker="8", linestyle="", label="waits for ever")),
    ]
    handles += [make() for is_there, make in entries if is_there]
    if handles:
        figure.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0.1 / _WIDTH_IN, 0.04 / height),
            ncols=len(handles),
            frameon=False,
            fontsize=8.5,
            labelcolor=QUIET_INK,
            handlelength=1.5,
        )
