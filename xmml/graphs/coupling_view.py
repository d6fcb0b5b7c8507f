"""The coupling topology as a drawing in the manner of gMML: instances, couplings, operators as symbols at their ends.

Large models stay legible: the more couplings there are, the less is written on them, and couplings between the same
two operators of the same two instances become one; beyond a few hundred boxes those of one definition in one domain
are folded into one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xmml.analysis.templates import Template, templates
from xmml.graphs.clusters import clustered
from xmml.graphs.coupling_graph import ends, operators, starts
from xmml.graphs.dot import Drawing, Edge, Html, Node, escaped, literal
from xmml.graphs.legend import legend
from xmml.graphs.marks import marks
from xmml.graphs.palette import FONT, INK, KINDS, QUIET_INK, TEMPLATES
from xmml.graphs.quantity_text import number_text, scale_text
from xmml.model import AppliedFilter, Coupling, Instance, Model

Direction = Literal["LR", "TB"]

#: Up to so many drawn edges, ports are written on them; up to so many, names and filters; beyond, nothing.
EDGES_WITH_PORTS = 60
EDGES_WITH_NAMES = 200
#: Beyond so many boxes or edges, instances of one definition in one domain become one box.
MOST_BOXES = 300
MOST_EDGES = 1200

_NOTE = "Instances of one definition in one domain are drawn as one box."
_SHAPES = {"submodel": "box", "mapper": "hexagon", "terminal": "cds"}
_TAILS = {"Oi": "dot", "Of": "diamond"}
_HEADS = {"finit": "odiamond", "B": "onormal", "S": "odot"}


@dataclass(frozen=True)
class _Box:
    """What is drawn as one node: an instance, or several of one definition in one domain."""

    name: str
    instances: tuple[Instance, ...]

    @property
    def instance(self) -> Instance:
        return self.instances[0]


@dataclass(frozen=True)
class _Line:
    """What is drawn as one edge: couplings between the same operators of the same boxes."""

    tail: str
    head: str
    operators: tuple[str | None, str | None]
    template: str | None
    couplings: tuple[Coupling, ...]


def coupling_view(model: Model, direction: Direction = "LR", fold: bool = True) -> Drawing:
    """Return the drawing of a model's coupling topology. Linear in instances and couplings.

    Args:
        direction: whether it grows to the right or downwards.
        fold: whether a model too large for one box per instance is folded by definition and domain.
    """
    boxes = [_Box(instance.id, (instance,)) for instance in model.instances.values()]
    lines = _lines(model, {box.name: box.name for box in boxes})
    is_folded = fold and (len(boxes) > MOST_BOXES or len(lines) > MOST_EDGES)
    if is_folded:
        boxes = _folded(model.instances.values())
        lines = _lines(model, {instance.id: box.name for box in boxes for instance in box.instances})
    elif len(model.couplings) <= EDGES_WITH_PORTS:
        lines = [replace(line, couplings=(one,)) for line in lines for one in line.couplings]
    starting, ending = _marked(boxes, starts(model)), _marked(boxes, ends(model))
    return Drawing(
        attributes={
            "rankdir": direction,
            "fontname": FONT,
            "fontsize": "11",
            "fontcolor": INK,
            "label": legend(
                model,
                {line.template for line in lines},
                {operator for line in lines for operator in line.operators},
                _NOTE if is_folded else "",
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
            [Edge(line.tail, line.head, _edge(line, len(lines))) for line in lines],
        ),
        last=marks(starting, ending, len(boxes)),
    )


def _lines(model: Model, box_of: dict[str, str]) -> list[_Line]:
    found: dict[tuple[str, str, tuple[str | None, str | None], Template | None], list[Coupling]] = {}
    for coupling, possible in zip(model.couplings, templates(model), strict=True):
        between = (box_of[coupling.sender.instance], box_of[coupling.receiver.instance])
        template = next(iter(possible)) if len(possible) == 1 else None
        found.setdefault((*between, operators(model, coupling), template), []).append(coupling)
    return [
        _Line(tail, head, at_ends, template, tuple(couplings))
        for (tail, head, at_ends, template), couplings in found.items()
    ]


def _folded(instances: Iterable[Instance]) -> list[_Box]:
    groups: dict[tuple[str | None, str, str], list[Instance]] = {}
    for instance in instances:
        groups.setdefault((instance.domain, instance.kind, instance.definition.id), []).append(instance)
    return [_Box(group[0].id, tuple(group)) for group in groups.values()]


def _marked(boxes: Sequence[_Box], instances: frozenset[str]) -> list[str]:
    return [box.name for box in boxes if any(instance.id in instances for instance in box.instances)]


# --- nodes


def _node(box: _Box) -> Node:
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


def _node_label(box: _Box) -> Html:
    instance = box.instance
    if len(box.instances) > 1:
        names = ", ".join(one.id for one in box.instances[:2])
        head = f"<B>{len(box.instances)} × {escaped(instance.definition.id)}</B>"
        return Html(f"{head}<BR/>{_small(f'{names}, …')}")
    copies = (
        ""
        if not instance.is_multiplied
        else f"  <B>×{'n' if instance.multiplicity == 'dynamic' else instance.multiplicity}</B>"
    )
    rows = [f"<B>{escaped(instance.id)}</B>{copies}"]
    if instance.definition.id != instance.id:
        rows.append(f'<FONT POINT-SIZE="10.5"><I>{escaped(instance.definition.id)}</I></FONT>')
    rows += [_small(text) for text in _scale_rows(instance)]
    return Html("<BR/>".join(rows))


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


def _edge(line: _Line, drawn: int) -> dict[str, str]:
    sender, receiver = line.operators
    colour = TEMPLATES[line.template]
    attributes = {
        "arrowtail": _TAILS.get(sender or "", "none"),
        "arrowhead": _HEADS.get(receiver or "", "vee"),
        "color": colour,
        "tooltip": literal(_edge_tooltip(line)),
    }
    label = _edge_label(line, drawn)
    if label:
        attributes = {"label": label, "labeltooltip": attributes["tooltip"], **attributes}
    return attributes


def _edge_label(line: _Line, drawn: int) -> Html | None:
    if drawn > EDGES_WITH_NAMES:
        return None
    if len(line.couplings) > 1:
        return Html(f"{len(line.couplings)} couplings")
    [coupling] = line.couplings
    rows = []
    if coupling.name:
        rows.append(f'<FONT COLOR="{INK}" POINT-SIZE="10.5">{escaped(coupling.name)}</FONT>')
    if drawn <= EDGES_WITH_PORTS:
        ports = (coupling.sender.port, coupling.receiver.port)
        rows.append(escaped(ports[0] if ports[0] == ports[1] else " → ".join(ports)))
    rows += [f'<FONT COLOR="{INK}"><I>{escaped(_filter_text(one))}</I></FONT>' for one in coupling.filters]
    return Html("<BR/>".join(rows)) if rows else None


def _filter_text(applied: AppliedFilter) -> str:
    return applied.definition.id + (f" {number_text(applied.factor)}" if applied.factor is not None else "")


def _edge_tooltip(line: _Line) -> str:
    rows = [f"{coupling}" for coupling in line.couplings[:10]]
    if len(line.couplings) > 10:
        rows.append(f"and {len(line.couplings) - 10} more")
    if line.template:
        rows.append(line.template)
    return "\n".join(rows)


def _small(text: str) -> str:
    return f'<FONT POINT-SIZE="9" COLOR="{QUIET_INK}">{escaped(text)}</FONT>'
