"""A plan over sites as a picture: who runs in which job at which site, what goes between them, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from xmml.graphs.linear_ticks import linear_ticks
from xmml.graphs.palette import CLUSTER_FILL, CLUSTER_LINE, FAINT_INK, INK, KINDS, PAPER, QUIET_INK, TEMPLATES, Paint
from xmml.graphs.quantity_text import shortened, value_text
from xmml.graphs.render import ImageFormat, plot
from xmml.late_dataclass import dataclass
from xmml.units import Dimension
from xmml_planner.execution_plan import Job, Plan, Route
from xmml_planner.summary import counted, folded, on_nodes, rate_text, site_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The suffixes of pictures.
FORMATS: tuple[ImageFormat, ...] = get_args(ImageFormat)

_SITE_IN, _GAP_IN, _EDGE_IN = 2.9, 0.35, 0.35
_CHIP_IN, _HEAD_IN, _PAD_IN = 0.27, 0.5, 0.12
_LINK_IN, _ROW_IN = 0.34, 0.27
_TITLE_IN, _AXIS_IN, _LEGEND_IN, _BETWEEN_IN = 0.55, 0.6, 0.4, 0.35
_SITE, _JOB = Paint(CLUSTER_FILL, CLUSTER_LINE), Paint(PAPER, CLUSTER_LINE)
_RUNNING = Paint("#dfe5ea", QUIET_INK)
_MOST_CHIPS = 9
_MOST_ROWS = 60
_SECOND = 1_000_000_000


def plan_picture(plan: Plan, form: ImageFormat) -> bytes:
    """Return the picture of a plan over sites; the same plan gives the same bytes."""
    return plot(plan_figure(plan), form)


def plan_figure(plan: Plan) -> Figure:
    """Return the picture of a plan over sites as a figure: above the sites, below the expected time line."""
    from matplotlib.figure import Figure

    assert plan.expected is not None, "only plans over sites have expected times"
    sites = [site.name for site in plan.sites if any(job.site == site.name for job in plan.jobs)]
    sites += [site for route in plan.routes for site in route.sites if site not in sites]
    sites = list(dict.fromkeys(sites))
    jobs = {site: [job for job in plan.jobs if job.site == site] for site in sites}
    links = _links(plan, sites)
    rows = _rows(plan)
    map_in = max(_site_height(plan, jobs[site]) for site in sites) + _LINK_IN * (
        1 + max([0, *(e.level for e in links)])
    )
    map_in += 0.15
    width = max(9.5, 2 * _EDGE_IN + len(sites) * (_SITE_IN + _GAP_IN) - _GAP_IN)
    line_in = _ROW_IN * len(rows)
    height = _TITLE_IN + map_in + _BETWEEN_IN + line_in + _AXIS_IN + _LEGEND_IN
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    _title(figure, plan, width, height)
    above = figure.add_axes((0, 1 - (_TITLE_IN + map_in) / height, 1, map_in / height))
    above.set_xlim(0, width)
    above.set_ylim(-map_in, 0.04)
    above.axis("off")
    _map(above, plan, jobs, links, width)
    left = min(3.0, 0.5 + 0.075 * max(len(row.name) for row in rows))
    below = figure.add_axes(
        (left / width, (_AXIS_IN + _LEGEND_IN) / height, (width - left - _EDGE_IN) / width, line_in / height)
    )
    _time_line(below, plan, rows)
    _legend(figure, plan, rows, height, width)
    return figure


# The sites


@dataclass(frozen=True)
class _Link:
    """What goes between two sites: their places, the line on which it is drawn, and what is written on it."""

    first: int
    last: int
    text: str
    is_direct: bool
    level: int = 0


def _links(plan: Plan, sites: Sequence[str]) -> list[_Link]:
    between: dict[tuple[int, int], list[Route]] = {}
    for route in plan.routes:
        ends = sorted((sites.index(route.sites[0]), sites.index(route.sites[-1])))
        between.setdefault((ends[0], ends[1]), []).append(route)
    found: list[_Link] = []
    for (first, last), routes in sorted(between.items(), key=lambda each: (each[0][1] - each[0][0], each[0])):
        over = routes[0].sites[1:-1]
        size = sum(route.bytes or 0 for route in routes)
        words = [
            counted(len(routes), "conduit"),
            "directly" if routes[0].method == "tcp" else "relay" + (f" over {', '.join(over)}" if over else ""),
            value_text(routes[0].latency_s, Dimension.TIME),
            rate_text(routes[0].bandwidth),
        ]
        if size:
            words.append(f"{value_text(size, Dimension.DATA)} in all")
        taken = {link.level for link in found if link.first < last and first < link.last}
        level = next(number for number in range(len(found) + 1) if number not in taken)
        found.append(_Link(first, last, " · ".join(words), routes[0].method == "tcp", level))
    return found


def _chips(plan: Plan, job: Job) -> list[tuple[str, str]]:
    """Return what is written of a job's instances, with their kinds."""
    chips = []
    for node, own in on_nodes(plan, job).items():
        chips += [(node, "")] if node else []
        chips += [(label, instance.kind) for label, instance in own.items()]
    if len(chips) > _MOST_CHIPS:
        rest = len(chips) - _MOST_CHIPS + 1
        return [*chips[: _MOST_CHIPS - 1], (f"and {rest} more", "")]
    return chips


