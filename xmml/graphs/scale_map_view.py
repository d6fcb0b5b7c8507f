"""The scale separation map: every submodel as a box over time and space, from its grain to its extent, with couplings.

The names are the nodes: they never overlap, and couplings run from name to name, so the map stays legible where boxes
lie on each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xmml.analysis.scale_map import Box, Interval, Link, ScaleMap, scale_map
from xmml.graphs.chips import Chip, Frame, placed
from xmml.graphs.dot import Cluster, Drawing, Edge, Node
from xmml.graphs.palette import CYCLE, FAINT_INK, FONT, INK, PAPER, QUIET_INK, TEMPLATES
from xmml.graphs.quantity_text import shortened
from xmml.graphs.ticks import ticks
from xmml.model import Model
from xmml.units import Dimension

if TYPE_CHECKING:
    import networkx
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_WIDTH_IN, _HEIGHT_IN = 7.6, 5.4
#: A box is at least this wide and high, as a part of its axis: one of no width can still be seen.
_LEAST_SIDE = 0.008
#: More boxes of the same scales than these are drawn as one.
MOST_IN_ONE_PLACE = 4
#: So many boxes have a name and couplings; the others are only drawn.
MOST_NAMES = 60
#: Points per decade in DOT.
_POINTS_PER_DECADE = 72.0


def scale_graph(model: Model) -> networkx.MultiDiGraph:
    """Return the scale separation map as a graph: a node for each submodel, an edge for each template between two.

    Node attributes: `label`, `instances` (ids, separated by blanks), `time.low`, `time.high`, `space.low`, `space.high`
    (decimal logarithms of SI values) and `space_scale` (id of the scale on the second axis); edges have a `template`.
    """
    import networkx

    found = scale_map(model)
    graph = networkx.MultiDiGraph(view="scales", id=model.id, omitted=" ".join(found.omitted))
    for box in found.boxes:
        graph.add_node(
            box.submodel,
            **{
                "label": box.submodel,
                "instances": " ".join(box.instances),
                "time.low": box.time.low,
                "time.high": box.time.high,
                "space.low": box.space.low,
                "space.high": box.space.high,
                "space_scale": box.space_scale,
            },
        )
    for sender, receiver, template in _arrows(found.links):
        graph.add_edge(found.boxes[sender].submodel, found.boxes[receiver].submodel, template=template)
    return graph


def scale_drawing(model: Model) -> Drawing:
    """Return the scale separation map for Graphviz: boxes at fixed places (`neato -n`), 72 points to a decade."""
    found = scale_map(model)
    return Drawing(
        attributes={"layout": "neato", "bgcolor": "white"},
        node_attributes={"shape": "box", "fontname": FONT, "fontcolor": INK, "style": "filled", "fixedsize": "true"},
        edge_attributes={"fontname": FONT, "fontsize": "9", "fontcolor": QUIET_INK},
        content=Cluster(
            "",
            items=[Node(box.submodel, _placement(box, number)) for number, box in enumerate(found.boxes)],
            edges=[
                Edge(
                    found.boxes[sender].submodel,
                    found.boxes[receiver].submodel,
                    {"label": template, "color": TEMPLATES[template]},
                )
                for sender, receiver, template in _arrows(found.links)
            ],
        ),
    )


def _placement(box: Box, number: int) -> dict[str, str]:
    x, y = ((side.low + side.high) / 2 * _POINTS_PER_DECADE for side in (box.time, box.space))
    colour = CYCLE[number % len(CYCLE)]
    return {
        "pos": f"{x:.2f},{y:.2f}!",
        "width": f"{max(box.time.width, 0.05):.3f}",
        "height": f"{max(box.space.width, 0.05):.3f}",
        "color": colour,
        "fillcolor": f"{colour}1f",
    }


def _arrows(links: Sequence[Link]) -> list[tuple[int, int, str]]:
    return [(link.sender, link.receiver, template) for link in links for template in link.templates]


def scale_figure(model: Model) -> Figure:
    """Return the scale separation map as a figure with logarithmic axes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    found = scale_map(model)
    with rc_context({"font.size": 10, "axes.linewidth": 0.8, "text.parse_math": False}):  # names are no formulas
        figure = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN), facecolor=PAPER)
        axes = figure.add_axes((0.13, 0.2, 0.84, 0.7))
        figure.text(0.13, 0.945, model.name or model.id, color=INK, fontsize=12, fontweight="bold", va="center")
        if found.time is None or found.space is None:
            _say_nothing_to_draw(axes)
        else:
            _draw(figure, axes, found, found.time, found.space, _second_dimension(model, found))
        if found.omitted:
            names = ", ".join(found.omitted[:6]) + (", …" if len(found.omitted) > 6 else "")
            figure.text(0.97, 0.03, f"not drawn, for want of a scale: {names}", color=QUIET_INK, fontsize=8, ha="right")
    return figure


