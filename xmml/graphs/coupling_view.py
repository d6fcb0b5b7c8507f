"""The coupling topology as a drawing in the manner of gMML: instances, couplings, operators as symbols at their ends.

Large models stay legible: the more lines there are, the less is written on them, and many instances become fewer boxes
(see `folding`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from xmml.builtins import TERMINALS_OF_OBJECTS
from xmml.graphs.clusters import clustered
from xmml.graphs.coupling_graph import ends, starts
from xmml.graphs.dot import Drawing, Edge, Html, Node, escaped, literal
from xmml.graphs.folding import Box, Line, in_order, rank_distances, topology
from xmml.graphs.legend import legend
from xmml.graphs.marks import marks
from xmml.graphs.palette import FONT, INK, KINDS, POOL, QUIET_INK, TEMPLATES
from xmml.graphs.quantity_text import number_text, scale_text, shortened, wrapped
from xmml.model import AppliedFilter, Coupling, Instance, Model, PoolCoupling

Direction = Literal["LR", "TB"]

#: Up to so many drawn lines, ports are written on them; up to so many, names and filters; beyond, nothing.
LINES_WITH_PORTS = 60
LINES_WITH_NAMES = 200

#: Longer names lose their middle; all of them are in the tooltips.
LONGEST_TEXT = 40

#: A selector has so many lines; the rest of a longer one is in the tooltip.
LINES_OF_SELECTOR = 3

_SHAPES = {"submodel": "box", "mapper": "hexagon", "terminal": "cds"}
_TAILS = {"Oi": "dot", "Of": "diamond"}
_HEADS = {"finit": "odiamond", "B": "onormal", "S": "odot"}


def coupling_view(model: Model, direction: Direction = "LR", fold: bool = True) -> Drawing:
    """Return the drawing of a model's coupling topology. Linear in instances and couplings.

    Args:
        direction: whether it grows to the right or downwards.
        fold: whether in large models several instances may become one box.
    """
    shown = topology(model, fold)
    lines = shown.lines
    boxes = in_order(shown, starts(model))
    distances = rank_distances(lines)
    starting, ending = _marked(boxes, starts(model)), _marked(boxes, ends(model))
    return Drawing(
        attributes={
            "rankdir": direction,
            # Or each domain would be ranked for itself; where there are none, networks would become flat.
            **({"newrank": "true"} if any(box.instance.domain for box in boxes) else {}),
            "fontname": FONT,
            "fontsize": "11",
            "fontcolor": INK,
            "label": legend(
                model,
                {line.template for line in lines},
                {operator for line in lines if not line.is_pool for operator in line.operators},
                any(line.carries_state for line in lines),
                [line.is_latest for line in lines if line.is_pool],
                shown.note,
            ),
            "labelloc": "b",
            "labeljust": "l",
            "nodesep": "0.35",
            "ranksep": "0.7",
            "pad": "0.25",
            "bgcolor": "white",
            "tooltip": literal(model.name or model.id),
        },
        node_attributes={
            "fontname": FONT,
            "fontsize": "13",
            "fontcolor": INK,
            "penwidth": "1.3",
            "margin": "0.16,0.09",
        },
        edge_attributes={
            "fontname": FONT,
            "fontsize": "9",
            "fontcolor": QUIET_INK,
            "dir": "both",
            "arrowsize": "0.85",
            "penwidth": "1.4",
        },
        content=clustered(
            {box.name: box.instance.domain for box in boxes},
            [_node(box) for box in boxes],
            [
                Edge(line.tail, line.head, _edge(line, len(lines), distances.get((line.tail, line.head), 1)))
                for line in lines
            ],
        ),
        last=marks(starting, ending, len(boxes)),
    )


def _marked(boxes: Sequence[Box], instances: frozenset[str]) -> list[str]:
    return [box.name for box in boxes if any(instance.id in instances for instance in box.instances)]


# --- nodes


def _node(box: Box) -> Node:
    instance = box.instance
    paint = KINDS[instance.kind]
    attributes = {
        "label": _node_label(box),
        "shape": _SHAPES[instance.kind],
        "style": "rounded,filled" if instance.kind == "submodel" else "filled",
        "fillcolor": paint.fill,
        "color": paint.line,
        "tooltip": literal(_node_tooltip(instance)),
    }
    if instance.kind == "terminal":
        attributes["height"] = "0.7"  # the label of this shape lies high
    if len(box.instances) > 1 or instance.is_multiplied:
        attributes["peripheries"] = "2"
    return Node(box.name, attributes)


def _node_label(box: Box) -> Html:
    instance = box.instance
    if len(box.instances) > 1:
        names = ", ".join(one.id for one in box.instances[:2])
        head = f"<B>{len(box.instances)} × {_short(instance.definition.id)}</B>"
        return Html(f"{head}<BR/>{_small(f'{names}, …')}")
    copies = (
        ""
        if not instance.is_multiplied
        else f"  <B>×{'n' if instance.multiplicity == 'dynamic' else instance.multiplicity}</B>"
    )
    rows = [f"<B>{_short(instance.id)}</B>{copies}"]
    if instance.definition.id != instance.id:
        rows.append(f'<FONT POINT-SIZE="10.5"><I>{_short(instance.definition.id)}</I></FONT>')
    rows += [_small(text) for text in _class_rows(instance)]
    rows += [_small(text) for text in _scale_rows(instance)]
    return Html("<BR/>".join(rows))


def _class_rows(instance: Instance) -> list[str]:
    """Return that a terminal keeps objects, unless a name of it says so."""
    class_ = instance.definition.class_
    is_shown = instance.kind == "terminal" and class_ in TERMINALS_OF_OBJECTS
    names = (instance.id.lower(), instance.definition.id.lower())
    return [class_] if is_shown and class_ is not None and class_ not in names else []


def _scale_rows(instance: Instance) -> list[str]:
    """Return one line for each scale; space scales that are alike share one."""
    rows: dict[str, list[str]] = {}
    for scale in instance.scales:
        if scale.delta is not None or scale.total is not None:
            dimensions = f" ({scale.dimensions}D)" if scale.dimensions and scale.dimensions > 1 else ""
            rows.setdefault(scale_text(scale), []).append(scale.id + dimensions)
    shown = [f"{', '.join(ids)}: {text}" for text, ids in rows.items()]
    if instance.until:
        shown.append("stops by itself")
    return shown


def _node_tooltip(instance: Instance) -> str:
    rows = [f"{instance.kind} {instance.id} of {instance.definition.id}"]
    if instance.kind == "submodel":
        rows.append(f"{'at most ' if instance.until else ''}{instance.steps} iterations per run")
    if instance.domain:
        rows.append(f"domain {instance.domain}")
    return "\n".join(rows)


# --- edges


def _edge(line: Line, drawn: int, distance: int) -> dict[str, str]:
    sender, receiver = line.operators
    colour = TEMPLATES[line.template]
    attributes = {
        "arrowtail": _TAILS.get(sender or "", "none"),
        "arrowhead": _HEADS.get(receiver or "", "vee"),
        "color": colour,
        "tooltip": literal(_edge_tooltip(line)),
    }
    if line.carries_state:
        attributes["style"] = "dashed"
    if line.is_pool:
        attributes.update(style="dotted" if line.is_latest else "dashed", color=POOL)
    if distance > 1:
        attributes["minlen"] = str(distance)
    label = _edge_label(line, drawn)
    if label:
        attributes = {"label": label, "labeltooltip": attributes["tooltip"], **attributes}
    return attributes


def _edge_label(line: Line, drawn: int) -> Html | None:
    if drawn > LINES_WITH_NAMES:
        return None
    if len(line.couplings) > 1:
        return Html(f"{len(line.couplings)} couplings")
    [coupling] = line.couplings
    rows = []
    if coupling.name:
        rows.append(f'<FONT COLOR="{INK}" POINT-SIZE="10.5">{_short(coupling.name)}</FONT>')
    if drawn <= LINES_WITH_PORTS:
        ports = (coupling.sender.port, coupling.receiver.port)
        rows.append(_short(ports[0] if ports[0] == ports[1] else " → ".join(ports)))
    below = [*_of_pool(coupling)] if isinstance(coupling, PoolCoupling) else map(_filter_text, coupling.filters)
    rows += [f'<FONT COLOR="{INK}"><I>{_short(text)}</I></FONT>' for text in below if text]
    return Html("<BR/>".join(rows)) if rows else None


def _filter_text(applied: AppliedFilter) -> str:
    return applied.definition.id + (f" {number_text(applied.factor)}" if applied.factor is not None else "")


def _edge_tooltip(line: Line) -> str:
    rows = [_said(coupling) for coupling in line.couplings[:10]]
    if len(line.couplings) > 10:
        rows.append(f"and {len(line.couplings) - 10} more")
    if line.template or line.carries_state:
        rows.append(line.template or "state for the next run")
    rows += sorted({each.noun for each in line.couplings if isinstance(each, PoolCoupling)})
    return "\n".join(rows)


def _of_pool(coupling: PoolCoupling) -> Iterator[str]:
    """Yield what is written at the line of a pool: that it is more than a dashed line says, and who gets what."""
    if coupling.is_queue or coupling.may_lose or coupling.is_latest:
        yield coupling.noun
    yield from wrapped(coupling.select, LONGEST_TEXT, LINES_OF_SELECTOR)


def _said(coupling: Coupling | PoolCoupling) -> str:
    select = coupling.select if isinstance(coupling, PoolCoupling) else ""
    return f"{coupling}: {select}" if select else f"{coupling}"


def _short(text: str) -> str:
    return escaped(shortened(text, LONGEST_TEXT))


def _small(text: str) -> str:
    return f'<FONT POINT-SIZE="9" COLOR="{QUIET_INK}">{escaped(text)}</FONT>'