def _site_height(plan: Plan, jobs: Sequence[Job]) -> float:
    return _HEAD_IN + _PAD_IN + sum(_job_height(plan, job) + _PAD_IN for job in jobs)


def _job_height(plan: Plan, job: Job) -> float:
    return 0.36 + _CHIP_IN * len(_chips(plan, job)) + 0.06


def _box(axes: Axes, place: tuple[float, float], size: tuple[float, float], paint: Paint, round_in: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    box = FancyBboxPatch(place, *size, boxstyle=f"round,pad=0,rounding_size={round_in}")
    box.set(facecolor=paint.fill, edgecolor=paint.line, linewidth=0.9)
    axes.add_patch(box)


def _write(axes: Axes, x: float, y: float, text: str, **style: object) -> None:
    written = axes.text(x, y, text, **{"va": "center", "color": INK, "fontsize": 8.5, **style})  # type: ignore[arg-type]
    written.set_parse_math(False)


def _map(axes: Axes, plan: Plan, jobs: Mapping[str, Sequence[Job]], links: Sequence[_Link], width: float) -> None:
    tallest = max(_site_height(plan, own) for own in jobs.values())
    described = {site.name: site for site in plan.sites}
    row = len(jobs) * (_SITE_IN + _GAP_IN) - _GAP_IN
    start = (width - row) / 2
    for number, (name, own) in enumerate(jobs.items()):
        x = start + number * (_SITE_IN + _GAP_IN)
        _box(axes, (x, -tallest), (_SITE_IN, tallest), _SITE, 0.1)
        _write(axes, x + 0.14, -0.18, shortened(name, 26), fontsize=10.5, fontweight="bold")
        _write(axes, x + 0.14, -0.37, site_text(described[name]), fontsize=7.5, color=QUIET_INK)
        y = -_HEAD_IN
        if not own:
            _write(axes, x + 0.14, y - 0.12, "forwards only", fontsize=8, color=QUIET_INK, style="italic")
        for job in own:
            tall = _job_height(plan, job)
            _box(axes, (x + 0.12, y - tall), (_SITE_IN - 0.24, tall), _JOB, 0.07)
            _write(axes, x + 0.22, y - 0.17, shortened(job.name, 18), fontsize=8.5, fontweight="bold")
            cores = f"{counted(job.cores, 'core')} on {counted(job.nodes, 'node')}"
            _write(axes, x + _SITE_IN - 0.22, y - 0.17, cores, fontsize=7.5, color=QUIET_INK, ha="right")
            for place, (text, kind) in enumerate(_chips(plan, job)):
                top = y - 0.36 - place * _CHIP_IN
                if kind:
                    paint = KINDS[kind]
                    size = (_SITE_IN - 0.44, _CHIP_IN - 0.06)
                    _box(axes, (x + 0.22, top - size[1]), size, paint, 0.05)
                _write(axes, x + 0.3, top - (_CHIP_IN - 0.06) / 2, shortened(text, 34), fontsize=8)
            y -= tall + _PAD_IN
    middles = [start + place * (_SITE_IN + _GAP_IN) + _SITE_IN / 2 for place in range(len(jobs))]
    deepest = max((link.level for link in links), default=0)
    for link in links:
        _connect(axes, link, middles, -tallest, deepest)


def _connect(axes: Axes, link: _Link, middles: Sequence[float], bottom: float, deepest: int) -> None:
    """Draw a line from one site to another below both, with its text on it."""
    y = bottom - 0.2 - link.level * _LINK_IN
    # Lines that come from both sides do not meet, and one that lies deeper does not cross those above it.
    shift = 0.12 + 0.09 * (deepest - link.level)
    ends = middles[link.first] + shift, middles[link.last] - shift
    colour = TEMPLATES["interact"] if link.is_direct else TEMPLATES["dispatch"]
    axes.plot(
        [ends[0], ends[0], ends[1], ends[1]],
        [bottom, y, y, bottom],
        color=colour,
        linewidth=1.4,
        solid_joinstyle="round",
    )
    axes.scatter(ends, (bottom, bottom), s=14, color=colour, zorder=3)
    _write(
        axes,
        sum(ends) / 2,
        y,
        link.text,
        ha="center",
        fontsize=7.5,
        color=QUIET_INK,
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.5},
    )


# The time line


@dataclass(frozen=True)
class _Row:
    """A line of the time line: a job, or instances of it."""

    name: str
    job: Job | None
    kind: str = ""
    begins_s: float = 0.0
    ends_s: float = 0.0
    busy_s: float = 0.0