def _say_nothing_to_draw(axes: Axes) -> None:
    axes.set_axis_off()
    words = "No submodel has both a time scale and another scale,\nso there is nothing to draw here."
    axes.text(0.5, 0.5, words, ha="center", va="center", color=QUIET_INK, transform=axes.transAxes)


def _second_dimension(model: Model, found: ScaleMap) -> tuple[Dimension, str]:
    """Return what the second axis measures, and its title."""
    kinds, names = set(), set()
    for box in found.boxes:
        instance = model.instances[box.instances[0]]
        kinds.add("space" if box.space_scale in {scale.id for scale in instance.spacescales} else "other")
        names.add(box.space_scale)
    if kinds == {"space"}:
        return Dimension.SPACE, "space"
    return Dimension.NONE, next(iter(names)) if len(names) == 1 and "space" not in kinds else "space or another scale"


def _draw(
    figure: Figure, axes: Axes, found: ScaleMap, time: Interval, space: Interval, second: tuple[Dimension, str]
) -> None:
    _frame(axes, time, space, second)
    piles, pile_of = _piles(found.boxes)
    for number, pile in enumerate(piles):
        _rectangle(axes, pile[0], CYCLE[number % len(CYCLE)])
    chips = _names(figure, axes, piles[:MOST_NAMES])
    arrows = dict.fromkeys((pile_of[one], pile_of[other], template) for one, other, template in _arrows(found.links))
    for sender, receiver, template in arrows:
        if sender != receiver and max(sender, receiver) < len(chips):
            _arrow(figure, axes, chips[sender], chips[receiver], TEMPLATES[template])
    _legend(figure, [template for template in TEMPLATES if template in {arrow[2] for arrow in arrows}])


def _piles(boxes: Sequence[Box]) -> tuple[list[list[Box]], list[int]]:
    """Return the boxes, many of the same scales as one pile, and the pile of each box."""
    alike = Counter((box.time, box.space) for box in boxes)
    piles: dict[object, list[Box]] = {}
    for box in boxes:
        scales = (box.time, box.space)
        key: object = scales if alike[scales] > MOST_IN_ONE_PLACE else box.submodel
        piles.setdefault(key, []).append(box)
    numbers = {id(box): number for number, pile in enumerate(piles.values()) for box in pile}
    return list(piles.values()), [numbers[id(box)] for box in boxes]


def _frame(axes: Axes, time: Interval, space: Interval, second: tuple[Dimension, str]) -> None:
    horizontal, vertical = _padded(time), _padded(space)
    axes.set_xlim(horizontal.low, horizontal.high)
    axes.set_ylim(vertical.low, vertical.high)
    for axis, side, dimension in ((axes.xaxis, horizontal, Dimension.TIME), (axes.yaxis, vertical, second[0])):
        marks = ticks(side.low, side.high, dimension)
        axis.set_ticks([place for place, _ in marks], [text for _, text in marks])
    axes.tick_params(colors=QUIET_INK, labelsize=9, length=3, labelcolor=INK)
    axes.set_xlabel("time", color=INK, labelpad=6)
    axes.set_ylabel(second[1], color=INK, labelpad=8)
    axes.grid(color=FAINT_INK, alpha=0.25, linewidth=0.7)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(FAINT_INK)


