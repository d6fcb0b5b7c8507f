"""Where a model starts and ends, in its coupling picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xmml.graphs.dot import Edge, Node
from xmml.graphs.palette import FAINT_INK, INK

#: One dot with an arrow to each of so many instances; a dot for each if there are more; none in a crowd.
MOST_ARROWS = 3
MOST_DOTS = 40

# No id can hold a colon, so no instance has these names.
_START, _END = ":start", ":end"
_DOTS = {
    _START: {"label": "", "shape": "circle", "width": "0.25", "tooltip": "start"},
    _END: {"label": "", "shape": "doublecircle", "width": "0.14", "tooltip": "end"},
}
_FILLED = {"style": "filled", "fillcolor": INK, "color": INK}
_ARROW = {"dir": "forward", "arrowhead": "vee", "arrowsize": "0.6", "color": FAINT_INK, "penwidth": "1"}


def marks(starting: Sequence[str], ending: Sequence[str], crowd: int) -> list[Node | Edge]:
    """Return the end mark with its edges, then the start mark with its own.

    Args:
        starting, ending: names of the nodes that are marked.
        crowd: how many nodes there are in all.
    """
    return [*_arrows(_END, ending, crowd), *_arrows(_START, starting, crowd)]


def _arrows(mark: str, names: Sequence[str], crowd: int) -> Iterator[Node | Edge]:
    if not names or (len(names) > MOST_ARROWS and crowd > MOST_DOTS):
        return
    shared = len(names) <= MOST_ARROWS
    if shared:
        yield Node(mark, {**_DOTS[mark], **_FILLED})
    for name in names:
        dot = mark if shared else f"{mark}:{name}"
        if not shared:
            yield Node(dot, {**_DOTS[mark], **_FILLED, "width": "0.14", "height": "0.14", "group": name})
        yield Edge(dot, name, _ARROW) if mark == _START else Edge(name, dot, _ARROW)