def _rows(plan: Plan) -> list[_Row]:
    assert plan.expected is not None
    times = plan.expected.instances
    rows: list[_Row] = []
    detailed = sum(1 + len(folded(plan, job.instances)) for job in plan.jobs) <= _MOST_ROWS
    for job in plan.jobs:
        rows.append(_Row(job.name, job, begins_s=job.starts_s, ends_s=job.ends_s))
        for name, members in folded(plan, job.instances).items() if detailed else ():
            own = [times[each] for each in members if each in times]
            if own:
                busiest = max(own, key=lambda each: each.busy_s)
                rows.append(
                    _Row(
                        shortened(name, 30),
                        None,
                        plan.by_name[members[0]].kind,
                        min(each.begins_s for each in own),
                        max(each.ends_s for each in own),
                        busiest.busy_s,
                    )
                )
    return rows


def _time_line(axes: Axes, plan: Plan, rows: Sequence[_Row]) -> None:
    from matplotlib.patches import Rectangle

    assert plan.expected is not None
    end = max(plan.expected.makespan_s, max(row.ends_s for row in rows)) or 1.0
    least = 0.003 * end
    axes.set_xlim(-0.01 * end, 1.02 * end)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for number, row in enumerate(rows):
        if row.job is not None:
            if row.begins_s > 0:
                before = Rectangle((0, number - 0.18), row.begins_s, 0.36, facecolor="none", edgecolor=FAINT_INK)
                before.set(linewidth=0.6, hatch="/////")
                axes.add_patch(before)
            width = max(row.ends_s - row.begins_s, least)
            bar = Rectangle(
                (row.begins_s, number - 0.26), width, 0.52, facecolor=_RUNNING.fill, edgecolor=_RUNNING.line
            )
            bar.set(linewidth=0.9)
            axes.add_patch(bar)
            continue
        paint = KINDS[row.kind]
        width = max(row.ends_s - row.begins_s, least)
        axes.add_patch(
            Rectangle((row.begins_s, number - 0.22), width, 0.44, facecolor=paint.fill, edgecolor=paint.line, lw=0.8)
        )
        if row.busy_s > 0:
            share = min(1.0, row.busy_s / width)
            axes.add_patch(Rectangle((row.begins_s, number + 0.1), share * width, 0.12, facecolor=paint.line, lw=0))
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    for text, row in zip(axes.get_yticklabels(), rows, strict=True):
        text.set(color=INK if row.job else QUIET_INK, fontsize=9 if row.job else 8, parse_math=False)
        text.set_fontweight("bold" if row.job else "normal")
    axes.tick_params(axis="y", length=0, pad=6)
    axes.tick_params(axis="x", colors=QUIET_INK, labelsize=8.5, length=3)
    marks = linear_ticks(0, round(end * _SECOND), 8)
    axes.set_xticks([place / _SECOND for place, _ in marks], [text for _, text in marks])
    axes.grid(axis="x", color=FAINT_INK, alpha=0.22, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.axvline(plan.expected.makespan_s, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(FAINT_INK)
    axes.set_xlabel("expected time from the launch", color=INK, fontsize=9, labelpad=4)


def _title(figure: Figure, plan: Plan, width: float, height: float) -> None:
    assert plan.expected is not None
    top = 1 - 0.27 / height
    name = figure.text(_EDGE_IN / width, top, shortened(plan.model, 50), color=INK, fontsize=12.5, fontweight="bold")
    name.set(va="center", parse_math=False)
    note = f"ends after {value_text(plan.expected.makespan_s, Dimension.TIME)}"
    if plan.expected.cost:
        note += f" · costs {plan.expected.cost:.4g}"
    figure.text(1 - _EDGE_IN / width, top, note, color=QUIET_INK, fontsize=9.5, va="center", ha="right")


def _legend(figure: Figure, plan: Plan, rows: Sequence[_Row], height: float, width: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = {plan.by_name[name].kind for job in plan.jobs for name in job.instances}
    handles: list[Patch | Line2D] = [
        Patch(facecolor=paint.fill, edgecolor=paint.line, label=kind) for kind, paint in KINDS.items() if kind in kinds
    ]
    if any(row.busy_s > 0 for row in rows):
        handles.append(Line2D([], [], color=KINDS["submodel"].line, linewidth=3, label="share of it computing"))
    if any(row.job and row.begins_s > 0 for row in rows):
        handles.append(Patch(facecolor="none", edgecolor=FAINT_INK, hatch="/////", label="waits"))
    handles.append(Patch(facecolor=_RUNNING.fill, edgecolor=_RUNNING.line, label="job"))
    for method, colour, label in (("relay", "dispatch", "over relays"), ("tcp", "interact", "directly")):
        if any(route.method == method for route in plan.routes):
            handles.append(Line2D([], [], color=TEMPLATES[colour], linewidth=1.6, label=label))
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.15 / width, 0.03 / height),
        ncols=len(handles),
        frameon=False,
        fontsize=8.5,
        labelcolor=QUIET_INK,
        handlelength=1.5,
        columnspacing=1.4,
    )