def _padded(side: Interval) -> Interval:
    margin = 0.06 * side.width
    return Interval(side.low - margin, side.high + margin)


def _rectangle(axes: Axes, box: Box, colour: str) -> None:
    from matplotlib.patches import Rectangle

    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    x, width = _visible(box.time, (right - left) * _LEAST_SIDE)
    y, height = _visible(box.space, (top - bottom) * _LEAST_SIDE)
    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, alpha=0.1, linewidth=0))
    axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=colour, linewidth=1.6))


def _visible(side: Interval, least: float) -> tuple[float, float]:
    width = max(side.width, least)
    return (side.low + side.high - width) / 2, width


def _names(figure: Figure, axes: Axes, piles: Sequence[Sequence[Box]]) -> list[Chip]:
    """Write the names of the boxes where they do not overlap, and return their places [points]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer: RendererBase = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    texts = []
    for number, pile in enumerate(piles):
        count = f" ×{len(pile[0].instances)}" if len(pile[0].instances) > 1 else ""
        rest = f" and {len(pile) - 1} more" if len(pile) > 1 else ""
        texts.append(_name(axes, shortened(pile[0].submodel, 28) + count + rest, CYCLE[number % len(CYCLE)]))
    points = 72 / figure.dpi
    sizes = []
    for text in texts:
        extent = text.get_window_extent(renderer)
        sizes.append((extent.width * points + 8, extent.height * points + 6))

    def frame(left: float, bottom: float, right: float, top: float) -> Frame:
        corners = axes.transData.transform([(left, bottom), (right, top)]) * points
        return float(corners[0][0]), float(corners[0][1]), float(corners[1][0]), float(corners[1][1])

    frames = [frame(box.time.low, box.space.low, box.time.high, box.space.high) for box, *_ in piles]
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    chips = placed(frames, sizes, frame(left, bottom, right, top))
    for text, chip in zip(texts, chips, strict=True):
        x, y = axes.transData.inverted().transform((chip.x / points, chip.y / points))
        text.set_position((float(x), float(y)))
    return chips


def _name(axes: Axes, name: str, colour: str) -> Text:
    text = axes.text(axes.get_xlim()[0], axes.get_ylim()[0], name, color=colour, ha="center", va="center", zorder=5)
    text.set(fontsize=10, fontweight="bold", parse_math=False)
    text.set_bbox({"boxstyle": "round,pad=0.28", "facecolor": PAPER, "edgecolor": colour, "linewidth": 1})
    return text


def _arrow(figure: Figure, axes: Axes, sender: Chip, receiver: Chip, colour: str) -> None:
    from matplotlib.patches import FancyArrowPatch, Rectangle
    from matplotlib.transforms import Affine2D

    points = Affine2D().scale(1 / 72) + figure.dpi_scale_trans
    ends = [
        Rectangle(
            (chip.x - chip.width / 2, chip.y - chip.height / 2),
            chip.width,
            chip.height,
            transform=points,
            visible=False,
        )
        for chip in (sender, receiver)
    ]
    axes.add_artist(
        FancyArrowPatch(
            (sender.x, sender.y),
            (receiver.x, receiver.y),
            patchA=ends[0],
            patchB=ends[1],
            transform=points,
            connectionstyle="arc3,rad=0.22",
            arrowstyle="-|>,head_length=5,head_width=2.6",
            color=colour,
            linewidth=1.3,
            shrinkA=1,
            shrinkB=1,
            zorder=4,
            clip_on=False,
        )
    )


def _legend(figure: Figure, templates: Sequence[str | None]) -> None:
    from matplotlib.lines import Line2D

    if not templates:
        return
    handles = [Line2D([], [], color=TEMPLATES[template], linewidth=1.6, label=str(template)) for template in templates]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.12, 0.005),
        ncols=len(handles),
        frameon=False,
        fontsize=8.5,
        labelcolor=QUIET_INK,
        handlelength=1.6,
    )
